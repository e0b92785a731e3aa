"""Configuration of the Spark sink."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from connect.errors import ConfigError
from connectors.spark.config import parse_config
from connectors.spark.config_keys import APPEND_METADATA, REMOVED_KEYS
from connectors.spark.connector import SparkSink
from connectors.spark.iceberg_sink.config import parse_config as parse_iceberg_config
from connectors.spark.session.settings import session_conf
from connectors.spark.source.config import parse_config as parse_source_config
from worker.lint import check_files

PROPS = {"name": "lake", "topics": "t", "table.location": "/lake"}


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
        ({"table.format": "hudi"}, "table.format", "delta, iceberg, parquet"),
        ({"executors.sql.transforms": "auto"}, "executors.sql.transforms", "no longer exists. Transformations always run in"),
        ({"write.mode": "scd3"}, "write.mode", "append, upsert, scd2, both"),
        ({"write.mode": "scd2", "delete.mode": "soft"}, "delete.mode", "use hard"),
        ({"table.format": "parquet", "write.mode": "both"}, "write.mode", "only append"),
        ({"table.format": "parquet", "compaction.min.files": "5"}, "compaction.min.files", "parquet tables are not merged"),
        ({"table.format": "parquet", "partition.columns": "a"}, "partition.columns", "parquet tables have no such layout"),
        ({"write.mode": "both", "changelog.table.suffix": "/log"}, "changelog.table.suffix", "without slashes"),
        ({"write.mode": "both", "topics": "a,b_changelog"}, "changelog.table.suffix", "topic b_changelog has the name of a"),
        ({"spark.master": "spark://:7077"}, "spark.master", "expected spark://host:port"),
        ({"spark.master": "spark://h:port"}, "spark.master", "expected spark://host:port"),
        (
            {"spark.remote": "sc://h", "write.mode": "scd2"},
            "spark.remote",
            "scd2 is out of reach of Spark Connect",
        ),
        (
            {"spark.remote": "sc://h", "table.format": "iceberg"},
            "spark.remote",
            "out of reach of Spark Connect",
        ),
        ({"spark.executors.timeout.ms": "10"}, "spark.executors.timeout.ms", "at least 1000"),
        ({"table.format": "parquet", "write.mode": "upsert"}, "write.mode", "only append"),
        ({"table.name.format": "${tabel}"}, "table.name.format", "${topic}, ${database}, ${schema}, ${table}"),
        ({"table.name.format": "${topic"}, "table.name.format", "no closing brace"),
        ({"metadata.columns": "__opp"}, "metadata.columns", "__op"),
        ({"metadata.columns": "none,__op"}, "metadata.columns", "either columns or none"),
        ({"key.columns": "id,id", "write.mode": "upsert"}, "key.columns", "named twice"),
        ({"key.columns": "id", "delete.field": "id", "write.mode": "upsert"}, "delete.field", "cannot be one of key.columns"),
        ({"table.properties.": "5"}, "table.properties.", "expected table.properties.<key>"),
        ({"spark.conf.": "5"}, "spark.conf.", "expected spark.conf.<key>"),
        ({"spark.master": "local[zero]"}, "spark.master", "local[<threads>]"),
        ({"spark.master": "local[0]"}, "spark.master", "local[<threads>]"),
        ({"commit.max.records": "0"}, "commit.max.records", "at least 1"),
        ({"commit.interval.ms": "-1"}, "commit.interval.ms", "at least 0"),
        ({"table.format": "parquet", "schema.evolution": "widen"}, "schema.evolution", "use table.format=delta"),
        ({"schema.evolution": "lenient", "rescue.column": "__op"}, "rescue.column", "no metadata column"),
        ({"schema.evolution.t": "wide"}, "schema.evolution.t", "did you mean widen?"),
        ({"schema.evolution.tt": "widen"}, "schema.evolution.tt", "writes no table tt; did you mean t?"),
        ({"schema.evolution.t": "widen", "table.format": "parquet"}, "schema.evolution.t", "use table.format=delta"),
        ({"schema.contract": "frozen"}, "schema.contract", "evolve, freeze, drop_column, dead_letter_queue"),
        ({"schema.contract.overrides": "t:freese"}, "schema.contract.overrides", "did you mean freeze?"),
        ({"missing.columns": "keeps"}, "missing.columns", "null, keep"),
        ({"column.renames": "a"}, "column.renames", "Expected <field>:<column>"),
        ({"column.renames": "a:b,b:c"}, "column.renames", "b is itself written into c"),
        ({"column.renames": "a:b,a:c"}, "column.renames", "also written into the column b"),
        ({"column.renames": "a:a"}, "column.renames", "the same name"),
        ({"column.renames": "a:__op"}, "column.renames", "those of the sink"),
        ({"column.renames.x": "a:b"}, "column.renames.x", "writes no table x"),
        ({"column.renames.t": "a"}, "column.renames.t", "Expected <field>:<column>"),
        ({"column.renames": "id:no", "write.mode": "upsert", "key.columns": "id"}, "key.columns", "did you mean no?"),
        ({"column.renames.t": "d:day", "partition.columns": "d"}, "partition.columns", "did you mean day?"),
        ({"column.renames": "a:_rescued_data"}, "column.renames", "the rescue column"),
        ({"freshness.ms": "-1"}, "freshness.ms", "at least 0"),
        ({"freshness.orders.ms": "soon"}, "freshness.orders.ms", "Not a number"),
        ({"freshness.orders.ms": "-1"}, "freshness.orders.ms", "at least 0"),
        ({"freshness.orders": "5"}, "freshness.orders", "expected freshness.<table>.ms"),
        ({"freshness..ms": "5"}, "freshness..ms", "expected freshness.<table>.ms"),
    ],
)
def test_the_error_for_an_invalid_value_names_key_and_choices(changes: dict[str, str], key: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config({**PROPS, **changes})
    assert error.value.key == key
    assert says in error.value.message
    found = {v.name: v.errors for v in SparkSink().validate({**PROPS, **changes})}
    assert any(says in e for e in found[key])


def test_both_gives_each_table_a_changelog_with_settings_of_its_own() -> None:
    config = parse_config({**PROPS, "write.mode": "both", "delete.mode": "soft"})
    assert (config.changelog_of("t"), config.current_table_of("t_changelog"), config.current_table_of("t")) == (
        "t_changelog",
        "t",
        "t",
    )
    assert (config.of_table("t").write_mode, config.of_table("t").metadata_columns) == ("upsert", ("__deleted",))
    log = config.of_table("t_changelog")
    assert (log.write_mode, log.metadata_columns) == ("append", APPEND_METADATA)
    with pytest.raises(ConfigError, match=r"changelog\.table\.suffix: the table a_changelog of topic a_changelog has the name"):
        config.table_name("a_changelog", None, None, None)
    single = parse_config(PROPS)
    assert (single.changelog_of("t"), single.table_name("a_changelog", None, None, None)) == (None, "a_changelog")


def test_freshness_is_set_for_all_tables_and_for_single_ones() -> None:
    config = parse_config({**PROPS, "freshness.ms": "5000", "freshness.public.orders.ms": "200"})
    assert (config.freshness_ms, config.table_freshness_ms) == (5000, {"public.orders": 200})
    assert (parse_config(PROPS).freshness_ms, parse_config(PROPS).commit_interval_ms) == (1000, None)
    assert parse_config({**PROPS, "commit.interval.ms": "250"}).commit_interval_ms == 250


def test_lint_knows_the_freshness_of_single_tables_and_shows_where_one_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "lake.properties"
    lines = ["name=lake", "connector.class=SparkSink", "topics=t", "table.location=/lake", "freshness.a.ms=200"]
    file.write_text("\n".join(lines))
    assert check_files([file]).findings == []
    file.write_text("\n".join([*lines, "freshness.b.ms=soon"]))
    (finding,) = check_files([file]).findings
    assert (finding.line, finding.severity.value) == (6, "error")
    assert "freshness.b.ms" in finding.message


SESSION = {
    "spark.sql.session.timeZone": ("America/New_York", "Expected UTC", "from_utc_timestamp"),
    "spark.sql.ansi.enabled": ("false", "Expected true", "try_cast"),
    "spark.sql.parquet.datetimeRebaseModeInWrite": ("LEGACY", "Expected CORRECTED", "Remove the key"),
    "spark.sql.parquet.outputTimestampType": ("TIMESTAMP_MILLIS", "Expected TIMESTAMP_MICROS", "Remove the key"),
}
REBASE_IN_READ = "spark.conf.spark.sql.parquet.datetimeRebaseModeInRead"
CONNECTORS = {
    "SparkSink": {"name": "lake", "connector.class": "SparkSink", "topics": "t", "table.location": "/lake"},
    "IcebergSink": {"name": "lake", "connector.class": "IcebergSink", "topics": "t", "iceberg.tables": "db.t"},
    "SparkSource": {
        "name": "q", "connector.class": "SparkSource", "source.format": "query", "source.query": "SELECT 1 AS n",
        "cursor.column": "n", "topic": "t",
    },
}  # fmt: skip


@pytest.mark.parametrize("connector", CONNECTORS)
@pytest.mark.parametrize("key", SESSION)
def test_settings_of_sessions_that_results_depend_on_are_refused(connector: str, key: str, tmp_path: Path) -> None:
    value, expected, instead = SESSION[key]
    file = tmp_path / "connector.properties"
    lines = [f"{name}={given}" for name, given in CONNECTORS[connector].items()]
    file.write_text("\n".join([*lines, f"spark.conf.{key}={expected.split()[-1]}"]))
    assert not [finding for finding in check_files([file]).findings if finding.severity.value == "error"]
    file.write_text("\n".join([*lines, f"spark.conf.{key}={value}"]))
    (finding,) = (finding for finding in check_files([file]).findings if finding.severity.value == "error")
    assert finding.line == len(lines) + 1
    assert f"Invalid value {value} for configuration spark.conf.{key}: {expected}" in finding.message
    assert instead in finding.message


def test_a_query_may_say_how_spark_reads_old_dates_and_the_sink_may_not() -> None:
    legacy = {REBASE_IN_READ: "LEGACY"}
    with pytest.raises(ConfigError, match="Expected CORRECTED"):
        parse_config({**PROPS, **legacy})
    assert parse_source_config({**CONNECTORS["SparkSource"], **legacy}).query is not None


def test_settings_of_sessions_that_results_do_not_depend_on_are_free() -> None:
    more = {"spark.conf.spark.databricks.delta.merge.materializeSource": "auto", "spark.conf.spark.sql.shuffle.partitions": "3"}
    conf = session_conf(parse_config({**PROPS, **more}).spark)
    assert conf["spark.databricks.delta.merge.materializeSource"] == "auto"
    assert conf["spark.sql.shuffle.partitions"] == "3"
    assert conf["spark.sql.session.timeZone"] == "UTC"


def test_uri_with_one_slash_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"table\.location: a URI has two slashes after its scheme: s3://bucket/lake"):
        parse_config({**PROPS, "table.location": "s3:/bucket/lake"})
    for location in ("file:/lake", "file:///lake", "s3://bucket/lake", "lake:old", "c:lake/t"):
        parse_config({**PROPS, "table.location": location})


CATALOG = {"table.format": "iceberg", "table.location": "", "table.catalog": "prod.shop"}


def test_tables_of_a_catalog_need_no_location() -> None:
    config = parse_config(PROPS | CATALOG)
    assert (config.location, config.catalog) == ("", "prod.shop")


def test_terms_of_partitions_have_commas() -> None:
    config = parse_config({**PROPS, **CATALOG, "partition.columns": "a, bucket(16, b), days(c)"})
    assert config.table.layout.partition_columns == ("a", "bucket(16,b)", "days(c)")


@pytest.mark.parametrize(
    ("changes", "key", "says"),
    [
        ({"table.location": "/lake"}, "table.catalog", "remove table.location"),
        ({"table.format": "delta"}, "table.catalog", "set table.location"),
        ({"table.catalog": ""}, "table.location", "or table.catalog"),
        ({"table.catalog": "", "table.location": "s3://bucket/lake"}, "table.location", "set table.catalog"),
        ({"table.catalog": "prod..shop"}, "table.catalog", "namespaces in it after dots"),
        ({"partition.columns": "weeks(c)"}, "partition.columns", "Expected a column, or years"),
        ({"cluster.columns": "c"}, "cluster.columns", "use partition.columns"),
        ({"spark.remote": "sc://localhost"}, "spark.remote", "use spark.master"),
    ],
)
def test_settings_that_do_not_fit_iceberg_are_refused(changes: dict[str, str], key: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(PROPS | CATALOG | changes)
    assert error.value.key == key
    assert says in error.value.message


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"write.mode": "append"}, "keeps all changes"),
        ({"write.mode": "scd2"}, "scd2 needs log"),
        ({"write.mode": "upsert", "spark.remote": "sc://localhost"}, "cannot with Spark Connect"),
        ({"write.mode": "upsert", "missing.columns": "keep"}, "missing.columns=keep keeps columns"),
    ],
)
def test_order_by_source_is_refused_where_it_has_no_meaning(changes: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        parse_config({**PROPS, "sequence.by": "source", **changes})
    assert "sequence.by" in caught.value.message


def test_tables_that_are_ordered_by_source_have_positions() -> None:
    both = parse_config({**PROPS, "sequence.by": "source", "write.mode": "both", "metadata.columns": "__op"})
    assert both.changelog is not None
    assert (both.table.orders_by_source, both.table.metadata_columns) == (True, ("__op", "__seq"))
    assert (both.changelog.orders_by_source, both.changelog.metadata_columns) == (False, ("__op",))
    soft = parse_config({**PROPS, "sequence.by": "source", "write.mode": "upsert", "delete.mode": "soft"})
    assert soft.table.metadata_columns == ("__seq", "__deleted")


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"table.format": "parquet"}, "parquet tables are written without Spark"),
        ({"spark.remote": "sc://host:15002"}, "out of reach of Spark Connect"),
    ],
)
def test_executors_are_refused_where_their_files_cannot_be_committed(more: dict[str, str], reason: str) -> None:
    props = {"topics": "t", "table.location": "/lake", **more}
    with pytest.raises(ConfigError, match=f"Invalid value executors for configuration spark.engine: .*{reason}"):
        parse_config({**props, "spark.engine": "executors"})
    assert not parse_config(props).may_use_executors


@pytest.mark.parametrize(
    ("engine", "master", "expected"),
    [
        ("auto", "local[*]", False),
        ("auto", "spark://host:7077", True),
        ("worker", "spark://host:7077", False),
        ("executors", "local[2]", True),
    ],
)
def test_auto_may_use_the_executors_of_a_cluster(engine: str, master: str, expected: bool) -> None:
    config = parse_config({"topics": "t", "table.location": "/lake", "spark.engine": engine, "spark.master": master})
    assert config.may_use_executors is expected


def test_tables_can_have_settings_of_their_own_for_schemas() -> None:
    props = {**PROPS, "write.mode": "both", "topics": "t,u", "schema.evolution": "fail", "column.renames": "a:b"}
    own = {"schema.evolution.t": "lenient", "schema.evolution.t_changelog": "add", "column.renames.t": "c:d"}
    config = parse_config({**props, **own})
    names = ("t", "t_changelog", "u", "u_changelog")
    assert [config.of_table(name).schema_evolution for name in names] == ["lenient", "add", "fail", "fail"]
    assert [config.of_table(name).write_mode for name in names] == ["upsert", "append", "upsert", "append"]
    assert config.of_table("t").schema.renames == {"a": "b", "c": "d"}
    assert config.of_table("u").schema.renames == {"a": "b"}
    assert (config.changelog_of("t"), config.current_table_of("t_changelog")) == ("t_changelog", "t")
    # Names that only records tell are taken as they are.
    dynamic = {**PROPS, "table.name.format": "${table}", "schema.evolution.any": "none"}
    assert parse_config(dynamic).of_table("any").schema_evolution == "none"


@pytest.mark.parametrize("key", REMOVED_KEYS)
def test_a_key_that_no_longer_exists_is_refused_with_what_to_do_instead(key: str, tmp_path: Path) -> None:
    props = {**PROPS, key: "5"}
    iceberg = {"name": "lake", "topics": "t", "iceberg.tables": "db.t", key: "5"}
    for parse, given in ((parse_config, props), (parse_iceberg_config, iceberg)):
        with pytest.raises(ConfigError) as error:
            parse(given)
        assert (error.value.key, REMOVED_KEYS[key] in error.value.message) == (key, True)
    file = tmp_path / "lake.properties"
    file.write_text("\n".join(f"{name}={value}" for name, value in {"connector.class": "SparkSink", **props}.items()))
    (finding,) = check_files([file]).findings
    assert (finding.path, finding.line, finding.severity.value) == (key, 5, "error")
    assert finding.suggestion == REMOVED_KEYS[key]


def test_all_keys_that_no_longer_exist_are_reported_beside_other_errors() -> None:
    found = SparkSink().validate({**PROPS, **dict.fromkeys(REMOVED_KEYS, "x"), "write.mode": "x"})
    errors = {value.name: value.errors for value in found if value.errors}
    assert errors.keys() == {"write.mode", *REMOVED_KEYS}
    assert all("no longer exist" in errors[key][0] for key in REMOVED_KEYS)


ICEBERG = {"name": "lake", "topics": "t", "iceberg.tables": "db.t"}


def test_commas_at_the_end_of_lists_name_nothing() -> None:
    config = parse_iceberg_config(
        {
            **ICEBERG,
            "iceberg.tables": "db.t,",
            "iceberg.tables.default-partition-by": "bucket(id, 4), hours(ts),",
            "iceberg.tables.default-id-columns": "id,",
            "iceberg.table.db.t.partition-by": "truncate(name,2),",
        }
    )
    assert config.routes is not None
    assert config.routes.tables == ("db.t",)
    assert config.table.layout.partition_columns == ("bucket(id,4)", "hours(ts)")
    assert config.table.key_columns == ("id",)
    assert config.of_table("db.t").layout.partition_columns == ("truncate(name,2)",)
    delta = parse_config({**PROPS, "partition.columns": "day,", "key.columns": "id,"})
    assert (delta.table.layout.partition_columns, delta.table.key_columns) == (("day",), ("id",))


@pytest.mark.parametrize(
    "key",
    ["iceberg.tables.default-partition-by", "iceberg.table.db.t.partition-by"],
)
def test_errors_of_the_iceberg_sink_name_the_keys_of_its_user(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"for configuration {re.escape(key)}: Expected a column") as error:
        parse_iceberg_config({**ICEBERG, key: "bucket(id)"})
    assert error.value.key == key
    assert "for configuration partition.columns" not in error.value.message


BOTH = {**ICEBERG, "write.mode": "both", "iceberg.tables.default-id-columns": "id"}


def test_a_changelog_of_the_iceberg_sink_with_settings_of_its_own_stays_a_changelog() -> None:
    config = parse_iceberg_config({**BOTH, "iceberg.table.db.t_changelog.partition-by": "bucket(id, 4)"})
    found = config.of_table("db.t_changelog")
    assert (found.write_mode, found.layout.partition_columns) == ("append", ("bucket(id,4)",))
    assert config.of_table("db.t").write_mode == "upsert"
    assert config.current_table_of("db.t_changelog") == "db.t"


def test_a_table_of_the_iceberg_sink_with_the_name_of_a_changelog_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"iceberg\.tables: the name is that of a changelog"):
        parse_iceberg_config({**BOTH, "iceberg.tables": "db.t,db.t_changelog"})


def test_a_table_of_the_iceberg_sink_that_is_listed_twice_counts_once() -> None:
    routes = parse_iceberg_config({**ICEBERG, "iceberg.tables": "db.t, db.u, db.t"}).routes
    assert routes is not None
    assert routes.tables == ("db.t", "db.u")


@pytest.mark.parametrize("location", ["hdfs://h/x", "ftp://x/y", "abfss://a@b/c"])
def test_parquet_tables_in_other_file_systems_are_refused(location: str) -> None:
    with pytest.raises(ConfigError, match="Expected a directory, s3://, or gs:// for Parquet"):
        parse_config({"name": "lake", "topics": "t", "table.format": "parquet", "table.location": location})


@pytest.mark.parametrize("location", ["/lake", "file:///lake", "s3://b/lake", "s3a://b/lake", "gs://b/lake"])
def test_parquet_tables_in_known_file_systems_are_accepted(location: str) -> None:
    assert parse_config({"name": "lake", "topics": "t", "table.format": "parquet", "table.location": location}).location
