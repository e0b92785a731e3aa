"""Snapshot rows written from their texts: the bytes are those of their records, whatever the rows contain."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.converters.json.converter import JsonConverter
from connect.converters.simple_header import SimpleHeaderConverter
from connect.converters.string import StringConverter
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.text_records import TextRecords
from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import PostgresConfig, parse_config
from connectors.postgres.schema import source_block as block
from connectors.postgres.schema.catalog import CapturedColumn, CapturedTable
from connectors.postgres.schema.row_decoder import TableRows, snapshot_decoder
from connectors.postgres.snapshot.text_batches import EventTime, TextBatches, Traits
from connectors.postgres.types.catalog_type import CatalogType
from tests.unit.connectors.postgres.test_decoders import copy_field, nasty
from worker.errors.batch_failures import BatchFailures
from worker.kafka.record_producer import ProducerRun
from worker.source import text_encoding
from worker.source.encoding import encode
from worker.tasks.converters import Converters

CONFIG = {
    "topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d",
    "any.type": "tests.support.custom_converters:Anything",
}  # fmt: skip
SETTINGS = parse_config(CONFIG)
# Columns 3 and 13 are a text and bytes, which can be part of the key.
RULES = st.fixed_dictionaries(
    {},
    optional={
        "column.truncate.to.2.chars": st.sampled_from([r".*\.c3", r".*\.c13", r".*\.c(3|4|13)"]),
        "column.mask.with.3.chars": st.sampled_from([r".*\.c3", r".*\.c(3|12)"]),
        "column.mask.hash.SHA-256.with.salt.s": st.just(r".*\.c3"),
        "column.mask.hash.v2.MD5.with.salt.s": st.just(r".*\.c3"),
        "column.propagate.source.type": st.just(r".*\.c(0|3|7)"),
        "field.name.adjustment.mode": st.just("avro"),
        "converters": st.just("any"),
    },
)
TIMES = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))
DIGITS = st.integers(-(10**18), 10**18)
# OID, name, type modifier, and the texts that the server prints.
TYPES: list[tuple[int, str, int, st.SearchStrategy[str]]] = [
    (20, "int8", -1, st.integers(-(2**63), 2**63 - 1).map(str)),
    (23, "int4", -1, st.integers(-(2**31), 2**31 - 1).map(str)),
    (21, "int2", -1, st.integers(-(2**15), 2**15 - 1).map(str)),
    (25, "text", -1, nasty),
    (16, "bool", -1, st.sampled_from("tf")),
    (701, "float8", -1, st.floats().map(lambda v: "NaN" if v != v else str(v).replace("inf", "Infinity"))),
    (700, "float4", -1, st.floats(width=32).map(lambda v: "NaN" if v != v else str(v).replace("inf", "Infinity"))),
    (1700, "numeric", ((18 << 16) | 8) + 4, DIGITS.map(lambda n: f"{n // 10**8}.{abs(n) % 10**8:08d}")),
    (1700, "numeric", ((12 << 16) | 0) + 4, st.integers(-(10**12), 10**12).map(str)),
    (1082, "date", -1, TIMES.map(lambda t: t.date().isoformat()) | st.sampled_from(["infinity", "-infinity", "0044-03-15 BC"])),
    (1114, "timestamp", -1, TIMES.map(lambda t: t.isoformat(" "))),
    (1184, "timestamptz", -1, TIMES.map(lambda t: t.isoformat(" ") + "+00") | st.just("infinity")),
    (2950, "uuid", -1, st.uuids().map(str)),
    (17, "bytea", -1, st.binary(max_size=9).map(lambda b: "\\x" + b.hex())),
]  # fmt: skip
CATALOG = {oid: CatalogType(oid, "pg_catalog", name, "b", 0, 0, -1) for oid, name, _, _ in TYPES}
DEFAULTS = {20: "7", 25: "'a \"b\"'::text", 16: "true"}
WIDTH = len(TYPES)


def table(required: Sequence[bool], with_default: bool, configured: PostgresConfig = SETTINGS) -> TableRows:
    columns = tuple(
        CapturedColumn(f'c"{i}' if i == 1 else f"c{i}", oid, modifier, required[i], DEFAULTS.get(oid) if with_default else None)
        for i, (oid, _, modifier, _) in enumerate(TYPES)
    )
    captured = CapturedTable(1, "public", "t", columns, ("c0", "c3"), "d", "r", -1)
    return TableRows(captured, CATALOG, configured, Filters(configured.capture))


@st.composite
def tables(draw: st.DrawFn) -> tuple[TableRows, list[list[str | None]]]:
    required = [True, *draw(st.lists(st.booleans(), min_size=WIDTH - 1, max_size=WIDTH - 1))]
    required[3] = draw(st.booleans())
    cells = [texts if required[i] else st.none() | texts for i, (_, _, _, texts) in enumerate(TYPES)]
    rows = draw(st.lists(st.tuples(*cells).map(list), min_size=1, max_size=6))
    return table(required, draw(st.booleans()), parse_config(CONFIG | draw(RULES))), rows


def batch(rows: TableRows, lines: list[str]) -> TextRecords:
    traits = Traits.of("".join(f"{line}\n" for line in lines).encode())
    source = Struct(block.SOURCE, block.source_values("1", "p", "d", "public", "t"))
    partition, offset, time = {"server": "p"}, {"lsn": 1}, EventTime(1, 2, 3)
    decode = snapshot_decoder(rows)
    create = partial(decode, lines, source, partition, offset, 1, 2, 3)
    return TextBatches(rows).records(lines, traits, source, time, partition, offset, create)


def converters(**settings: str) -> Converters:
    made = [JsonConverter(), JsonConverter()]
    for converter, is_key in zip(made, (True, False), strict=True):
        converter.configure(settings, is_key)
    return Converters(made[0], made[1], SimpleHeaderConverter())


def messages(run: ProducerRun) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values as they are in Kafka, with their schemas."""

    def whole(prefix: bytes | None, payload: bytes | None) -> bytes | None:
        return payload if prefix is None or payload is None else prefix + payload + b"}"

    before, after = run.value_frame or (b"", b"")
    values = [None if value is None else before + value + after for value in run.values]
    return [(whole(run.key_prefix, k), whole(run.value_prefix, v)) for k, v in zip(run.keys, values, strict=True)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"schemas.enable": "false"},
        {"schemas.enable": "false", "decimal.format": "NUMERIC"},
        {"schemas.enable": "false", "replace.null.with.default": "false"},
        {"schemas.enable": "false", "conversion.strict": "true"},
    ],
    ids=lambda s: ",".join(f"{k}={v}" for k, v in s.items()) or "default",
)
@settings(max_examples=12)
@given(tables())
def test_bytes_are_those_of_the_records(options: dict[str, str], made: tuple[TableRows, list[list[str | None]]]) -> None:
    rows, values = made
    lines = ["\t".join(copy_field(v) for v in row) for row in values]
    texts = batch(rows, lines)
    using = converters(**options)
    failures, expected_failures = BatchFailures(tolerant=True), BatchFailures(tolerant=True)
    found = encode(using, texts, failures)
    expected = encode(using, list(batch(rows, lines)), expected_failures)
    assert found == expected
    assert [i for i, _ in failures] == [i for i, _ in expected_failures]
    split = encode(replace(using, splits_schemas=True), texts, BatchFailures(tolerant=True))
    assert [messages(run) for run, _ in split] == [messages(run) for run, _ in expected]


PLAIN = ["1", "2", "3", "a name", "t", "0.25", "1.5", "12.50000000", "7", "2024-01-02", "2024-01-02 03:04:05.678",
         "2024-01-02 03:04:05.678+00", "0d3b2f3a-0000-4000-8000-000000000000", "\\\\x00ff"]  # fmt: skip


def test_records_are_not_created_to_be_written() -> None:
    rows = table([False] * WIDTH, with_default=False)
    nulls = ["9", *["\\N"] * 2, "ü \U0001f600 \\\\ \\t", *["\\N"] * (WIDTH - 4)]
    texts = batch(rows, ["\t".join(PLAIN), "\t".join(nulls)])
    texts._create = pytest.fail
    ((run, indexes),) = encode(converters(**{"schemas.enable": "false"}), texts, BatchFailures())
    assert list(indexes) == [0, 1]
    assert run.keys == [b'{"c0":1,"c3":"a name"}', '{"c0":9,"c3":"ü \\uD83D\\uDE00 \\\\ \\t"}'.encode()]
    assert run.values[0] is not None
    assert run.values[0].startswith(
        b'{"before":null,"after":{"c0":1,"c\\"1":2,"c2":3,"c3":"a name","c4":true,"c5":0.25,"c6":1.5,"c7":"SoF8gA==","c8":"Bw==",'
    )
    assert run.values[0].endswith(b'"transaction":null,"op":"r","ts_ms":1,"ts_us":2,"ts_ns":3}')


def test_destination_that_stores_schemas_once_gets_payloads() -> None:
    texts = batch(table([False] * WIDTH, with_default=False), ["\t".join(PLAIN)])
    ((whole, _),) = encode(converters(), texts, BatchFailures())
    ((run, _),) = encode(replace(converters(), splits_schemas=True), texts, BatchFailures())
    assert run.keys == [b'{"c0":1,"c3":"a name"}']
    assert run.value_prefix is not None
    assert run.value_prefix.startswith(b'{"schema":{"type":"struct"')
    assert messages(run) == messages(whole)
    ((plain, _),) = encode(replace(converters(**{"schemas.enable": "false"}), splits_schemas=True), texts, BatchFailures())
    assert (plain.key_prefix, plain.value_prefix) == (None, None)
    assert run.value_frame is not None
    assert [run.value_frame[0] + (value or b"") + run.value_frame[1] for value in run.values] == plain.values
    assert (run.values[0] or b"").startswith(b'{"c0":1,')


def test_rows_that_do_not_share_their_slots_have_no_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_encoding, "_CHUNK", 1)
    texts = batch(table([False] * WIDTH, with_default=False), ["\t".join([str(i), *PLAIN[1:]]) for i in range(3)])
    using = replace(converters(), splits_schemas=True)
    ((shared, _),) = encode(using, texts, BatchFailures())
    read = texts.read
    texts.read = lambda start, end: replace(read(start, end), slots=(*(read(start, end).slots or ())[:-1], 3 + start // 2))
    ((run, _),) = encode(using, texts, BatchFailures())
    assert shared.value_frame is not None
    assert run.value_frame is None
    assert messages(run)[:2] == messages(shared)[:2]
    assert (run.values[2] or b"").endswith(b'"ts_ns":4}')


def test_other_converters_get_the_records() -> None:
    rows = table([False] * WIDTH, with_default=False)
    text = StringConverter()
    text.configure({}, False)
    json = converters().value
    for using in (Converters(text, json, SimpleHeaderConverter()), Converters(json, text, SimpleHeaderConverter())):
        texts = batch(rows, ["\t".join(PLAIN)])
        assert encode(using, texts, BatchFailures()) == encode(using, list(texts), BatchFailures())


def test_subclass_of_a_converter_gets_structs() -> None:
    class Own(JsonConverter):
        def encode_batch(self, topic: str, schema: Schema | None, values: Sequence[Any]) -> list[bytes | None]:
            return [b"own"] * len(values)

    using = converters()
    own = Own()
    own.configure({}, False)
    texts = batch(table([False] * WIDTH, with_default=False), ["\t".join(PLAIN)])
    ((run, _),) = encode(Converters(using.key, own, using.header), texts, BatchFailures())
    assert run.values == [b"own"]


def test_batch_is_a_sequence_of_its_records() -> None:
    rows = table([False] * WIDTH, with_default=False)
    texts = batch(rows, ["\t".join([str(i), *PLAIN[1:]]) for i in range(3)])
    assert len(texts) == 3
    assert [r.key.values[0] for r in texts] == [0, 1, 2]
    assert texts[1] is list(texts)[1]
    assert [r.key.values[0] for r in texts[1:]] == [1, 2]
    assert texts[2] in texts
    assert None not in texts
