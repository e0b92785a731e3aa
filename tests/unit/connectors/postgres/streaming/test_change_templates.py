"""Streamed changes written from their texts: the bytes are those of their records, whatever the rows contain."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.converters.string import StringConverter
from connect.data.headers import Header
from connect.data.schema import Schema
from connect.record import SourceRecord
from connect.text_records import MixedTextRecords
from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import PostgresConfig, parse_config
from connectors.postgres.offsets import StreamPosition
from connectors.postgres.schema import source_block as block
from connectors.postgres.schema.catalog import CapturedColumn, CapturedTable
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.streaming import pgoutput
from connectors.postgres.streaming.event_emitter import ChangeEventEmitter
from tests.unit.connectors.postgres.test_text_batches import CATALOG, CONFIG, DEFAULTS, RULES, TYPES, converters, messages
from worker.errors.batch_failures import BatchFailures
from worker.source.encoding import EncodedRun, encode
from worker.source.pending_offsets import PendingOffsets
from worker.tasks.converters import Converters

KEY = (0, 3)
TOAST = [25, 17]
"""The types whose values can be unavailable."""
UNCHANGED = b"u"
Value = str | bytes | None


def column_bytes(value: Value) -> bytes:
    if isinstance(value, str):
        data = value.encode()
        return b"t" + struct.pack("!I", len(data)) + data
    return b"n" if value is None else value


def tuple_bytes(values: Sequence[Value]) -> bytes:
    return struct.pack("!H", len(values)) + b"".join(map(column_bytes, values))


class Stream:
    """An emitter and the messages of its server, over tables of all types. A table's relation ID is its number."""

    def __init__(self, tables: Sequence[TableRows], configured: PostgresConfig) -> None:
        self.tables = tables
        bound: Any = SimpleNamespace(bind_relation=lambda relation: tables[relation.oid], capture=lambda rows: None)
        self.emitter = ChangeEventEmitter(configured, bound, StreamPosition(0), "1")
        self._lsn = 1000

    def send(self, message: bytes) -> None:
        self._lsn += 8
        self.emitter.on_data(b"w" + struct.pack("!QQQ", self._lsn // 16 * 16, self._lsn, 0) + message)

    def begin(self, xid: int) -> None:
        self.send(b"B" + struct.pack("!QqI", self._lsn + 1_000_000 * xid, xid * 1_000, xid))

    def describe(self, number: int, identity: bytes) -> None:
        columns = self.tables[number].table.columns
        described = b"".join(
            struct.pack("!B", i in KEY or identity == b"f") + c.name.encode() + b"\0" + struct.pack("!Ii", c.type_oid, c.typmod)
            for i, c in enumerate(columns)
        )
        name = self.tables[number].table.name.encode()
        header = b"R" + struct.pack("!I", number) + b"public\0" + name + b"\0" + identity
        self.send(header + struct.pack("!H", len(columns)) + described)

    def change(self, kind: bytes, number: int, old: tuple[bytes, Sequence[Value]] | None, new: Sequence[Value] | None) -> None:
        before = b"" if old is None else old[0] + tuple_bytes(old[1])
        self.send(kind + struct.pack("!I", number) + before + (b"" if new is None else b"N" + tuple_bytes(new)))


def table(number: int, required: Sequence[bool], with_default: bool, has_key: bool, configured: PostgresConfig) -> TableRows:
    columns = tuple(
        CapturedColumn(f"c{i}", oid, modifier, required[i], DEFAULTS.get(oid) if with_default else None)
        for i, (oid, _, modifier, _) in enumerate(TYPES)
    )
    key = tuple(columns[i].name for i in KEY) if has_key else ()
    captured = CapturedTable(number, "public", f"t{number}", columns, key, "d", "r", -1)
    return TableRows(captured, CATALOG, configured, Filters(configured.capture))


def only_key(row: Sequence[Value]) -> list[Value]:
    return [value if i in KEY else None for i, value in enumerate(row)]


@st.composite
def batches(draw: st.DrawFn) -> tuple[PostgresConfig, list[TableRows], list[tuple[Any, ...]]]:
    """Tables, and what happens to their rows: (kind, table, old tuple, new tuple), or a transaction."""
    configured = parse_config(
        CONFIG
        | draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "tombstones.on.delete": st.just("false"),
                    "extended.headers.enabled": st.just("false"),
                    "skip.messages.without.change": st.just("true"),
                    "column.exclude.list": st.just("public.t0.c5,public.t1.c13"),
                },
            )
        )
        | draw(RULES)
    )
    tables: list[TableRows] = []
    identities: list[bytes] = []
    steps: list[tuple[Any, ...]] = []
    rows: list[st.SearchStrategy[list[Value]]] = []
    for number in range(2):
        step = draw(st.integers(1, 3))
        required = [i in KEY or i % step == 0 for i in range(len(TYPES))]
        identities.append(draw(st.sampled_from([b"d", b"f"])))
        has_key = identities[-1] == b"d" or draw(st.booleans())
        tables.append(table(number, required, draw(st.booleans()), has_key, configured))
        cells = [texts if required[i] else st.none() | texts for i, (_, _, _, texts) in enumerate(TYPES)]
        rows.append(st.tuples(*cells).map(list))
    for xid in range(1, draw(st.integers(1, 3)) + 1):
        steps.append(("begin", xid, identities))
        for _ in range(draw(st.integers(1, 6))):
            number = draw(st.integers(0, 1))
            old, new = draw(rows[number]), draw(rows[number])
            if draw(st.integers(0, 3)):
                new = [old[i] if i in KEY else value for i, value in enumerate(new)]
            if draw(st.booleans()):
                unchanged = [UNCHANGED if oid in TOAST and i not in KEY else None for i, (oid, *_) in enumerate(TYPES)]
                new = [mark or value for mark, value in zip(unchanged, new, strict=True)]
            kind, full = draw(st.sampled_from("IUD")), identities[number] == b"f"
            if kind == "I":
                steps.append((b"I", number, None, [v if v is not UNCHANGED else "x" for v in new]))
                if steps[-1][3][13] == "x":
                    steps[-1][3][13] = "\\x00"
            elif kind == "D":
                steps.append((b"D", number, (b"O", old) if full else (b"K", only_key(old)), None))
            elif full:
                steps.append((b"U", number, (b"O", old), new))
            elif [old[i] for i in KEY] == [new[i] for i in KEY]:
                steps.append((b"U", number, None, new))
            else:
                whole = [old[i] if v is UNCHANGED else v for i, v in enumerate(new)]
                steps.append((b"U", number, (b"K", only_key(old)), whole))
    return configured, tables, steps


def emit(made: tuple[PostgresConfig, list[TableRows], list[tuple[Any, ...]]]) -> tuple[Stream, MixedTextRecords]:
    configured, tables, steps = made
    stream = Stream(tables, configured)
    for kind, *rest in steps:
        if kind == "begin":
            stream.begin(rest[0])
            for number, identity in enumerate(rest[1]):
                stream.describe(number, identity)
        else:
            stream.change(kind, *rest)
    return stream, stream.emitter.take_records()


def joined(runs: Sequence[EncodedRun]) -> list[tuple[Any, ...]]:
    """The records that runs produce, however they are divided."""
    found: list[tuple[Any, ...]] = []
    for run, _ in runs:
        headers: Sequence[Any] = run.headers or [None] * len(run.keys)
        found += [(run.topic, *record, named) for record, named in zip(messages(run), headers, strict=True)]
    return found


@pytest.mark.parametrize(
    "options",
    [{}, {"schemas.enable": "false", "decimal.format": "NUMERIC"}, {"schemas.enable": "false", "conversion.strict": "true"}],
    ids=lambda s: ",".join(f"{k}={v}" for k, v in s.items()) or "default",
)
@settings(max_examples=15)
@given(made=batches())
def test_bytes_are_those_of_the_records(options: dict[str, str], made: Any) -> None:
    _, texts = emit(made)
    using = converters(**options)
    failures, expected_failures = BatchFailures(tolerant=True), BatchFailures(tolerant=True)
    found = encode(using, texts, failures)
    expected = encode(using, list(texts), expected_failures)
    assert joined(found) == joined(expected)
    assert [i for i, _ in failures] == [i for i, _ in expected_failures]
    assert joined(encode(replace(using, splits_schemas=True), texts, BatchFailures(tolerant=True))) == joined(expected)


@settings(max_examples=15)
@given(made=batches())
def test_records_are_those_of_the_messages(made: Any) -> None:
    """Each record, compared with what the messages say: values decoded one by one, offsets counted one by one."""
    configured, tables, steps = made
    stream, texts = emit(made)
    records = list(texts)
    expected: list[tuple[Any, ...]] = []
    for kind, *rest in steps:
        if kind == "begin":
            done = 0
        else:
            done += 1
            number, old, new = rest
            expected += [(*event, done) for event in expected_events(configured, tables[number], kind, old, new)]
    found = [
        (
            record.topic,
            None if record.key is None else record.key.values,
            None if record.value is None else (record.value["op"], *(rows_of(record, name) for name in ("before", "after"))),
            [header.key for header in record.headers or ()],
            offset_of(record)["tx_events"] + (0 if is_last(records, i) else 1),
        )
        for i, record in enumerate(records)
    ]
    assert repr(found) == repr(expected)  # NaN differs from itself
    assert [offset_of(r)["lsn"] for r in records] == sorted(offset_of(r)["lsn"] for r in records)
    assert stream.emitter.position().tx_events == done
    if records:
        assert texts.source_offset == records[-1].source_offset


def offset_of(record: SourceRecord) -> Any:
    return record.source_offset


def is_last(records: Sequence[SourceRecord], i: int) -> bool:
    """Whether the record completes its change: deletes with a tombstone and key changes have several."""
    if i + 1 == len(records):
        return True
    record, following = records[i], records[i + 1]
    if following.value is None:
        return False
    header = following.headers.last_with_name("__debezium.oldkey") if following.headers else None
    return header is None or (record.value is not None and record.value["op"] != "d")


def rows_of(record: SourceRecord, name: str) -> Any:
    found = record.value.get_without_default(name)
    return None if found is None else found.values


def expected_events(
    configured: PostgresConfig, rows: TableRows, kind: bytes, old: tuple[bytes, Sequence[Value]] | None, new: Any
) -> list[tuple[Any, ...]]:
    context = ["__debezium.context." + n for n in ("connectorLogicalName", "taskId", "connectorName", "runId")]
    headers = context if configured.extended_headers else []

    def values(sent: Sequence[Value], fallback: Sequence[Any] | None = None, *, are_keys: bool = False) -> list[Any]:
        found = []
        for i, column in enumerate(rows.columns):
            value = sent[column.source_index]
            if isinstance(value, str):
                found.append(column.type.decode(value))
            elif value is None and are_keys and not column.schema.optional:
                found.append(column.type.zero if column.schema.default is None else column.schema.default)
            elif value is None:
                found.append(None)
            else:
                found.append(column.type.placeholder if fallback is None else fallback[i])
        return found

    before = None if old is None else values(old[1], are_keys=old[0] == b"K")
    after = None if new is None else values(new, before if old is not None and old[0] == b"O" else None)
    old_key = None if before is None else rows.key_of(before)
    new_key = None if after is None else rows.key_of(after)
    if kind == b"D":
        events: list[tuple[Any, ...]] = [(rows.topic, old_key, ("d", before, None), headers)]
        if configured.tombstones and old_key is not None:
            events.append((rows.topic, old_key, None, headers))
        return events
    if configured.skip_unchanged and before is not None and before == after and old_key == new_key:
        return []
    if old_key is not None and old_key != new_key:
        gone = ["__debezium.newkey", *headers]
        events = [(rows.topic, old_key, ("d", before, None), gone)]
        if configured.tombstones:
            events.append((rows.topic, old_key, None, gone))
        return [*events, (rows.topic, new_key, ("c", None, after), ["__debezium.oldkey", *headers])]
    return [(rows.topic, new_key, ("c" if kind == b"I" else "u", before, after), headers)]


PLAIN: list[Value] = ["1", "2", "3", "a name", "t", "0.25", "1.5", "12.50000000", "7", "2024-01-02", "2024-01-02 03:04:05.678",
         "2024-01-02 03:04:05.678+00", "0d3b2f3a-0000-4000-8000-000000000000", "\\x00ff"]  # fmt: skip


def simple_stream(**config: str) -> Stream:
    configured = parse_config(CONFIG | config)
    tables = [table(number, [i in KEY for i in range(len(TYPES))], False, True, configured) for number in range(2)]
    stream = Stream(tables, configured)
    stream.begin(1)
    for number in range(2):
        stream.describe(number, b"d")
    return stream


def refuse_records(texts: MixedTextRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MixedTextRecords, "_create_all", lambda self: pytest.fail("creates records"))


def test_records_are_not_created_to_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = simple_stream()
    for number in (0, 1, 0):
        stream.change(b"I", number, None, PLAIN)
    stream.change(b"U", 0, None, [v if i != 3 else "a name" for i, v in enumerate([*PLAIN[:13], UNCHANGED])])
    stream.change(b"D", 1, (b"K", only_key(PLAIN)), None)
    texts = stream.emitter.take_records()
    refuse_records(texts, monkeypatch)
    pending = PendingOffsets()
    pending.track(texts)
    assert [offset["tx_events"] for _, offset in pending.pairs if offset] == [5]
    runs = [run for run, _ in encode(converters(**{"schemas.enable": "false"}), texts, BatchFailures())]
    assert [(run.topic, len(run.values)) for run in runs] == [
        ("p.public.t0", 1),
        ("p.public.t1", 1),
        ("p.public.t0", 2),
        ("p.public.t1", 2),
    ]
    assert runs[3].values[1] is None
    assert runs[3].keys == [b'{"c0":1,"c3":"a name"}'] * 2
    assert runs[2].headers is not None
    assert [name for name, _ in runs[2].headers[1] or ()][:2] == [
        "__debezium.context.connectorLogicalName",
        "__debezium.context.taskId",
    ]


def test_an_update_is_not_skipped_if_a_mask_hides_the_change_of_its_key() -> None:
    stream = simple_stream(**{"skip.messages.without.change": "true", "column.mask.with.3.chars": r"public\.t0\.c3"})
    other: list[Value] = [*PLAIN[:3], "another", *PLAIN[4:]]
    stream.change(b"U", 0, (b"O", PLAIN), PLAIN)
    stream.change(b"U", 0, (b"O", PLAIN), other)
    records = list(stream.emitter.take_records())
    assert [record.value and record.value["op"] for record in records] == ["d", None, "c"]
    assert [record.key["c3"] for record in records] == ["a name", "a name", "another"]
    assert {record.value[at]["c3"] for record, at in zip(records[::2], ("before", "after"), strict=True)} == {"***"}


def test_a_null_in_a_required_column_makes_it_optional() -> None:
    configured = parse_config(CONFIG)
    required, relaxed = (table(0, [i in KEY or i == at for i in range(len(TYPES))], False, True, configured) for at in (1, 0))
    stream = Stream([required], configured)
    tables: Any = SimpleNamespace(
        bind_relation=lambda relation: required, make_nullable=lambda rows, column: relaxed, capture=lambda rows: None
    )
    stream.emitter._tables = tables
    stream.begin(1)
    stream.describe(0, b"d")
    stream.change(b"I", 0, None, PLAIN)
    stream.change(b"I", 0, None, [PLAIN[0], None, *PLAIN[2:]])
    first, second = stream.emitter.take_records()
    assert first.value_schema is required.schemas.envelope
    assert second.value_schema is relaxed.schemas.envelope
    assert second.value["after"]["c1"] is None


def test_other_converters_get_the_records() -> None:
    text = StringConverter()
    text.configure({}, False)
    json = converters()
    for using in (Converters(text, json.value, json.header), Converters(json.key, text, json.header)):
        stream = simple_stream()
        for number in (0, 0, 1):
            stream.change(b"I", number, None, PLAIN)
        stream.change(b"D", 1, (b"K", only_key(PLAIN)), None)
        texts = stream.emitter.take_records()
        assert joined(encode(using, texts, BatchFailures())) == joined(encode(using, list(texts), BatchFailures()))


def test_records_among_texts_keep_their_place_and_partition() -> None:
    stream = simple_stream()
    stream.change(b"I", 0, None, PLAIN)
    heartbeat = SourceRecord({"server": "p"}, {"lsn": 7}, "beats", 3, None, None, Schema.STRING, "beat")
    heartbeat.ensure_headers()._items.append(Header("name", Schema.STRING, "value"))
    stream.emitter.out.append(heartbeat)
    stream.change(b"I", 0, None, PLAIN)
    texts = stream.emitter.take_records()
    runs = [run for run, _ in encode(converters(), texts, BatchFailures())]
    assert [(run.topic, run.partitions) for run in runs] == [("p.public.t0", None), ("beats", [3]), ("p.public.t0", None)]
    assert runs[1].headers == [[("name", b"value")]]
    assert texts[1] is heartbeat


def test_batch_is_a_sequence_that_grows() -> None:
    stream = simple_stream()
    out = stream.emitter.out
    assert not out
    for i in range(3):
        stream.change(b"I", 0, None, [str(i), *PLAIN[1:]])
        assert [r.key["c0"] for r in out] == list(range(i + 1))
    assert out[2] in out
    assert [r.key["c0"] for r in out[1:]] == [1, 2]
    assert out.source_partition == {"server": "p"}
    assert out[0].value["source"].schema == block.SOURCE
    assert ord("I") == pgoutput.INSERT
