"""Changes of the log written from their values: the bytes are those of their records, whatever the rows contain."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.binlog_encoder import bits, decimal, description, event, field, high_bits, row, rows_body
from tests.unit.connectors.mysql.streaming.logged_transactions import gtid, query, with_checksum
from tests.unit.connectors.mysql.streaming.test_mysql_events import GTIDS, START, Stream
from tests.unit.connectors.postgres.test_text_batches import converters, messages
from worker.errors.batch_failures import BatchFailures
from worker.source.encoding import encode


class WideStream(Stream):
    """The stream of a table whose values have several forms."""

    ddl = (
        "CREATE TABLE t (id INT, price DECIMAL(10,2) DEFAULT 1.50, total DECIMAL(20,0), score DOUBLE, name VARCHAR(20), "
        "secret VARCHAR(20), big BIGINT UNSIGNED, PRIMARY KEY (id, price, secret))"
    )


def text(value: str) -> bytes:
    data = value.encode()
    return bytes([len(data)]) + data


TABLE = [(3, b""), (246, b"\x0a\x02"), (246, b"\x14\0"), (5, b"\x08"), (15, b"\x50\0"), (15, b"\x50\0"), (8, b"")]
KEY = (0, 1, 5)
VALUES: list[list[bytes | None]] = [
    [struct.pack("<i", n) for n in (1, -2)],
    [decimal(n, 10, 2) for n in (0, -1, 127, 128, 32_768, 8_388_608, -9_999_999_999)],
    [decimal(n, 20, 0) for n in (5, -(10**20) + 1, 10**20 - 1)] + [None],
    [struct.pack("<d", n) for n in (0.0, -0.0, 0.001, 1e7, -12.25, 0.1, 1e-5, 9999999.999)] + [None],
    [text(n) for n in ("plain", 'quoted"\\', "\0", "Z\u00fcrich", "\U0001f600")] + [None],
    [text(n) for n in ("hidden", "other")],
    [struct.pack("<Q", n) for n in (7, 1 << 62)] + [None],
]
Image = Sequence[bytes | None]
_IMAGES = st.tuples(*map(st.sampled_from, VALUES))
_FIRST = [values[0] for values in VALUES]
_NEGATIVE_ZERO = [*_FIRST[:3], VALUES[3][1], *_FIRST[4:]]
_UPDATES = st.tuples(_IMAGES, _IMAGES, st.tuples(*[st.booleans()] * len(TABLE))).map(
    lambda drawn: (drawn[0], tuple(a if keeps else b for a, b, keeps in zip(*drawn, strict=True)))
)


def rows_event(code: int, images: Sequence[Image], at: int) -> bytes:
    after = bits([1] * len(TABLE)) if code == 31 else None
    return event(code, rows_body(b"".join(map(row, images)), len(TABLE), after=after), next_position=at)


@pytest.mark.parametrize(
    "options",
    [
        {"schemas.enable": "false"},
        {},
        {"schemas.enable": "false", "decimal.format": "NUMERIC"},
        {"schemas.enable": "false", "conversion.strict": "true"},
    ],
    ids=lambda s: ",".join(f"{k}={v}" for k, v in s.items()) or "default",
)
@pytest.mark.parametrize(
    "config", [{}, {"column_mask_with_8_chars": "db.t.secret"}, {"decimal_handling_mode": "double"}], ids=str
)
@settings(deadline=None, max_examples=15)
@given(
    st.lists(_IMAGES, min_size=1, max_size=3),
    st.lists(_UPDATES, min_size=1, max_size=4),
    st.lists(_IMAGES, min_size=1, max_size=2),
)
@example([_FIRST], [(_FIRST, _NEGATIVE_ZERO), (_NEGATIVE_ZERO, _FIRST)], [_FIRST])
def test_bytes_are_those_of_records(
    config: dict[str, str],
    options: dict[str, str],
    created: list[Image],
    updated: list[tuple[Image, Image]],
    deleted: list[Image],
) -> None:
    stream = WideStream(START, provide_transaction_metadata="false", **config)
    is_nullable = [None in values for values in VALUES]
    described = description(TABLE, optional=field(1, high_bits([0, 0, 0, 0, 1])), nullable=is_nullable)
    for data in (
        gtid(6, 1100),
        query("BEGIN", 1200),
        event(19, (99).to_bytes(6, "little") + b"\1\0" + described, next_position=1250),
        rows_event(30, created, 1300),
        rows_event(31, [image for pair in updated for image in pair], 1400),
        rows_event(32, deleted, 1500),
    ):
        stream.emitter.on_event(with_checksum(data))
    batch = stream.emitter.take_records()
    changes_key = any(before[i] != after[i] for before, after in updated for i in KEY)
    assert changes_key or not any(isinstance(part, list) for part in batch.parts)
    found = [message for run in encode(converters(**options), batch, BatchFailures()) for message in messages(run.run)]
    from_records = encode(converters(**options), list(batch), BatchFailures())
    assert found == [message for run in from_records for message in messages(run.run)]
    assert batch.source_offset == list(batch)[-1].source_offset
    assert batch.source_offset["gtids"] == GTIDS
