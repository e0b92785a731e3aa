"""What is pure: SQL, commit metadata, evolution, names, schemas of JSON, messages of errors."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.data.logical import FarInstant
from connect.errors import ConfigError, ConnectError, DataError, RetriableError, SchemaError
from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.connector import SparkSink
from connectors.spark.decode.json import NotBatchable, Prefix, find_prefix, split_by_prefix
from connectors.spark.decode.schema_inference import InferredSchema, dump, find_unserializable_member
from connectors.spark.errors import explain, root_cause
from connectors.spark.plan.evolution import (
    arrow_type,
    cast_column,
    check_names,
    merge_columns,
    missing_columns,
    quote,
    sql_type,
    with_additions,
)
from connectors.spark.plan.sql import literal, merge_statement
from connectors.spark.tables.committed_offsets import TableCommit, collect_committed_offsets, parse_commit
from connectors.spark.tables.delta_files import file_statistics, find_obstacle

PROPS = {"name": "lake", "topics": "t", "table.location": "/lake"}
TP = TopicPartition("t", 0)


def test_merge_names_every_column_and_quotes_all_names() -> None:
    statement = merge_statement(
        "delta.`/lake/a``b`", "s", ["i`d"], ["i`d", "x", "old"], {"i`d", "x"}, {"x"}, ("i`d", 1, 9), deletes=True
    )
    assert statement == (
        "MERGE INTO delta.`/lake/a``b` AS t USING `s` AS s ON t.`i``d` = s.`i``d` AND t.`i``d` BETWEEN 1 AND 9 "
        "WHEN MATCHED AND s.`__sluice_delete` THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET t.`x` = CASE WHEN s.`__sluice_keep_x` THEN t.`x` ELSE s.`x` END, t.`old` = NULL "
        "WHEN NOT MATCHED AND NOT s.`__sluice_delete` THEN INSERT (`i``d`, `x`) VALUES (s.`i``d`, s.`x`)"
    )


def test_merge_of_nothing_but_keys_has_no_update() -> None:
    assert "UPDATE" not in merge_statement("t", "s", ["id"], ["id"], {"id"}, (), None, deletes=False)


def test_literals_are_escaped() -> None:
    assert literal("a'b\\' OR 1=1") == "'a\\'b\\\\\\' OR 1=1'"
    assert literal(dt.date(2026, 1, 2)) == "DATE'2026-01-02'"
    with pytest.raises(TypeError):
        literal(1.5)


OFFSETS = st.dictionaries(
    st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 9)), st.integers(0, 2**60), max_size=5
)


@given(OFFSETS, st.integers(0, 2**60))
def test_commit_metadata_round_trips(ends: dict[TopicPartition, int], sequence: int) -> None:
    commit = TableCommit("lake", sequence, {tp: (0, end) for tp, end in ends.items()}, ends)
    assert parse_commit(commit.to_json()) == commit


def test_the_newest_commit_of_a_partition_is_authoritative() -> None:
    other = TopicPartition("t", 1)
    history = [
        None,
        "somebody's own words",
        '{"sluice": 1}',
        TableCommit("lake", 9, {}, {TP: 50}).to_json(),
        TableCommit("elsewhere", 99, {}, {TP: 999}).to_json(),
        TableCommit("lake", 8, {}, {TP: 40, other: 7}).to_json(),
    ]
    committed_offsets = collect_committed_offsets(history, "lake")
    assert committed_offsets.sequence == 9
    assert committed_offsets.ends == {TP: 50, other: 7}
    assert committed_offsets.covers([TP, other])
    assert collect_committed_offsets([TableCommit("lake", 10, {}, {TP: None}).to_json(), *history], "lake").ends == {other: 7}


def test_columns_are_added_where_they_are_missing_nested_ones_too() -> None:
    table = {"id": pa.int64(), "s": pa.struct([("a", pa.int32())]), "l": pa.list_(pa.struct([("b", pa.string())]))}
    incoming = {
        "id": pa.int64(),
        "new": pa.string(),
        "s": pa.struct([("a", pa.int32()), ("c", pa.bool_())]),
        "l": pa.list_(pa.struct([("b", pa.string()), ("d", pa.date32())])),
    }
    assert missing_columns(table, incoming) == [("`new`", pa.string()), ("`s`.`c`", pa.bool_()), ("`l`.element.`d`", pa.date32())]
    assert list(with_additions(table, incoming)) == ["id", "s", "l", "new"]
    assert not missing_columns(with_additions(table, incoming), incoming)
    with pytest.raises(SchemaError, match="differ only in case"):
        missing_columns({"Id": pa.int64()}, {"id": pa.int64()})
    with pytest.raises(SchemaError, match="are reserved"):
        check_names(["__sluice_x"])


def test_types_round_trip_through_sql_and_spark_json() -> None:
    assert sql_type(pa.struct([("a b", pa.list_(pa.decimal128(38, 2)))])) == "STRUCT<`a b`: ARRAY<DECIMAL(38,2)>>"
    node = {"type": "map", "keyType": "string", "valueType": {"type": "array", "elementType": "timestamp_ntz"}}
    assert arrow_type(node) == pa.map_(pa.string(), pa.list_(pa.timestamp("us")))
    with pytest.raises(SchemaError, match="interval"):
        arrow_type("interval")


def test_values_fit_exactly_or_raise_an_error_that_names_them() -> None:
    assert cast_column(pa.chunked_array([pa.array([1, None], pa.int32())]), pa.int64(), "n").to_pylist() == [1, None]
    with pytest.raises(DataError, match="column n: 300 does not fit TINYINT") as error:
        cast_column(pa.chunked_array([pa.array([1, 300])]), pa.int8(), "n")
    assert error.value.args[1] == 1
    with pytest.raises(SchemaError, match="column n is STRING in the table, but BIGINT in the records"):
        cast_column(pa.chunked_array([pa.array([1])]), pa.string(), "n")
    nested = cast_column(
        pa.chunked_array([pa.array([[{"a": 1}], None])]), pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])), "l"
    )
    assert nested.to_pylist() == [[{"a": 1, "b": None}], None]
    assert merge_columns([{"a": pa.int32()}, {"a": pa.int64(), "b": pa.string()}]) == {"a": pa.int64(), "b": pa.string()}
    with pytest.raises(SchemaError, match="column a is both"):
        merge_columns([{"a": pa.int32()}, {"a": pa.string()}])


def test_the_prefix_ends_where_the_schema_ends() -> None:
    schema = {"type": "struct", "fields": [{"field": "p", "type": "int32", "default": {"x": 1, "payload": 2}}]}
    text = json.dumps(schema, separators=(",", ":")).encode()
    message = b'{"schema":' + text + b',"payload":{"p":1}}'
    assert find_prefix(message).text == message[: -len(b'{"p":1}}')]
    known: list[Prefix] = []
    groups, nulls = split_by_prefix([message, None, message], known)
    assert [(positions, payloads) for _, positions, payloads in groups] == [([0, 2], [b'{"p":1}'] * 2)]
    assert nulls == [1]
    with pytest.raises(NotBatchable):
        find_prefix(b'{"payload":1,"schema":{"type":"int32"}}')


def test_types_without_a_schema_are_conservative_and_then_fixed() -> None:
    shape = InferredSchema()
    shape.envelope = False
    shape.parse([b'{"a":1,"when":"2026-01-01 00:00:00","n":null,"l":[],"o":{"x":1.5}}'], None)
    assert {f.name: f.type for f in shape.row} == {
        "a": pa.int64(),
        "when": pa.string(),
        "l": pa.list_(pa.string()),
        "o": pa.struct([("x", pa.float64())]),
    }
    shape.parse([b'{"n":true}'], None)
    assert shape.row.field("n").type == pa.bool_()
    with pytest.raises(ValueError, match="int64"):
        shape.parse([b'{"a":1.5}'], None)
    shape.set_types({"d": pa.float64()})
    with pytest.raises(DataError, match="cannot hold the integer 9007199254740993 exactly"):
        shape.parse([b'{"d":9007199254740993}'], None)


def test_tables_that_need_dataframes_are_recognized_by_their_metadata() -> None:
    plain: dict[str, Any] = {"partitionColumns": [], "configuration": {}, "schemaString": '{"fields":[]}'}
    assert find_obstacle(plain, {"minWriterVersion": 2}) is None
    assert find_obstacle(plain, {"minWriterVersion": 7, "writerFeatures": ["appendOnly", "timestampNtz"]}) is None
    assert find_obstacle({**plain, "partitionColumns": ["a"]}, {}) == "it is partitioned"
    assert find_obstacle({**plain, "configuration": {"delta.columnMapping.mode": "name"}}, {}) is not None
    assert find_obstacle(plain, {"minWriterVersion": 7, "writerFeatures": ["rowTracking"]}) == "it has the features rowTracking"
    generated = '{"fields":[{"name":"a","metadata":{"delta.generationExpression":"1"}}]}'
    assert find_obstacle({**plain, "schemaString": generated}, {}) == "column a has a constraint or column metadata"


def test_statistics_are_exact_or_absent() -> None:
    rows = pa.table({"n": [3, None, 1], "long": ["x" * 40, "a", None], "day": [dt.date(2026, 1, 1)] * 3})
    assert file_statistics(rows) == {
        "numRecords": 3,
        "minValues": {"n": 1, "day": "2026-01-01"},
        "maxValues": {"n": 3, "day": "2026-01-01"},
        "nullCount": {"n": 1, "long": 1, "day": 0},
    }


@pytest.mark.parametrize("day", [-719_164, 2_932_897, 2**31 - 1])
def test_dates_outside_pythons_years_have_no_statistics(day: int) -> None:
    rows = pa.table({"day": pa.array([0, day], pa.int32()).cast(pa.date32())})
    assert file_statistics(rows) == {"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {"day": 0}}


def test_the_error_for_a_far_instant_without_a_schema_names_the_field() -> None:
    value = {"a": 1, "b": [FarInstant(1 << 60)]}
    with pytest.raises(TypeError, match="an instant outside the years 1 to 9999"):
        dump(value)
    assert find_unserializable_member(value) == "b"


def test_names_come_from_topic_or_source_and_stay_below_the_location() -> None:
    config = parse_config({**PROPS, "table.name.format": "${schema}.${table}"})
    assert config.names_need_source
    assert config.table_name("t", "db", "public", "orders") == "public.orders"
    assert config.table_name("t", "db", "../x", "y") == ".._x.y"
    with pytest.raises(ConfigError, match=r"no source\.table"):
        config.table_name("t", "db", "s", None)
    assert parse_config(PROPS).table_name("a.b", None, None, None) == "a.b"


@pytest.mark.parametrize(
    ("changes", "key", "says"),
    [
        ({"table.format": "iceberg"}, "table.format", "delta, parquet"),
        ({"write.mode": "scd2"}, "write.mode", "append, upsert"),
        ({"table.format": "parquet", "write.mode": "upsert"}, "write.mode", "only append"),
        ({"table.name.format": "${tabel}"}, "table.name.format", "${topic}, ${database}, ${schema}, ${table}"),
        ({"metadata.columns": "__opp"}, "metadata.columns", "__op"),
        ({"commit.max.records": "0"}, "commit.max.records", "at least 1"),
    ],
)
def test_the_error_for_an_invalid_value_names_key_and_choices(changes: dict[str, str], key: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config({**PROPS, **changes})
    assert error.value.key == key
    assert says in error.value.message
    found = {v.name: v.errors for v in SparkSink().validate({**PROPS, **changes})}
    assert any(says in e for e in found[key])


def test_errors_of_java_are_reduced_to_their_cause() -> None:
    trace = (
        "An error occurred while calling o1.save.\n: org.a.SparkException: Job aborted\n\tat x\n"
        "Caused by: java.io.IOException: No space left on device\n\tat y"
    )
    assert root_cause(trace) == "IOException: No space left on device"
    error = explain(RuntimeError(trace), "table t at /lake/t")
    assert str(error) == "table t at /lake/t: IOException: No space left on device; free disk space"
    assert not isinstance(error, RetriableError)
    assert isinstance(explain(RuntimeError("x.ConcurrentAppendException: [DELTA_CONCURRENT_APPEND] files"), "t"), RetriableError)
    own = ConnectError("as it is")
    assert explain(own, "t") is own


def test_missing_java_and_missing_jars_say_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match=r"needs Java 17 or later: JAVA_HOME is .* has no bin/java"):
        session.require_java()
    with pytest.raises(ConfigError, match=r"spark\.jars: Expected a JAR file or a folder with JAR files"):
        session.find_jars([str(tmp_path)])
    (tmp_path / "a.jar").touch()
    monkeypatch.setenv("SLUICE_SPARK_JARS", str(tmp_path))
    assert session.find_jars([]) == [tmp_path / "a.jar"]


def test_listing_the_plugin_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    program = "import sys, connectors.spark as s; s.SparkSink().config_def(); print({'pyspark', 'pyarrow'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_identifiers_are_quoted() -> None:
    assert quote("a`b") == "`a``b`"
