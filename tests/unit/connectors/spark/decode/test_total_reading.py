"""Random documents without a schema: each value is in its row, or the record is errant and its error names the field."""

from __future__ import annotations

import decimal
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from connect.converters.json.converter import JsonConverter
from connect.errors import DataError
from connectors.spark.config import TableConfig
from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.table_fields import TableFields
from connectors.spark.decode.tolerant_decoding import decode_raw_tolerantly
from connectors.spark.decode.topic_decoder import TopicDecoder
from connectors.spark.plan.evolution import Columns, missing_columns, with_additions
from connectors.spark.plan.row_limits import NO_LIMITS
from connectors.spark.plan.rows import RowPreparation
from connectors.spark.plan.truncates import NO_FEEDS
from connectors.spark.tables.planned_rows import split_bad_records

D = decimal.Decimal
NUMBERS = (int, float, decimal.Decimal)
NAMES = st.sampled_from(["a", "b", "x", "y"])
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("aü", max_size=2) | st.sampled_from([0.5, -2.25, 1e300])
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2), max_leaves=5)
PAIRS = st.lists(st.tuples(st.sampled_from(["k", "l"]), VALUES).map(list), max_size=2, unique_by=lambda pair: pair[0])
DOCUMENTS = st.lists(st.dictionaries(NAMES, VALUES | PAIRS, min_size=1, max_size=3), min_size=1, max_size=4)
XS = pa.struct([("x", pa.int64())])
TABLES: list[Columns | None] = [
    None,
    {"id": pa.int64(), "a": pa.map_(pa.string(), XS), "b": pa.list_(pa.map_(pa.string(), pa.list_(XS)))},
    {"id": pa.int64(), "a": pa.struct([("a", pa.map_(pa.string(), pa.int64()))]), "x": pa.list_(XS), "y": pa.string()},
]


def has(column: Any, value: Any) -> bool:
    """Whether the column has each value that is in this one."""
    if isinstance(column, list) and isinstance(value, list | dict) and column and isinstance(column[0], tuple):
        found, wanted = dict(column), dict(value)
        return found.keys() == wanted.keys() and all(has(found[name], one) for name, one in wanted.items())
    if isinstance(value, dict):
        return all(has((column or {}).get(name) if isinstance(column, dict | None) else None, one) for name, one in value.items())
    if isinstance(value, list):
        if column is None:
            return not any(map(has_values, value))  # arrays of objects without values have no column yet
        return isinstance(column, list) and len(value) == len(column) and all(map(has, column, value))
    if isinstance(column, NUMBERS) and isinstance(value, NUMBERS) and bool not in (type(column), type(value)):
        return D(str(column)) == D(str(value))
    return value is None or (type(column) is type(value) and bool(column == value))


def has_values(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(has_values, value.values()))
    if isinstance(value, list):
        return not value or any(map(has_values, value))
    return value is not None


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@example([{"a": {"k": {"x": 1, "y": "new"}}}], [{"a": [["k", {"x": 1, "b": "newer"}]]}], 1)
@example([{"id": 1, "a": {}}], [{"a": {"b": [{}]}}], 0)
@example([{"b": [{"k": [{"x": 1, "y": 2}]}]}], [{"b": [[["k", [{"x": 1, "a": 3}]]]]}], 1)
@example([{"a": None}], [{"x": {}, "a": []}, {"x": []}], 0)
@example([{"a": None}], [{"x": {}}, {"a": [], "x": []}], 1)
@given(DOCUMENTS, DOCUMENTS, st.integers(0, len(TABLES) - 1))
def test_each_value_of_a_document_is_in_its_row_or_the_record_is_errant(
    first: list[dict[str, Any]], second: list[dict[str, Any]], number: int
) -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    decoder = TopicDecoder(
        "t", converter, converter, key_schemas=False, value_schemas=False, fill_defaults=False, key_name=None,
        needs_names=False, needs_keys=False,
    )  # fmt: skip
    table = TABLES[number]
    decoder.inferred_value_schema.know_table(TableFields(table or {}))
    rows = RowPreparation("t", TableConfig("append", (), "hard", "add", ("__offset",), keep_tombstones=True))
    for part in (first, second):
        lines = [json.dumps(node).encode() for node in part]
        raw = RawBuffer("t", [0] * len(part), list(range(len(part))), [None] * len(part), list(lines))
        batches, bad = decode_raw_tolerantly(decoder, raw, 0)
        good, unfit = split_bad_records(rows, table, NO_LIMITS, (), batches, NO_FEEDS)
        bad += unfit
        for one in bad:
            assert any(word in one.reason.message for word in ("field ", "column ", "no field of these records")), one
        prepared = rows.prepare(table, good, ())
        written = set()
        for batch in [] if prepared is None else prepared.changes:
            for offset, row in zip(batch.meta["offset"].to_pylist(), batch.image.to_pylist(), strict=True):
                written.add(offset)
                assert has(row, part[offset]), (part[offset], row)
        assert written | {one.offset for one in bad} == set(range(len(part)))
        if prepared is not None:
            table = with_additions(table or {}, prepared.incoming)
            assert not missing_columns(table, prepared.incoming)


def test_a_key_with_other_fields_is_errant_also_beside_a_tombstone() -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    decoder = TopicDecoder(
        "t", converter, converter, key_schemas=False, value_schemas=False, fill_defaults=False, key_name=None,
        needs_names=False, needs_keys=True,
    )  # fmt: skip
    rows = RowPreparation("t", TableConfig("upsert", (), "hard", "add", (), keep_tombstones=False))
    keys, values = [b'{"id":1}', b'{"id":2}', b'{"id":3,"other":1}'], [b'{"id":1,"n":1}', None, b'{"id":3,"n":2}']
    batches, bad = decode_raw_tolerantly(decoder, RawBuffer("t", [0] * 3, [0, 1, 2], list(keys), list(values)), 0)
    good, unfit = split_bad_records(rows, None, NO_LIMITS, (), batches, NO_FEEDS)
    assert [(one.offset, "the record key has the fields id, other" in one.reason.message) for one in unfit] == [(2, True)]
    assert not bad
    prepared = rows.prepare(None, good, ())
    assert prepared is not None
    assert sorted(id_ for one in prepared.changes for id_ in one.image["id"].to_pylist()) == [1, 2]


def nested(type_: str, levels: int) -> bytes:
    opening, closing = {"objects": (b'{"a":', b"}"), "lists": (b"[", b"]")}[type_]
    return b'{"a":' + opening * levels + b"1" + closing * levels + b"}"


@pytest.mark.parametrize(
    ("type_", "levels", "is_read"),
    [
        ("objects", 40, True), ("objects", 41, False), ("objects", 300, False), ("objects", 700, False),
        ("lists", 40, True), ("lists", 41, False), ("lists", 300, False),
    ],
)  # fmt: skip
def test_what_is_nested_deeper_than_readers_allow_is_errant(type_: str, levels: int, is_read: bool) -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    decoder = TopicDecoder(
        "t", converter, converter, key_schemas=False, value_schemas=False, fill_defaults=False, key_name=None,
        needs_names=False, needs_keys=False,
    )  # fmt: skip
    rows = RowPreparation("t", TableConfig("append", (), "hard", "add", (), keep_tombstones=False))
    raw = RawBuffer("t", [0], [7], [None], [nested(type_, levels)])
    batches, bad = decode_raw_tolerantly(decoder, raw, 0)
    good, unfit = split_bad_records(rows, None, NO_LIMITS, (), batches, NO_FEEDS)
    assert [(one.offset, "nested" in one.reason.message) for one in (*bad, *unfit)] == [(7, True)] * (not is_read)
    for batch in good:
        file = io.BytesIO()
        pq.write_table(batch.image, file)
        assert pq.read_table(file).equals(batch.image)


def test_a_decimal_that_the_scale_of_another_record_leaves_no_room_for_is_errant() -> None:
    rows = RowPreparation("t", TableConfig("append", (), "hard", "add", (), keep_tombstones=True))
    batches = []
    for first, (type_, values) in enumerate(
        [(pa.decimal128(38, 0), [D(1), D("9" * 38), D(2)]), (pa.decimal128(38, 9), [D("0.5"), D("1.5"), D("2.5")])]
    ):
        numbers = pa.array(range(3 * first, 3 * first + 3), pa.int64())
        meta = make_meta(numbers, pa.nulls(3, pa.string()), numbers, pa.array([0] * 3, pa.int32()), numbers)
        batches.append(ChangeBatch("t", meta, pa.table({"d": pa.array(values, type_)}), None))
    with pytest.raises(DataError):
        rows.prepare(None, batches, ())
    good, bad = split_bad_records(rows, None, NO_LIMITS, (), batches, NO_FEEDS)
    assert [(one.offset, "column d" in one.reason.message) for one in bad] == [(1, True)]
    prepared = rows.prepare(None, good, ())
    assert prepared is not None
    assert [value for one in prepared.changes for value in one.image["d"].to_pylist()] == [
        D(1),
        D(2),
        D("0.5"),
        D("1.5"),
        D("2.5"),
    ]
