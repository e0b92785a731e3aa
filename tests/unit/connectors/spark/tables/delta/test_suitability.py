"""Which Delta tables the worker may write itself."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import ConnectError
from connectors.spark.tables.conflicts import UnsuitableTable
from connectors.spark.tables.delta.checks import refuse_obstacles
from connectors.spark.tables.delta.creation import file_table_properties
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.delta.suitability import Obstacle, find_obstacles

PLAIN: dict[str, Any] = {"partitionColumns": [], "configuration": {}, "schemaString": '{"fields":[]}'}


def with_setting(key: str, value: str) -> dict[str, Any]:
    return {**PLAIN, "configuration": {key: value}}


def with_column(**column: Any) -> dict[str, Any]:
    return {**PLAIN, "schemaString": json.dumps({"fields": [{"name": "a", "type": "date", **column}]})}


def with_type(type_: Any) -> dict[str, Any]:
    return with_column(type=type_)


def struct(**member: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": "b", "type": "string", **member}]}


def array(element: Any, *, contains_null: bool = True) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": contains_null}


def obstacles(metadata: dict[str, Any], protocol: dict[str, Any], *, upserts: bool = False) -> list[Obstacle]:
    return find_obstacles(metadata, protocol, TableLayout(), upserts=upserts)


def features(*names: str) -> dict[str, Any]:
    return {"minWriterVersion": 7, "writerFeatures": list(names)}


VARCHAR = {"__CHAR_VARCHAR_TYPE_STRING": "varchar(3)"}


@pytest.mark.parametrize(
    ("metadata", "protocol", "expected"),
    [
        (
            with_setting("delta.columnMapping.mode", "name"),
            {},
            [Obstacle("it has delta.columnMapping.mode", "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')")],
        ),
        (
            {
                **with_setting("delta.columnMapping.mode", "name"),
                "schemaString": with_column(metadata={"delta.columnMapping.id": 1, "x": 1})["schemaString"],
            },
            {},
            [
                Obstacle("it has delta.columnMapping.mode", "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')"),
                Obstacle("column a has x"),
            ],
        ),
        (
            with_setting("delta.constraints.small", "a < 3"),
            {},
            [Obstacle("it has delta.constraints.small", "DROP CONSTRAINT `small`")],
        ),
        (
            with_setting("delta.universalFormat.enabledFormats", "iceberg"),
            {},
            [
                Obstacle(
                    "it has delta.universalFormat.enabledFormats", "UNSET TBLPROPERTIES ('delta.universalFormat.enabledFormats')"
                )
            ],
        ),
        (
            with_setting("delta.teleport", "true"),
            {},
            [Obstacle("it has delta.teleport", "SET TBLPROPERTIES ('delta.teleport' = 'false')")],
        ),
        (
            with_setting("delta.enableRowTracking", "true"),
            features("rowTracking", "domainMetadata"),
            [
                Obstacle("it has delta.enableRowTracking", "SET TBLPROPERTIES ('delta.enableRowTracking' = 'false')"),
                Obstacle("it has the feature rowTracking", "DROP FEATURE rowTracking"),
            ],
        ),
        (PLAIN, features("catalogManaged"), [Obstacle("a catalog makes its commits (feature catalogManaged)")]),
        (PLAIN, {"minWriterVersion": 6}, [Obstacle("its writer version is 6")]),
        (with_column(nullable=False), {}, [Obstacle("column a is NOT NULL", "ALTER COLUMN `a` DROP NOT NULL")]),
        (
            with_column(metadata={"delta.generationExpression": "1"}),
            {},
            [Obstacle("column a has delta.generationExpression")],
        ),
        (
            with_column(metadata={"CURRENT_DEFAULT": "1"}),
            {},
            [Obstacle("column a has CURRENT_DEFAULT", "ALTER COLUMN `a` DROP DEFAULT")],
        ),
        (
            with_column(metadata={"delta.typeChanges": [{"fromType": "date", "toType": "timestamp_ntz"}]}),
            {},
            [Obstacle("column a was a date before it became a timestamp")],
        ),
        (
            with_type(struct(nullable=False)),
            {},
            [Obstacle("column a.b is NOT NULL", "ALTER COLUMN `a`.`b` DROP NOT NULL")],
        ),
        (with_type(struct(metadata=VARCHAR)), {}, [Obstacle("column a.b has __CHAR_VARCHAR_TYPE_STRING")]),
        (
            with_type(array(struct(metadata={"delta.invariants": "{}"}))),
            {},
            [Obstacle("column a.element.b has delta.invariants")],
        ),
        (with_type(array("string", contains_null=False)), {}, [Obstacle("column a.element is NOT NULL")]),
        (
            with_type({"type": "map", "keyType": "string", "valueType": struct(nullable=False), "valueContainsNull": False}),
            {},
            [
                Obstacle("column a.value is NOT NULL"),
                Obstacle("column a.value.b is NOT NULL", "ALTER COLUMN `a`.value.`b` DROP NOT NULL"),
            ],
        ),
    ],
)
def test_table_that_needs_spark_is_recognized_with_the_ways_to_alter_it_back(
    metadata: dict[str, Any], protocol: dict[str, Any], expected: list[Obstacle]
) -> None:
    assert obstacles(metadata, protocol) == expected


@pytest.mark.parametrize(
    ("metadata", "protocol"),
    [
        (PLAIN, {"minWriterVersion": 2}),
        (PLAIN, features("appendOnly", "timestampNtz")),
        # What stays in the protocol after the last constraint, default, or mapping is dropped.
        (with_setting("delta.columnMapping.mode", "none"), features("columnMapping", "checkConstraints", "allowColumnDefaults")),
        (PLAIN, {"minWriterVersion": 3}),
        (with_column(metadata={"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}), features("typeWidening")),
        *((with_setting(name, "1"), {}) for name in ("delta.logRetentionDuration", "delta.autoOptimize.autoCompact", "owner")),
        (with_type(array(struct(metadata={"comment": "x"}))), {}),
        (with_type({"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}), {}),
    ],
)
def test_what_nothing_in_the_table_uses_is_no_obstacle(metadata: dict[str, Any], protocol: dict[str, Any]) -> None:
    assert obstacles(metadata, protocol) == []


def test_one_message_names_everything_that_must_be_undone() -> None:
    metadata = {**with_column(nullable=False), "configuration": {"delta.enableRowTracking": "true"}}
    found = obstacles(metadata, features("rowTracking"))
    with pytest.raises(ConnectError) as raised:
        refuse_obstacles(found, "table t", "/t", was_written=True)
    assert raised.value.message == (
        "table t was altered in a way that the connector does not support: it has delta.enableRowTracking and column a is NOT "
        "NULL and it has the feature rowTracking. Undo it with "
        "ALTER TABLE delta.`/t` SET TBLPROPERTIES ('delta.enableRowTracking' = 'false'); "
        "ALTER TABLE delta.`/t` ALTER COLUMN `a` DROP NOT NULL; ALTER TABLE delta.`/t` DROP FEATURE rowTracking "
        "and restart the task, or write into another table (table.name.format)"
    )
    with pytest.raises(UnsuitableTable, match=r"RowTracking and column a is NOT NULL and it has the feature"):
        refuse_obstacles(found, "table t", "/t", was_written=False)


def test_no_way_back_is_given_if_one_obstacle_has_none() -> None:
    found = obstacles(PLAIN, features("catalogManaged", "rowTracking"))
    with pytest.raises(ConnectError, match=r"catalogManaged\) and it has the feature rowTracking\. Write into another table"):
        refuse_obstacles(found, "table t", "/t", was_written=True)


def test_upserts_need_deletion_vectors() -> None:
    (found,) = obstacles(PLAIN, {}, upserts=True)
    assert found.remedy == "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    assert obstacles(with_setting("delta.enableDeletionVectors", "true"), features("deletionVectors"), upserts=True) == []


def test_layouts_by_columns_without_a_text_or_statistics_need_spark() -> None:
    columns = {"data": pa.binary(), "day": pa.date32(), "inner": pa.struct([("n", pa.int64())])}

    def find(*, partitions: tuple[str, ...] = (), clusters: tuple[str, ...] = ()) -> list[Obstacle]:
        return find_obstacles(PLAIN, {}, TableLayout(columns, partitions, clusters), upserts=False)

    assert find(partitions=("day",)) == []
    assert find(clusters=("day",)) == []
    assert find(partitions=("data",)) == [Obstacle("it is partitioned by column data of type BINARY")]
    assert find(clusters=("inner.n",)) == [Obstacle("it is clustered by the nested column inner.n", "CLUSTER BY NONE")]


@pytest.mark.parametrize(
    ("given", "upserts", "expected"),
    [
        ({}, True, "interval 7 days"),
        ({}, False, "interval 7 days"),
        ({"delta.enableDeletionVectors": "false"}, True, None),
        ({"delta.enableDeletionVectors": "false"}, False, "interval 7 days"),
        ({"delta.columnMapping.mode": "name"}, False, None),
        ({"owner": "me"}, True, "interval 7 days"),
    ],
)
def test_the_log_of_a_table_that_spark_will_write_is_kept_for_its_offsets(
    given: dict[str, str], upserts: bool, expected: str | None
) -> None:
    session: Any = SimpleNamespace(conf={})
    found = file_table_properties(session, given, upserts=upserts)
    assert found.get("delta.logRetentionDuration") == expected


def test_a_default_of_the_session_may_have_spark_write_new_tables() -> None:
    session: Any = SimpleNamespace(conf={"spark.databricks.delta.properties.defaults.enableDeletionVectors": "false"})
    assert file_table_properties(session, {}, upserts=True) == {}
