"""Positions in the source's log, as texts that sort like the changes."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.converters.json.converter import JsonConverter
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.record import SinkRecord
from connectors.cdc.schema.envelope import row_schemas
from connectors.postgres.schema.source_block import LSN as LSN_AT
from connectors.postgres.schema.source_block import SEQUENCE, SOURCE, source_values
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.source_block import source_positions
from connectors.spark.decode.topic_decoder import TopicDecoder

LSN = st.integers(0, (1 << 63) - 1)
SCHEMAS = row_schemas("shop.public.t", SOURCE, [("id", Schema.INT64)], [])
LAST = "9223372036854775807"


def positions(*blocks: dict[str, Any]) -> list[str | None]:
    types = {"sequence": pa.string(), "lsn": pa.int64(), "file": pa.string(), "pos": pa.int64(), "row": pa.int64()}
    found: list[str | None] = source_positions(*(pa.array([b.get(n) for b in blocks], t) for n, t in types.items())).to_pylist()
    return found


@given(st.lists(st.tuples(st.none() | LSN, LSN), min_size=1))
def test_positions_of_postgres_sort_by_commit_and_then_by_change(changes: list[tuple[int | None, int]]) -> None:
    blocks = [{"sequence": json.dumps([None if c is None else str(c), str(lsn)]), "lsn": lsn} for c, lsn in changes]
    found = positions(*blocks)
    keys = [(c or 0, lsn) for c, lsn in changes]
    assert all(text is not None and len(text) == 41 for text in found)
    assert sorted(range(len(keys)), key=lambda at: found[at] or "") == sorted(range(len(keys)), key=keys.__getitem__)


@given(st.lists(st.tuples(st.integers(0, 999_999), LSN, st.integers(0, 9999)), min_size=1))
def test_positions_of_mysql_sort_by_file_position_and_row(changes: list[tuple[int, int, int]]) -> None:
    found = positions(*({"file": f"mysql-bin.{f:06d}", "pos": p, "row": r} for f, p, r in changes))
    assert sorted(range(len(changes)), key=lambda at: found[at] or "") == sorted(range(len(changes)), key=changes.__getitem__)


@pytest.mark.parametrize(
    ("block", "position"),
    [
        ({"sequence": '["12","34"]', "lsn": 34}, "00000000000000000012.00000000000000000034"),
        ({"sequence": f'[null, "{LAST}"]'}, f"00000000000000000000.0{LAST}"),
        ({"lsn": 34}, "00000000000000000000.00000000000000000034"),
        ({"sequence": "?", "lsn": 34}, "00000000000000000000.00000000000000000034"),
        ({"file": "binlog.000012", "pos": 4, "row": 1}, "0000000012.00000000000000000004.0000000001"),
        ({"file": "binlog.000012", "pos": 4}, "0000000012.00000000000000000004.0000000000"),
        ({"file": "binlog", "pos": 4, "row": 1}, None),
        ({"file": "binlog.1"}, None),
        ({"lsn": -1}, None),
        ({"sequence": "[null,null]"}, None),
        ({}, None),
    ],
)
def test_positions_of_single_changes(block: dict[str, Any], position: str | None) -> None:
    assert positions(block) == [position]
    assert positions({}, block, {"lsn": 1})[1] == position


def event(sequence: str, lsn: int) -> Struct:
    values = source_values("1", "shop", "shop", "public", "t")
    values[SEQUENCE], values[LSN_AT] = sequence, lsn
    source = Struct(SOURCE, values)
    row = Struct(SCHEMAS.value, [lsn])
    return Struct(SCHEMAS.envelope, [None, row, source, None, "c", 1, None, None])


@pytest.mark.parametrize("schemas", [True, False])
@pytest.mark.parametrize("needed", [True, False])
def test_every_path_fills_positions_when_they_are_needed(schemas: bool, needed: bool) -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": str(schemas).lower()}, is_key=False)
    events = [event('[null,"7"]', 7), event('["7","9"]', 9)]
    lines = [*(converter.from_connect_data("t", e.schema, e) for e in events), None]
    records = [SinkRecord("t", 0, None, None, e.schema, e, at) for at, e in enumerate(events)]
    plain = [SinkRecord("t", 0, None, None, None, e.as_dict(), at) for at, e in enumerate(events)]
    raw = RawBuffer("t", [0] * 3, [0, 1, 2], [None] * 3, lines)

    def decoder() -> TopicDecoder:
        return TopicDecoder(
            "t", converter, converter, key_schemas=schemas, value_schemas=schemas, fill_defaults=False, key_name=None,
            needs_names=True, needs_keys=False, needs_position=needed,
        )  # fmt: skip

    wanted = ["00000000000000000000.00000000000000000007", "00000000000000000007.00000000000000000009"] if needed else [None] * 2
    for batches in (
        decoder().decode_batch(raw, 0),
        decoder().decode_exactly(raw, 0),
        decoder().decode_records(records),
        decoder().decode_records(plain),
    ):
        found = [p for batch in batches for p in batch.meta["position"].to_pylist()]
        assert found[:2] == wanted
        assert found[2:] in ([], [None])  # a tombstone has no source block
        assert batches[0].meta["table"].to_pylist() == ["t", "t"]


def test_a_position_of_another_type_is_unknown_and_not_an_error() -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    value = {"op": "c", "before": None, "after": {"id": 1}, "source": {"ts_ms": 1, "lsn": "0/15", "row": [1]}}
    reader = TopicDecoder(
        "t", converter, converter, key_schemas=False, value_schemas=False, fill_defaults=False, key_name=None,
        needs_names=False, needs_keys=False, needs_position=True,
    )  # fmt: skip
    (batch,) = reader.decode_raw(RawBuffer("t", [0], [0], [None], [json.dumps(value).encode()]), 0)
    assert batch.meta["position"].to_pylist() == [None]
    assert batch.meta["source_ms"].to_pylist() == [1]
