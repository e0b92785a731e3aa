"""Chains are compiled to SQL, or the reason against it names the transformation."""

from __future__ import annotations

import pytest

from connect.data.logical import timestamp_schema
from connect.data.schema import Schema, Type
from connect.plugins import Plugins
from connect.transforms.chain import build_steps
from connectors.spark.transforms.compiler import InputSchemas, compile_branches
from connectors.spark.transforms.errors import NotCompilable
from connectors.spark.transforms.projection import BY_ROW, Projection, render
from connectors.spark.transforms.sql import quote_text
from connectors.spark.transforms.stored_types import literal, spark_type

APACHE = "org.apache.kafka.connect.transforms."
ROW = Schema(
    Type.STRUCT,
    fields=[
        ("id", Schema.INT64),
        ("Name", Schema.OPTIONAL_STRING),
        ("qty", Schema(Type.INT32, optional=True, default=1)),
        ("price", Schema.FLOAT64),
        ("at", timestamp_schema(optional=True)),
    ],
)


def compile_chain(value: Schema | None, *steps: dict[str, str], **more: str) -> Projection:
    config = {"transforms": ",".join(f"t{i}" for i in range(len(steps))), **more}
    for i, step in enumerate(steps):
        config |= {f"transforms.t{i}.{name}": text for name, text in step.items()}
    schemas = InputSchemas(Schema.OPTIONAL_STRING, value)
    return render(compile_branches(config, build_steps(config, Plugins.discover()), "orders", schemas), schemas)


def test_values_without_nulls_and_tombstones_are_separate_outcomes() -> None:
    step = {"type": f"{APACHE}ReplaceField$Value", "include": "id,qty", "renames": "qty:quantity"}
    projection = compile_chain(ROW, step)
    assert projection.outcome == (
        "CASE WHEN value IS NULL THEN 0 WHEN value IS NOT NULL AND value.f0 IS NOT NULL THEN 1 ELSE -1 END"
    )
    assert [column.name for column in projection.values] == ["value_0", "value_1"]
    changed = projection.values[1].schema
    assert changed is not None
    assert changed.field_names == ("id", "quantity")
    assert dict(projection.select)["value_1"] == (
        "CASE WHEN outcome IN (1) THEN named_struct('f0', value.f0, 'f1', coalesce(value.f2, CAST('1' AS INT))) END"
    )
    assert dict(projection.select)["value_0"] == f"CASE WHEN outcome IN ({BY_ROW}) THEN value END"


def test_cast_leaves_values_that_java_would_wrap_to_the_transformation() -> None:
    projection = compile_chain(ROW, {"type": f"{APACHE}Cast$Value", "spec": "id:int8"})
    assert "value.f0 BETWEEN -128 AND 127" in projection.outcome
    assert "try_cast(value.f0 AS TINYINT)" in dict(projection.select)["value_1"]


def test_routers_of_a_fixed_topic_need_no_regular_expression_in_spark() -> None:
    projection = compile_chain(None, {"type": f"{APACHE}RegexRouter", "regex": "(.*)s", "replacement": "$1"})
    assert dict(projection.select)["topic"] == "CASE WHEN outcome IN (0) THEN 'order' ELSE topic END"


def test_predicates_and_filter_drop_records() -> None:
    projection = compile_chain(
        ROW,
        {"type": f"{APACHE}Filter", "predicate": "p"},
        **{"predicates": "p", "predicates.p.type": f"{APACHE}predicates.RecordIsTombstone"},
    )
    assert projection.dropped == (1,)
    assert projection.outcome == "CASE WHEN value IS NOT NULL THEN 0 WHEN value IS NULL THEN 1 ELSE -1 END"


def test_chain_of_several_steps_reads_the_columns_once() -> None:
    projection = compile_chain(
        ROW,
        {"type": f"{APACHE}HoistField$Value", "field": "row"},
        {"type": f"{APACHE}Flatten$Value", "delimiter": "_"},
        {"type": f"{APACHE}ExtractField$Value", "field": "row_Name"},
    )
    last = projection.outcomes[-1].value
    assert last is not None
    assert last.schema == Schema.OPTIONAL_STRING
    assert "value.f1" in dict(projection.select)[last.name]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"type": f"{APACHE}Cast$Value", "spec": "price:string"}, "Java and Spark write floats in different texts"),
        ({"type": f"{APACHE}Cast$Value", "spec": "at:string"}, "a cast from org.apache.kafka.connect.data.Timestamp to STRING"),
        ({"type": f"{APACHE}ExtractField$Value", "field": "missing"}, "these records fail: Unknown field: missing"),
        ({"type": f"{APACHE}InsertField$Key", "topic.field": "t"}, "found: java.lang.String"),
        ({"type": f"{APACHE}TimestampRouter", "timestamp.format": "EEE"}, "the date format EEE"),
        ({"type": "io.debezium.transforms.ContentBasedRouter", "topic.expression": "'a'", "language": "jsr223.groovy"},
         "it runs in Python only"),
    ],
)  # fmt: skip
def test_reason_names_the_transformation(step: dict[str, str], reason: str) -> None:
    try:
        # Null keys and tombstones may be computed nevertheless.
        found = "; ".join(compile_chain(ROW, step).reasons)
    except NotCompilable as e:
        found = e.reason
    assert "transformation t0 (" in found
    assert reason in found


def test_values_without_a_schema_are_not_compiled() -> None:
    with pytest.raises(NotCompilable, match="the value has no schema"):
        compile_chain(None, {"type": f"{APACHE}Flatten$Value"})


def test_python_functions_are_not_compiled() -> None:
    with pytest.raises(NotCompilable, match=r"transformation t0 \(ExpressionFilter\): it runs in Python only"):
        compile_chain(ROW, {"type": "io.debezium.transforms.Filter", "condition": "value.id == 1", "language": "jsr223.groovy"})


def test_texts_have_no_variables_and_no_quotes() -> None:
    assert quote_text("it's ${x} \\ \n😀") == "'it\\u0027s \\u0024{x} \\u005c \\u000a\\U0001f600'"


@pytest.mark.parametrize(
    ("schema", "value", "sql"),
    [
        (Schema.INT64, -(1 << 63), "CAST('-9223372036854775808' AS BIGINT)"),
        (Schema.FLOAT32, float("inf"), "CAST('Infinity' AS FLOAT)"),
        (Schema.FLOAT64, -0.0, "CAST(-0.0D AS DOUBLE)"),
        (Schema.BYTES, b"\x00\xff", "X'00ff'"),
        (Schema.OPTIONAL_STRING, None, "CAST(NULL AS STRING)"),
    ],
)
def test_literals_have_the_type_of_their_schema(schema: Schema, value: object, sql: str) -> None:
    assert literal(schema, value) == sql


def test_types_name_fields_by_position() -> None:
    assert spark_type(ROW) == "STRUCT<f0: BIGINT, f1: STRING, f2: INT, f3: DOUBLE, f4: BIGINT>"
    with pytest.raises(NotCompilable, match="without fields"):
        spark_type(Schema(Type.STRUCT))
