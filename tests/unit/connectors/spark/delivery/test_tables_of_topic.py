"""Several tables of one topic without schemas: what a table gets depends only on its own records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from connect.converters.json.converter import JsonConverter
from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import SinkRecord
from connectors.spark.config import SparkSinkConfig, parse_config
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.table_fields import TableFields
from connectors.spark.decode.topic_decoder import TopicDecoder
from connectors.spark.delivery.table_router import TableRouter
from connectors.spark.delivery.topic_decoders import TopicDecoders
from connectors.spark.iceberg_sink.config import parse_config as parse_iceberg_config
from connectors.spark.plan.evolution import Columns, with_additions
from connectors.spark.plan.rows import PreparedRows, RowPreparation

BY_SOURCE = {"name": "lake", "topics": "all", "table.location": "/lake", "table.name.format": "${table}"}
BY_FIELD = {
    "name": "lake", "topics": "all", "iceberg.catalog.type": "rest", "iceberg.catalog.uri": "http://catalog",
    "iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": "table",
}  # fmt: skip


class Topic:
    """Decodes and divides the records of a topic, whose tables get the columns of their rows."""

    def __init__(self, config: SparkSinkConfig, tables: dict[str, Columns] | None = None) -> None:
        converter = JsonConverter()
        converter.configure({"schemas.enable": "false"}, is_key=False)
        self.config = config
        self.tables = dict(tables or {})
        self.decoder: TopicDecoder = TopicDecoders(config, converter, converter, lambda topic: None).get("all", "all")
        self.router = TableRouter(config)

    def add(
        self, *records: tuple[str, dict[str, Any]], keys: Sequence[bytes] = (), op: str = "c"
    ) -> dict[str, list[dict[str, Any]]]:
        """The rows by table."""
        values: list[bytes | None] = [json.dumps(self._node(table, row, op)).encode() for table, row in records]
        count = len(values)
        raw = RawBuffer("all", [0] * count, list(range(count)), list(keys) or [b'{"id":1}'] * count, values)
        routed, bad = self.router.route("all", self.decoder.decode_raw(raw, 0))
        assert not bad
        found: dict[str, list[dict[str, Any]]] = {}
        for table in dict.fromkeys(table for table, _ in routed):
            prepared = self.prepare(table, [part for other, part in routed if other == table])
            self.tables[table] = with_additions(self.tables.get(table) or {}, prepared.incoming)
            found[table] = [row for part in prepared.changes for row in part.image.to_pylist()]
        return found

    def _node(self, table: str, row: dict[str, Any], op: str) -> dict[str, Any]:
        if self.config.routes is not None:
            return {"table": table, **row}
        images = {"before": None, "after": row} if op != "d" else {"before": row, "after": None}
        return {**images, "op": op, "source": {"table": table}}

    def prepare(self, table: str, changes: Sequence[Any]) -> PreparedRows:
        prepared = RowPreparation(table, self.config.of_table(table)).prepare(self.tables.get(table), changes, ())
        assert prepared is not None
        return prepared


def test_new_tables_have_the_columns_of_their_own_records() -> None:
    topic = Topic(parse_config(BY_SOURCE))
    found = topic.add(("customers", {"id": 1, "name": "ann"}), ("orders", {"id": 7, "total": 5, "state": None}))
    assert found == {"customers": [{"id": 1, "name": "ann"}], "orders": [{"id": 7, "total": 5}]}
    assert topic.add(("customers", {"id": 2, "name": None})) == {"customers": [{"id": 2, "name": None}]}
    assert topic.add(("orders", {"id": 8, "total": None, "state": "new"})) == {
        "orders": [{"id": 8, "total": None, "state": "new"}]
    }
    assert list(topic.tables["customers"]) == ["id", "name"]


def test_tables_that_a_field_names_have_the_columns_of_their_own_records() -> None:
    topic = Topic(parse_iceberg_config(BY_FIELD))
    found = topic.add(("db.a", {"id": 1, "name": "ann"}), ("db.b", {"id": 7, "total": 5}))
    assert {table: [row.keys() for row in rows] for table, rows in found.items()} == {
        "db.a": [{"table", "id", "name"}],
        "db.b": [{"table", "id", "total"}],
    }


@pytest.mark.parametrize("others", [{"id": 1, "at": None}, {"id": 1, "at": {}}, {"id": 1}])
def test_nested_fields_come_from_own_records_too(others: dict[str, Any]) -> None:
    topic = Topic(parse_config(BY_SOURCE), {"known": {"id": pa.int64(), "at": pa.struct([("street", pa.string())])}})
    orders = {"id": 7, "at": {"zip": 1, "geo": {"x": 1.5}}, "l": [{"n": 1}, None]}
    found = topic.add(
        ("orders", orders), ("customers", {"id": 2, "at": {"city": "a", "geo": {"y": 2.5}}, "l": [{"m": 2}]}), ("known", others)
    )
    assert found["orders"] == [orders]
    assert found["customers"] == [{"id": 2, "at": {"geo": {"y": 2.5}, "city": "a"}, "l": [{"m": 2}]}]
    assert topic.tables["known"] == {"id": pa.int64(), "at": pa.struct([("street", pa.string())])}


def test_empty_lists_stay() -> None:
    topic = Topic(parse_config(BY_SOURCE))
    found = topic.add(("orders", {"id": 7, "l": [{"n": 1}]}), ("customers", {"id": 2, "l": []}))
    assert found["customers"] == [{"id": 2, "l": []}]


def test_records_share_the_types_of_their_fields() -> None:
    topic = Topic(parse_config(BY_SOURCE))
    topic.add(("orders", {"id": 7, "state": 5}))
    with pytest.raises(DataError, match=r'field state: "CA" is not a whole number.*a column keeps the type of its first values'):
        topic.add(("customers", {"id": 1, "state": "CA"}))


def test_variants_have_values_of_any_type() -> None:
    topic = Topic(parse_config({**BY_SOURCE, "variant.columns": "state"}))
    found = topic.add(("orders", {"id": 7, "state": 5}), ("customers", {"id": 1, "state": "CA"}), ("others", {"id": 1}))
    assert {table: [row.keys() for row in rows] for table, rows in found.items()} == {
        "orders": [{"id", "state"}],
        "customers": [{"id", "state"}],
        "others": [{"id"}],
    }


def test_fields_of_a_schema_are_columns_even_if_they_are_null() -> None:
    topic = Topic(parse_config(BY_SOURCE))
    row = SchemaBuilder.struct().optional().field("id", Schema.INT64).field("note", Schema.OPTIONAL_STRING).build()
    source = SchemaBuilder.struct().field("table", Schema.STRING).build()
    envelope = (
        SchemaBuilder.struct().name("x.Envelope").field("before", row).field("after", row).field("source", source)
        .field("op", Schema.STRING).build()
    )  # fmt: skip
    value = Struct.of(envelope, after=Struct.of(row, id=1), source=Struct.of(source, table="notes"), op="c")
    batches = topic.decoder.decode_records([SinkRecord("all", 0, None, None, envelope, value, 0)])
    ((table, part),), bad = topic.router.route("all", batches)
    assert (table, bad) == ("notes", [])
    assert topic.prepare(table, [part]).columns == {"id": pa.int64(), "note": pa.string()}


def test_a_field_with_the_name_of_a_metadata_column_concerns_only_its_own_record() -> None:
    topic = Topic(parse_config({**BY_SOURCE, "write.mode": "append"}), {"a": {"id": pa.int64(), "__topic": pa.string()}})
    with pytest.raises(DataError, match="the records have a field __topic, which is also a metadata column"):
        topic.add(("b", {"id": 1, "__topic": "x"}))
    assert topic.add(("a", {"id": 2})) == {"a": [{"id": 2}]}


def test_a_renamed_field_does_not_meet_the_types_of_other_tables() -> None:
    amounts: Columns = {"id": pa.int64(), "amount": pa.float64()}
    topic = Topic(parse_config({**BY_SOURCE, "column.renames": "amt:amount", "metadata.columns": "none"}), {"a": amounts})
    assert topic.add(("b", {"id": 1, "amount": 5})) == {"b": [{"id": 1, "amount": 5}]}
    assert topic.add(("a", {"id": 2, "amt": 6})) == {"a": [{"id": 2, "amount": 6.0}]}


@pytest.mark.parametrize("value", [{"k": {"x": None}}, {"k": {}}])
def test_a_map_of_structs_without_values_fits_its_column(value: dict[str, Any]) -> None:
    columns: Columns = {"id": pa.int64(), "m": pa.map_(pa.string(), pa.struct([("x", pa.int32()), ("y", pa.int32())]))}
    topic = Topic(parse_config({**BY_SOURCE, "metadata.columns": "none"}), {"a": columns})
    topic.decoder.inferred_value_schema.know_table(TableFields(columns))
    assert topic.add(("a", {"id": 1, "m": value})) == {"a": [{"id": 1, "m": [("k", {"x": None, "y": None})]}]}


KEYS = [b'{"a_id":1}', b'{"b_id":2}']


def test_each_table_has_the_key_of_its_own_records() -> None:
    topic = Topic(parse_config({**BY_SOURCE, "write.mode": "upsert"}))
    for value in ("x", "y"):
        assert topic.add(("a", {"a_id": 1, "v": value}), ("b", {"b_id": 2, "w": value}), keys=KEYS) == {
            "a": [{"a_id": 1, "v": value}],
            "b": [{"b_id": 2, "w": value}],
        }


def test_deletes_add_no_key_columns_of_other_tables() -> None:
    topic = Topic(parse_config({**BY_SOURCE, "metadata.columns": "none"}))
    topic.add(("a", {"a_id": 1}), ("b", {"b_id": 2}), keys=KEYS)
    assert topic.add(("a", {"a_id": 1}), ("b", {"b_id": 2}), keys=KEYS, op="d") == {"a": [{"a_id": 1}], "b": [{"b_id": 2}]}
