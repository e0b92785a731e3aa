"""Which values of records become VARIANT, on every path, and what that does to the columns of a table."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from connect.converters.json.converter import JsonConverter
from connect.errors import ConfigError, DataError, SchemaError
from connect.record import SinkRecord
from connectors.spark.config import parse_config
from connectors.spark.decode.json import NotBatchable
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.table_fields import TableFields
from connectors.spark.decode.topic_decoder import TopicDecoder
from connectors.spark.decode.variant import VARIANT, decode_variant
from connectors.spark.plan.evolution import (
    arrow_type,
    common_type,
    missing_columns,
    spark_json_type,
    sql_type,
    with_additions,
)
from connectors.spark.plan.widening import widened_columns, with_wider_types
from connectors.spark.tables.delta.schema_change import new_columns
from connectors.spark.tables.iceberg.types import new_schema
from connectors.spark.variant_columns import VariantColumns

JSON = VariantColumns(json=True)
DOC = {"field": "doc", "type": "string", "optional": True, "name": "io.debezium.data.Json"}
ID = {"field": "id", "type": "int32", "optional": True}
PROPS = {"name": "lake", "table.location": "/tmp/lake", "topics": "t"}


def converters(*, schemas: bool, defaults: bool = False) -> tuple[JsonConverter, JsonConverter]:
    made = JsonConverter(), JsonConverter()
    settings = {"schemas.enable": str(schemas).lower(), "replace.null.with.default": str(defaults).lower()}
    for is_key, converter in zip((True, False), made, strict=True):
        converter.configure(settings, is_key)
    return made


def decoder(variants: VariantColumns, *, schemas: bool, defaults: bool = False) -> TopicDecoder:
    key, value = converters(schemas=schemas, defaults=defaults)
    return TopicDecoder(
        "t",
        key,
        value,
        key_schemas=schemas,
        value_schemas=schemas,
        fill_defaults=defaults,
        key_name="id",
        needs_names=False,
        needs_keys=False,
        variants=variants,
    )


def buffer(values: list[bytes]) -> RawBuffer:
    return RawBuffer("t", [0] * len(values), list(range(len(values))), [None] * len(values), list(values))


def message(fields: list[Any], payload: Any) -> bytes:
    schema = {"type": "struct", "fields": fields}
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def plain(value: Any) -> Any:
    """Values with VARIANTs as ``("variant", node)``."""
    if isinstance(value, dict) and value.keys() == {"metadata", "value"}:
        return "variant", decode_variant(**value)
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def rows(batches: list[Any]) -> list[Any]:
    return [plain(row) for part in batches for row in part.image.to_pylist()]


def decode_every_way(variants: VariantColumns, values: list[bytes], *, schemas: bool = True) -> list[Any]:
    """The rows, which are the same on all paths."""
    exact = rows(decoder(variants, schemas=schemas).decode_exactly(buffer(values), 0))
    converter = converters(schemas=schemas)[1]
    read = [converter.to_connect_data("t", v) for v in values]
    records = [SinkRecord("t", 0, None, None, one.schema, one.value, at) for at, one in enumerate(read)]
    assert rows(decoder(variants, schemas=schemas).decode_records(records)) == exact
    assert rows(decoder(variants, schemas=schemas).decode_raw(buffer(values), 0)) == exact
    if schemas:
        assert rows(decoder(variants, schemas=schemas).decode_batch(buffer(values), 0)) == exact
    return exact


def test_json_of_debezium_is_parsed_also_inside_other_values() -> None:
    docs = {"field": "docs", "type": "array", "optional": True, "items": {**DOC, "optional": True}}
    # A null struct has no documents, and no instants.
    seen = {"field": "seen", "type": "string", "optional": True, "name": "io.debezium.time.ZonedTimestamp"}
    inner = {"field": "inner", "type": "struct", "optional": True, "fields": [DOC, seen]}
    by_name = {"field": "m", "type": "map", "optional": True, "keys": {"type": "string"}, "values": DOC}
    full = {"id": 1, "doc": '{"a": 1.50}', "docs": ["[1]", None], "inner": {"doc": "null", "seen": None}, "m": {"k": '"x"'}}
    nothing = {"id": 2, "doc": None, "docs": None, "inner": None, "m": None}
    values = [message([ID, DOC, docs, inner, by_name], p) for p in (full, nothing)]
    found = decode_every_way(JSON, values)
    assert str(found[0]["doc"]) == "('variant', {'a': Decimal('1.50')})"
    assert {n: v for n, v in found[0].items() if n != "doc"} == {
        "id": 1,
        "docs": [("variant", [1]), None],
        "inner": {"doc": ("variant", None), "seen": None},
        "m": [("k", {"metadata": b"\1\0\0", "value": b"\x05x"})],
    }
    assert found[1] == nothing
    assert decode_every_way(VariantColumns(), values)[0]["doc"] == '{"a": 1.50}'


def test_named_columns_take_values_of_any_type() -> None:
    variants = VariantColumns(names=frozenset({"v"}))
    for field, payload, expected in (
        ({"type": "int64"}, 2**60, 2**60),
        ({"type": "string"}, '{"a":1}', '{"a":1}'),
        ({**DOC}, '{"a":1}', {"a": 1}),
        ({"type": "struct", "fields": [ID, DOC]}, {"id": 5, "doc": "[2]"}, {"id": 5, "doc": [2]}),
        ({"type": "map", "keys": {"type": "string"}, "values": {"type": "int32"}}, {"a": 1}, {"a": 1}),
        ({"type": "array", "items": {"type": "boolean"}}, [True], [True]),
    ):
        values = [message([ID, {**field, "field": "v", "optional": True}], {"id": 1, "v": v}) for v in (payload, None)]
        assert [row["v"] for row in decode_every_way(variants, values)] == [("variant", expected), None]
    parsing = VariantColumns(names=frozenset({"v"}), parses_text=True)
    values = [message([{"type": "string", "field": "v"}], {"v": '{"a":1}'})]
    assert decode_every_way(parsing, values) == [{"v": ("variant", {"a": 1})}]


def test_single_value_is_the_column_value() -> None:
    variants = VariantColumns(names=frozenset({"value"}), parses_text=True)
    values = [json.dumps({"schema": {"type": "string"}, "payload": '{"a":[]}'}, separators=(",", ":")).encode()]
    assert decode_every_way(variants, values) == [{"value": ("variant", {"a": []})}]


def test_json_without_schemas_of_varying_shape_is_one_column() -> None:
    payloads = [{"a": 1}, [1, "x"], "text", 5, 1.5, True, None, {}]
    values = [json.dumps({"id": at, "v": v}).encode() for at, v in enumerate(payloads)]
    found = decode_every_way(VariantColumns(names=frozenset({"v", "absent"})), values, schemas=False)
    assert [row["v"] for row in found] == [None if p is None else ("variant", p) for p in payloads]
    assert list(found[0]) == ["id", "v"]  # no column before a record has it
    events = [json.dumps({"op": "c", "source": {}, "before": None, "after": json.loads(v)}).encode() for v in values]
    assert decode_every_way(VariantColumns(names=frozenset({"v"})), events, schemas=False) == found


def test_column_of_a_table_is_a_variant_although_no_key_names_it() -> None:
    one = decoder(VariantColumns().with_names(frozenset({"v"})), schemas=False)
    one.inferred_value_schema.know_table(TableFields({"id": pa.int64(), "v": VARIANT}))
    assert rows(one.decode_raw(buffer([b'{"id":1,"v":{"x":[{}]}}', b'{"id":2}']), 0)) == [
        {"id": 1, "v": ("variant", {"x": [{}]})},
        {"id": 2, "v": None},
    ]


def test_default_of_a_document_replaces_null() -> None:
    values = [message([ID, {**DOC, "default": '{"a":1}'}], {"id": 1, "doc": None})]
    one = decoder(JSON, schemas=True, defaults=True)
    assert rows(one.decode_batch(buffer(values), 0)) == rows(one.decode_exactly(buffer(values), 0))
    assert rows(one.decode_raw(buffer(values), 0))[0]["doc"] == ("variant", {"a": 1})


@pytest.mark.parametrize("text", ["", "{", '{"a":1,"a":2}', "1 2", "12345678901234567890123456789012345678901.5"])
def test_document_that_cannot_be_stored_is_refused_by_record_and_field(text: str) -> None:
    values = [message([ID, DOC], {"id": at, "doc": doc}) for at, doc in enumerate(['{"ok":1}', text])]
    with pytest.raises(DataError, match="offset 1: field doc: "):
        decoder(JSON, schemas=True).decode_raw(buffer(values), 0)


def test_variant_is_no_struct_for_schema_evolution() -> None:
    struct = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    assert sql_type(pa.list_(VARIANT)) == "ARRAY<VARIANT>"
    assert arrow_type("variant") == VARIANT
    described: Any = spark_json_type(pa.struct([("v", VARIANT)]))
    assert described["fields"][0]["type"] == "variant"
    with pytest.raises(SchemaError, match="both VARIANT and STRUCT"):
        common_type(VARIANT, struct, "v")
    assert missing_columns({"v": VARIANT}, {"v": pa.struct([("x", pa.int32())])}) == []
    assert with_additions({"v": VARIANT}, {"v": struct}) == {"v": VARIANT}
    wide = with_wider_types({"v": VARIANT, "n": pa.int8()}, pa.table({"v": pa.nulls(1, struct), "n": pa.array([1])}))
    assert wide == {"v": VARIANT, "n": pa.int64()}
    assert widened_columns({"v": VARIANT}, {"v": VARIANT}) == []
    # A new column needs the table feature first.
    assert new_columns({}, {"v": pa.list_(VARIANT)}) is None
    assert new_columns({"v": VARIANT}, {"v": VARIANT, "n": pa.int32()}) == {"n": pa.int32()}
    assert [f["type"] for f in new_schema({"v": VARIANT, "l": pa.list_(VARIANT)})["fields"]] == [
        "variant",
        {"type": "list", "element-id": 3, "element-required": False, "element": "variant"},
    ]


@pytest.mark.parametrize(("key", "value"), [("json.columns", "variant"), ("variant.columns", "a,b")])
def test_other_formats_have_no_variants(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}.*parquet tables have no VARIANT columns; use table.format=delta or iceberg"):
        parse_config({**PROPS, "table.format": "parquet", key: value})
    iceberg = {**PROPS, "table.format": "iceberg", key: value}
    with pytest.raises(
        ConfigError, match=rf"{key}.*version 2 \(table\.properties\.format-version\) have no VARIANT.* set it to 3"
    ):
        parse_config({**iceberg, "table.properties.format-version": "2"})
    assert parse_config(iceberg).variants == parse_config({**iceberg, "table.properties.format-version": "3"}).variants


def test_key_column_cannot_be_a_variant() -> None:
    with pytest.raises(ConfigError, match=r"variant\.columns.*VARIANTs cannot be compared"):
        parse_config({**PROPS, "write.mode": "upsert", "key.columns": "id", "variant.columns": "id"})


def test_schemaless_records_with_variants_need_the_exact_path() -> None:
    with pytest.raises(NotBatchable):
        decoder(VariantColumns(names=frozenset({"v"})), schemas=False).decode_batch(buffer([b'{"v":1}']), 0)
