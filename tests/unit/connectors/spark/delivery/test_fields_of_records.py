"""Fields of records without a schema that are read before, or beside, the columns of their table."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import DataError
from connectors.spark.config import SparkSinkConfig, parse_config
from connectors.spark.decode.schema_inference import TopicContent
from connectors.spark.decode.variant import VARIANT
from connectors.spark.delivery.table_router import TableRouter
from connectors.spark.iceberg_sink.config import parse_config as parse_iceberg_config
from connectors.spark.plan.evolution import Columns
from tests.unit.connectors.spark.delivery.test_keys_and_types import Task

LENIENT = {"schema.evolution": "lenient"}
DROP = {"schema.contract": "drop_column"}
FREEZE = {"schema.contract": "freeze"}
OVERRIDE = {"schema.contract.overrides": r"t\.note:drop_column"}


def spark(**more: str) -> SparkSinkConfig:
    own = {"table.location": "lake", "write.mode": "upsert", "key.columns": "id", "metadata.columns": "none"}
    return parse_config({"name": "c", "topics": "t", **own, **more})


def iceberg(**more: str) -> SparkSinkConfig:
    tables = {"iceberg.tables": "t", "iceberg.catalog.type": "hadoop", "iceberg.catalog.warehouse": "/warehouse"}
    return parse_iceberg_config({"name": "c", "topics": "t", **tables, **more})


# -- fields that say what to do with a record


@pytest.mark.parametrize("more", [{}, LENIENT, FREEZE, DROP, OVERRIDE], ids=str)
@pytest.mark.parametrize(
    ("field", "fits", "other"),
    [("meta.kind", {"kind": "t", "v": 1}, {"kind": "t", "v": "text"}), ("meta", "t", 7)],
)
def test_record_whose_route_field_does_not_fit_is_errant(more: dict[str, str], field: str, fits: Any, other: Any) -> None:
    settings = iceberg(**{"iceberg.tables.route-field": field, "iceberg.table.t.route-regex": "t", **more})
    records = [{"id": 1, "meta": fits}, {"id": 2, "meta": fits}, {"id": 3, "meta": other}]
    changes, errors = Task(settings, None).decode(*((None, record) for record in records))
    assert len(errors) == 1
    assert "field meta" in errors[0]
    router = TableRouter(settings)
    routed, unnamed = router.route("t", changes)
    assert ([part.num_rows for _, part in routed], unnamed, router.unrouted) == ([2], [], 0)


@pytest.mark.parametrize("more", [{}, LENIENT, FREEZE, DROP, OVERRIDE], ids=str)
def test_mark_of_a_delete_that_does_not_fit_is_errant(more: dict[str, str]) -> None:
    task = Task(spark(**more), None)
    fits = {"id": 1, "__deleted": "false"}
    changes, errors = task.decode((None, fits), (None, fits), (None, {"id": 1, "__deleted": True}))
    assert [part.num_rows for part in changes] == [2]
    assert len(errors) == 1
    assert "field __deleted: true is not a string" in errors[0]


@pytest.mark.parametrize("more", [{}, LENIENT], ids=str)
def test_operation_beside_an_empty_object_is_read(more: dict[str, str]) -> None:
    settings = iceberg(**{"iceberg.tables.cdc-field": "_cdc.op", "iceberg.tables.default-id-columns": "id", **more})
    row = {"id": 1, "_cdc": {"op": "D", "key": {}}}
    assert Task(settings, {"id": pa.int64()}).rows((None, {"id": 1, "_cdc": {"op": "I"}})) != []
    assert Task(settings, {"id": pa.int64()}).rows((None, row)) == [], "the row is deleted"


# -- the key of a record that says what to do


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        (spark(), {}),
        (spark(), {"__deleted": "true"}),
        (spark(**{"metadata.columns": "__op"}), {"__op": "u"}),
        (iceberg(**{"iceberg.tables.cdc-field": "_cdc.op", "iceberg.tables.upsert-mode-enabled": "true"}), {"_cdc": {"op": "I"}}),
        (iceberg(**{"iceberg.tables.cdc-field": "_cdc.op", "iceberg.tables.upsert-mode-enabled": "true"}), {"_cdc": {"op": "U"}}),
        (iceberg(**{"iceberg.tables.cdc-field": "_cdc.op", "iceberg.tables.upsert-mode-enabled": "true"}), {"_cdc": {"op": "D"}}),
    ],
)  # fmt: skip
def test_plain_record_whose_key_is_that_of_another_row_is_refused_whatever_it_says(
    settings: SparkSinkConfig, fields: dict[str, Any]
) -> None:
    with pytest.raises(DataError, match="the record key and the row have different values in the field id, 1 and 2"):
        Task(settings, None).rows(({"id": 1}, {"id": 2, "v": "x", **fields}), keys=("id",))


# -- what a topic contains


def event(id_: int) -> dict[str, Any]:
    return {"op": "c", "before": None, "after": {"id": id_}, "source": {"ts_ms": 1}}


@pytest.mark.parametrize("drops", [True, False])
def test_topic_of_change_events_remains_one_when_types_are_dropped(drops: bool) -> None:
    task = Task(spark(**{"variant.columns": "v"}), None)
    task.decode(*((None, event(id_)) for id_ in range(20)))
    if drops:
        task.drop_types()
    else:
        task.columns = {"id": pa.int64(), "v": VARIANT}  # another decoder reads it
    _, errors = task.decode((None, {"id": 77, "note": "no event"}))
    assert [error.endswith("change events and other records share the topic") for error in errors] == [True]
    assert [row["id"] for row in task.rows((None, event(21)))] == [21]


def test_what_other_decoders_have_seen_more_of_a_topic_is_learned() -> None:
    task, other = Task(spark(), None), Task(spark(), None)
    task.decode((None, event(1)))
    other.learn(task)
    other.decode((None, event(2)), (None, event(3)))
    task.learn(other)
    assert task.contents() == other.contents() == {("t", "t"): TopicContent(True, 3, 3)}
    other.decode((None, event(4)))
    other.learn(task)
    assert other.contents() == {("t", "t"): TopicContent(True, 4, 4)}


# -- fields without a column


TABLE = {"id": pa.int64(), "s": pa.struct([("a", pa.int64())])}


@pytest.mark.parametrize(
    ("more", "rescued"),
    [(LENIENT, {"_rescued_data": '{"s":{"a":1,"b":"x"}}'}), (DROP, {}), ({"schema.evolution": "none"}, {})],
    ids=str,
)
@pytest.mark.parametrize("earlier", [1, None])
def test_field_that_a_column_lacks_has_no_influence_on_the_others(
    more: dict[str, str], rescued: dict[str, Any], earlier: int | None
) -> None:
    task = Task(spark(**more), TABLE)
    task.rows((None, {"id": 1, "s": {"a": 1, "b": earlier}}))
    assert task.rows((None, {"id": 2, "s": {"a": 1, "b": "x"}})) == [{"id": 2, "s": {"a": 1}, **rescued}]


@pytest.mark.parametrize("settings", [spark(**{"schema.evolution": "none"}), iceberg()], ids=["spark", "iceberg"])
def test_fields_that_are_left_out_have_no_types(settings: SparkSinkConfig) -> None:
    task = Task(settings, TABLE)
    records: list[dict[str, Any]] = [{"id": 1, "x": 1}, {"id": 2, "x": "a"}, {"id": 3, "x": [{"y": 1}], "s": {"a": 1, "b": {}}}]
    for record in records:
        assert [row["id"] for row in task.rows((None, record))] == [record["id"]]
    found = task.rows(*((None, record) for record in records))
    assert [(row["id"], row["s"]) for row in found] == [(1, None), (2, None), (3, {"a": 1})]


@pytest.mark.parametrize(
    "settings",
    [
        spark(**{"schema.evolution": "none", "table.name.format": "${table}"}),
        spark(**{"schema.evolution": "none", "write.mode": "both"}),
        iceberg(**{"iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": "x", "iceberg.tables": ""}),
    ],
    ids=["names from records", "changelog", "dynamic route"],
)
def test_fields_that_another_table_of_the_topic_may_have_are_read(settings: SparkSinkConfig) -> None:
    changes, errors = Task(settings, TABLE).decode((None, {"id": 1, "x": "t", "s": {"a": 1, "b": 2}}))
    assert (errors, [part.image.column_names for part in changes]) == ([], [["id", "s", "x"]])
    assert changes[0].image["s"].to_pylist() == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("way", [{"iceberg.tables.cdc-field": "s.op"}, {"iceberg.tables.route-field": "s.op"}], ids=str)
def test_member_of_a_column_that_decides_is_read_although_the_column_lacks_it(way: dict[str, str]) -> None:
    task = Task(iceberg(**way, **{"iceberg.table.t.route-regex": "D"}), TABLE)
    task.decode((None, {"id": 1, "s": {"a": 1, "op": "I"}}))
    changes, errors = task.decode((None, {"id": 1, "s": {"a": 1, "op": "D"}}))
    assert (errors, [part.texts_at(["s", "op"]).to_pylist() for part in changes]) == ([], [["D"]])


def test_field_named_like_a_column_apart_from_case_is_not_left_out() -> None:
    task = Task(spark(**{"schema.evolution": "none"}), TABLE)
    with pytest.raises(DataError, match="differ only in case"):
        task.rows((None, {"id": 1, "S": {"a": 1}}))


# -- names in another case


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.date32(), "2020-01-01"),
        (pa.decimal128(10, 2), 1.25),
        (pa.decimal128(10, 2), "1.25"),
        (pa.float32(), 1.25),
        (pa.timestamp("us", "UTC"), "2026-01-01T00:00:00Z"),
        (pa.binary(), "AA=="),
        (pa.map_(pa.string(), pa.int64()), {"x": 1}),
        (pa.struct([("D", pa.date32())]), {"d": "2020-01-01"}),
        (pa.list_(pa.decimal128(10, 2)), [1.25]),
        (VARIANT, {"a": 1}),
    ],
    ids=str,
)
def test_fields_have_the_types_of_columns_whose_names_differ_in_case(type_: pa.DataType, value: Any) -> None:
    table: Columns = {"ID": pa.int64(), "V": type_}
    settings = iceberg(**{"iceberg.tables.schema-case-insensitive": "true"})
    exact = json.loads(json.dumps(value).replace('"d"', '"D"'))
    expected = Task(settings, table).rows((None, {"ID": 1, "V": exact}))
    assert expected[0]["V"] is not None
    assert Task(settings, table).rows((None, {"id": 1, "v": value})) == expected
    task = Task(settings, None)
    task.decode((None, {"id": 1, "v": None}))
    task.columns = table
    assert task.rows((None, {"id": 1, "v": value})) == expected


@pytest.mark.parametrize("nest", [lambda o: o, lambda o: {"y": o}, lambda o: [o]], ids=["struct", "nested", "list"])
def test_fields_of_an_object_that_differ_only_in_case_are_rescued_from_a_new_table(nest: Callable[[Any], Any]) -> None:
    found = Task(spark(**LENIENT), None).rows((None, {"id": 1, "o": nest({"x": 1})}), (None, {"id": 2, "o": nest({"X": 2})}))
    assert [row["o"] for row in found] == [nest({"x": 1}), nest({"x": None})]
    texts = [row["_rescued_data"] for row in found]
    assert texts[0] is None
    assert json.loads(texts[1]) == {"o": nest({"x": None, "X": 2})}
