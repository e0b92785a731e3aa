"""Iceberg's schemas and Arrow's."""

from __future__ import annotations

import pyarrow as pa
import pytest

from connect.errors import SchemaError
from connectors.spark.decode.variant import VARIANT
from connectors.spark.tables.iceberg.schema_change import columns_to_add, types_to_change
from connectors.spark.tables.iceberg.types import new_schema, read_columns

COLUMNS = {
    "i": pa.int32(),
    "at": pa.timestamp("us", "UTC"),
    "price": pa.decimal128(38, 2),
    "s": pa.struct([pa.field("a", pa.string()), pa.field("l", pa.list_(pa.int64()))]),
    "m": pa.map_(pa.string(), pa.struct([pa.field("x", pa.date32()), pa.field("v", VARIANT)])),
}


def test_columns_survive_a_round_trip() -> None:
    assert read_columns(new_schema(COLUMNS)) == COLUMNS


def test_each_field_has_an_id_of_its_own() -> None:
    ids: list[int] = []

    def collect(node: object) -> None:
        if isinstance(node, dict):
            ids.extend(value for key, value in node.items() if key in ("id", "element-id", "key-id", "value-id"))
            for value in node.values():
                collect(value)
        elif isinstance(node, list):
            for value in node:
                collect(value)

    collect(new_schema(COLUMNS))
    assert sorted(ids) == list(range(1, 13))


def test_small_integers_become_int() -> None:
    assert read_columns(new_schema({"a": pa.int8(), "b": pa.list_(pa.int16())})) == {"a": pa.int32(), "b": pa.list_(pa.int32())}


def test_a_type_that_the_sink_cannot_write_is_named() -> None:
    schema = {"fields": [{"id": 1, "name": "v", "type": "geometry"}]}
    with pytest.raises(SchemaError, match="column v has the type geometry, which is not supported; write into another table"):
        read_columns(schema)


def test_only_what_is_new_is_added() -> None:
    wanted = {**COLUMNS, "n": pa.int8()}
    assert [(f["name"], f["type"]) for f in columns_to_add(COLUMNS, wanted, {}, 3, "t")["fields"]] == [("n", "int")]


def test_tables_of_an_older_format_version_get_no_variant_columns() -> None:
    known = {"s": pa.struct([pa.field("n", pa.int32())]), "old": VARIANT}
    added = {**known, "s": pa.struct([pa.field("v", pa.list_(VARIANT))])}
    assert columns_to_add(known, added, {}, 3, "table lake.t")["fields"][0]["name"] == "s"
    assert columns_to_add(known, {**known, "n": pa.int32()}, {}, 2, "table lake.t")["fields"][0]["name"] == "n"
    with pytest.raises(
        SchemaError, match=r"table lake\.t lacks the column `s`\.`v`, which is VARIANT, and has the format version 2.* Upgrade it"
    ):
        columns_to_add(known, added, {}, 2, "table lake.t")


def test_paths_of_columns() -> None:
    widened = [("`a.b`.`c`", pa.int64()), ("`d`.element", pa.float64()), ("`e``f`", pa.decimal128(10, 2))]
    assert types_to_change(widened) == {"a.b.c": "long", "d.element": "double", "e`f": "decimal(10, 2)"}
