"""Objects without values, structs without fields, and fields without a name: no column, or an error that names them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from connect.converters.json.converter import JsonConverter
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import DataError, SchemaError
from connect.record import SinkRecord
from connectors.spark.config import TableConfig
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.table_fields import TableFields
from connectors.spark.decode.tolerant_decoding import decode_raw_tolerantly
from connectors.spark.decode.topic_decoder import TopicDecoder
from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.rows import RowPreparation

EMPTY = Schema(Type.STRUCT, optional=True, fields=[])


def decoder(*, schemas: bool = False, rescues: bool = False, columns: Columns | None = None) -> TopicDecoder:
    converter = JsonConverter()
    converter.configure({"schemas.enable": str(schemas).lower()}, is_key=False)
    made = TopicDecoder(
        "t", converter, converter, key_schemas=schemas, value_schemas=schemas, fill_defaults=False, key_name=None,
        needs_names=False, needs_keys=False, rescues=rescues,
    )  # fmt: skip
    made.inferred_value_schema.know_table(TableFields(columns or {}))
    return made


def raw(*nodes: Any) -> RawBuffer:
    lines = [json.dumps(node).encode() for node in nodes]
    return RawBuffer("t", [0] * len(lines), list(range(len(lines))), [None] * len(lines), list(lines))


def rows(batches: list[ChangeBatch], table: Columns | None = None, evolution: str = "add") -> list[dict[str, Any]]:
    settings = TableConfig("append", (), "hard", evolution, (), keep_tombstones=True)
    prepared = RowPreparation("t", settings).prepare(table, batches, ())
    assert prepared is not None
    return [row for part in prepared.changes for row in part.image.to_pylist()]


@pytest.mark.parametrize(
    ("node", "row"),
    [
        ({"id": 1, "meta": {}}, {"id": 1}),
        ({"id": 1, "meta": {"x": None}}, {"id": 1}),
        ({"id": 1, "meta": {"x": {"y": []}}}, {"id": 1, "meta": {"x": {"y": []}}}),
        ({"id": 1, "l": [{}]}, {"id": 1}),
        ({"id": 1, "l": [[{"x": None}]]}, {"id": 1}),
        ({"id": 1, "a": {"b": 1, "z": {}}}, {"id": 1, "a": {"b": 1}}),
    ],
)
def test_object_without_values_has_no_column_yet(node: Any, row: Any) -> None:
    assert rows(decoder().decode_raw(raw(node), 0)) == [row]
    assert rows(decoder().decode_exactly(raw(node), 0)) == [row]


def test_object_gets_its_column_with_its_first_value() -> None:
    topic = decoder()
    assert rows(topic.decode_raw(raw({"id": 1, "meta": {}}), 0)) == [{"id": 1}]
    batches = topic.decode_raw(raw({"id": 2, "meta": {"x": 1}}, {"id": 3, "meta": {}}, {"id": 4}), 0)
    assert [row["meta"] for row in rows(batches, {"id": pa.int64()})] == [{"x": 1}, {"x": None}, None]


def test_object_without_values_is_rescued_where_tables_are_lenient() -> None:
    for node in ({"id": 1, "meta": {}}, {"id": 1, "meta": {"z": {"x": None}}}):
        (batch,), bad = decode_raw_tolerantly(decoder(rescues=True), raw(node), 0)
        assert not bad
        (row,) = rows([batch], evolution="lenient")
        assert json.loads(row["_rescued_data"]) == {"meta": node["meta"]}


TABLE: Columns = {"id": pa.int64(), "m": pa.map_(pa.string(), pa.struct([("a", pa.int64())]))}


@pytest.mark.parametrize("given", [{"k": {"a": 1, "b": "new"}}, [["k", {"a": 1, "b": "new"}]]])
def test_new_fields_in_the_values_of_a_tables_map_are_found_without_a_schema(given: Any) -> None:
    batches = decoder(columns=TABLE).decode_raw(raw({"id": 1, "m": given}), 0)
    assert rows(batches, TABLE) == [{"id": 1, "m": [("k", {"a": 1, "b": "new"})]}]
    assert rows(batches, TABLE, "none") == [{"id": 1, "m": [("k", {"a": 1})]}]


def struct(**fields: Schema) -> Schema:
    builder = SchemaBuilder.struct().optional()
    for name, schema in fields.items():
        builder.field(name, schema)
    return builder.build()


def decoded(schema: Schema, *values: Any, as_json: bool) -> list[ChangeBatch]:
    topic = decoder(schemas=True)
    if not as_json:
        return topic.decode_records([SinkRecord("t", 0, None, None, schema, one, at) for at, one in enumerate(values)])
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, is_key=False)
    lines = list(converter.encode_batch("t", schema, list(values)))
    buffer = RawBuffer("t", [0] * len(lines), list(range(len(lines))), [None] * len(lines), lines)
    exact = decoder(schemas=True).decode_exactly(buffer, 0)
    found = topic.decode_raw(buffer, 0)
    assert [one.image.to_pylist() for one in found] == [one.image.to_pylist() for one in exact]
    return found


@pytest.mark.parametrize("as_json", [True, False])
def test_struct_without_fields_is_left_out_until_its_schema_has_some(as_json: bool) -> None:
    inner = struct(b=Schema.OPTIONAL_INT32, z=EMPTY)
    schema = struct(id=Schema.INT32, e=EMPTY, s=inner, l=Schema(Type.ARRAY, optional=True, value_schema=EMPTY))
    empty = Struct(EMPTY, [])
    values = [Struct(schema, [1, empty, Struct(inner, [2, empty]), [empty, None]]), Struct(schema, [3, None, None, None])]
    batches = decoded(schema, *values, as_json=as_json)
    assert rows(batches) == [{"id": 1, "s": {"b": 2}}, {"id": 3, "s": None}]
    for evolution in ("fail", "none"):
        assert rows(batches, {"id": pa.int32(), "s": pa.struct([("b", pa.int32())])}, evolution)[0] == {"id": 1, "s": {"b": 2}}
    table: Columns = {"id": pa.int32(), "e": pa.struct([("x", pa.int32())]), "s": pa.struct([("b", pa.int32())])}
    assert [row["e"] for row in rows(batches, table)] == [{"x": None}, None]


def test_map_of_structs_without_fields_is_refused_by_name() -> None:
    schema = struct(id=Schema.INT32, m=Schema(Type.MAP, optional=True, key_schema=Schema.STRING, value_schema=EMPTY))
    batches = decoded(schema, Struct(schema, [1, {"k": Struct(EMPTY, [])}]), as_json=False)
    with pytest.raises(SchemaError, match="column m is a map of structs without fields"):
        rows(batches)


@pytest.mark.parametrize("as_json", [True, False])
def test_record_whose_schema_has_no_fields_is_refused_by_name(as_json: bool) -> None:
    with pytest.raises(DataError, match=r"topic t: .*has no fields"):
        decoded(EMPTY, Struct(EMPTY, []), as_json=as_json)


@pytest.mark.parametrize("evolution", ["add", "widen", "fail", "none"])
def test_field_without_a_name_is_refused(evolution: str) -> None:
    with pytest.raises(SchemaError, match="a field has an empty name"):
        rows(decoder().decode_raw(raw({"id": 1, "": 3}), 0), None if evolution == "add" else {"id": pa.int64()}, evolution)


def test_field_without_a_name_is_rescued() -> None:
    (row,) = rows(decoder(rescues=True).decode_raw(raw({"id": 1, "": 3}), 0), evolution="lenient")
    assert (row["id"], json.loads(row["_rescued_data"])) == (1, {"": 3})
