"""Keys, partition values, and texts reach Spark and Iceberg's library as they are, and come back so."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import ConnectError
from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.plan.sql import PARSER_SETTINGS, literal
from connectors.spark.session.java_classes import install_class
from connectors.spark.tables import open_table
from connectors.spark.tables.iceberg.partitioning import Partitioning, new_spec
from connectors.spark.tables.iceberg.types import new_schema
from tests.integration.spark.lake import field, message
from tests.integration.spark.table_access import CATALOG, catalog_props, configure_catalog
from tests.support import randomness
from tests.support.cases import first_fast

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

DATE = "org.apache.kafka.connect.data.Date"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
UPSERT = {"write.mode": "upsert", "metadata.columns": "none"}
SEARCH, MERGE = "search", "merge"
TRANSFORMS = Path(__file__).parents[2] / "support" / "PartitionTransforms.java"


@pytest.fixture
def spark(props: dict[str, str]) -> Iterator[Any]:
    lease = session.lease(parse_config(props).spark)
    yield lease.session()
    lease.release()


@pytest.fixture
def write(props: dict[str, str], run: Any, topic: Any) -> Iterator[Callable[..., None]]:
    """Adds records, with the same fields in key and value, and commits them. A value of None is a delete."""
    t = topic("t", schemas=True)
    group: dict[TopicPartition, int] = {}
    runs: list[Any] = []

    def add(keys: list[dict[str, Any]], fields: list[dict[str, Any]], *rows: dict[str, Any], **own: str) -> None:
        for row in rows:
            names = {member["field"] for member in keys}
            key = {name: value for name, value in row.items() if name in names}
            t.add(message(keys, key), message(fields, row) if row.keys() - names else None)
        if not runs:
            runs.append(run({**props, **UPSERT, **own}, [t], raw=True, group=group))
        runs[0].deliver()
        runs[0].commit()

    yield add
    for task_run in runs:
        task_run.task.close()


@pytest.fixture
def way(request: pytest.FixtureRequest, props: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """How Spark finds rows: for the worker's files, or in a MERGE of its own."""
    props["upsert.index.max.keys"] = "1"
    if request.param == MERGE:
        monkeypatch.setattr(open_table, "reaches_jvm", lambda spark: False)
    return str(request.param)


def rows_of(spark: Any, props: dict[str, str], columns: str) -> list[tuple[Any, ...]]:
    found = spark.read.format("delta").load(f"{props['table.location']}/t").selectExpr(*columns.split(", ")).collect()
    return sorted(tuple(row) for row in found)


@pytest.mark.parametrize("way", first_fast([SEARCH, MERGE]), indirect=True)
def test_dates_of_any_year_are_found(props: Any, write: Any, spark: Any, way: str) -> None:
    """1582-10-05 to 1582-10-14 exist in SQL, and not in Java's old calendar."""
    keys = [field("day", "int32", name=DATE)]
    fields = [*keys, field("v", "string")]
    gap, others = range(-141_437, -141_427), [-719_162, -719_900, -1, 4_000_000]
    write(keys, fields, *({"day": day, "v": "old"} for day in [*gap, *others]))
    changed = [-141_437, -719_162, -719_900, 4_000_000]
    write(keys, fields, {"day": -141_432, "v": "new"})
    write(keys, fields, {"day": -141_428})
    write(keys, fields, *({"day": day, "v": "new"} for day in changed))
    expected = {day: "new" if day in (-141_432, *changed) else "old" for day in [*gap, *others] if day != -141_428}
    assert rows_of(spark, props, "unix_date(day), v") == sorted(expected.items())


@pytest.mark.long
@pytest.mark.parametrize("way", [SEARCH, MERGE], indirect=True)
def test_no_setting_changes_texts_in_statements(props: Any, write: Any, spark: Any, way: str) -> None:
    """Spark substitutes ``${env:...}`` in statements, also in texts."""
    props["table.location"] += "/a'b `c"
    props |= {
        "table.properties.note": "${env:HOME} it's \\n",
        "spark.conf.spark.sql.parser.escapedStringLiterals": "true",
        "spark.conf.spark.sql.parser.quotedRegexColumnNames": "true",
    }
    keys = [field("k", "string")]
    fields = [*keys, field("v.*", "string"), field("v1", "string")]
    texts = ["${env:HOME}", "\\\\a'b\\", "it's", "~"]
    write(keys, fields, *({"k": text, "v.*": "old", "v1": "1"} for text in texts))
    write(keys, fields, {"k": "${env:HOME}", "v.*": "new", "v1": "2"})
    write(keys, fields, *({"k": text, "v.*": "new", "v1": "2"} for text in texts[1:3]))
    write(keys, fields, {"k": "~"})
    assert rows_of(spark, props, "k, `v.*`, v1") == sorted((text, "new", "2") for text in texts[:3])
    log = sorted(Path(props["table.location"], "t", "_delta_log").glob("*.json"))[0]
    actions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    (metadata,) = (action["metaData"] for action in actions if "metaData" in action)
    assert metadata["configuration"]["note"] == "${env:HOME} it's \\n"


@pytest.mark.long
def test_texts_come_back_from_statements(spark: Any) -> None:
    chosen = randomness.chance("literals")
    pieces = [
        "\\",
        "'",
        '"',
        "`",
        "${env:HOME}",
        "$",
        "u0041",
        "x41",
        "101",
        "%",
        "_",
        "\n",
        "\0",
        "--",
        "/*",
        "\u2028",
        "\U0001f600",
        "ä",
    ]
    texts = ["".join(chosen.choices(pieces, k=chosen.randint(0, 6))) for _ in range(1000)]
    for key, value in PARSER_SETTINGS.items():
        spark.conf.set(key, value)
    rows = ", ".join(f"({number}, {literal(text)})" for number, text in enumerate(texts))
    found = spark.sql(f"SELECT * FROM VALUES {rows}").toArrow().to_pylist()
    assert [row["col2"] for row in sorted(found, key=lambda row: row["col1"])] == texts


@pytest.mark.long
def test_partitions_of_instants_without_a_zone_are_refused(props: Any, write: Any, spark: Any) -> None:
    table = f"delta.`{props['table.location']}/t`"
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spark.conf.set("spark.databricks.delta.write.utcTimestampPartitionValues", "false")
    spark.sql(
        f"CREATE TABLE {table} (id INT, at TIMESTAMP, v STRING) USING delta PARTITIONED BY (at) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"INSERT INTO {table} VALUES (1, TIMESTAMP'2026-01-02 03:04:05', 'old')")
    keys = [field("id", "int32"), field("at", "int64", name=TIMESTAMP)]
    fields = [*keys, field("v", "string")]
    at = int(dt.datetime(2026, 1, 2, 8, 4, 5, tzinfo=dt.UTC).timestamp() * 1000)
    with pytest.raises(ConnectError, match="'2026-01-02 03:04:05' of column at is a time in the zone") as refused:
        write(keys, fields, {"id": 1, "at": at, "v": "new"})
    spark.conf.unset("spark.databricks.delta.write.utcTimestampPartitionValues")
    spark.sql(refused.value.message.rpartition(": ")[2].replace("<table>", table))
    write(keys, fields)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert rows_of(spark, props, "id, cast(at AS string), v") == [(1, "2026-01-02 08:04:05", "new")]


@pytest.mark.long
@pytest.mark.parametrize("max_keys", ["1", "1000"])
def test_rows_of_a_shallow_clone_are_replaced(props: Any, write: Any, spark: Any, max_keys: str, tmp_path: Path) -> None:
    """Its log has absolute paths of the files of the other table."""
    keys = [field("id", "int32")]
    fields = [*keys, field("v", "string")]
    origin, clone = f"delta.`{tmp_path}/the origin ü`", f"delta.`{props['table.location']}/t`"
    spark.sql(f"CREATE TABLE {origin} (id INT, v STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    for first in (0, 5):
        spark.sql(f"INSERT INTO {origin} SELECT CAST(id AS INT), 'old' FROM range({first}, {first + 5})")
    spark.sql(f"CREATE TABLE {clone} SHALLOW CLONE {origin}")
    write(keys, fields, {"id": 0, "v": "sink"}, {"id": 1}, **{"upsert.index.max.keys": max_keys})
    spark.sql(f"UPDATE {clone} SET v = 'spark' WHERE id IN (2, 3, 6)")
    write(keys, fields, {"id": 3, "v": "sink"}, {"id": 4, "v": "sink"})
    spark.sql(f"DELETE FROM {clone} WHERE id < 5 AND id <> 3")
    write(keys, fields, {"id": 3, "v": "last"}, {"id": 7, "v": "last"}, {"id": 0, "v": "again"})
    spark.sql(f"OPTIMIZE {clone}")
    write(keys, fields, {"id": 8, "v": "last"}, {"id": 9})
    assert rows_of(spark, props, "id, v") == [(0, "again"), (3, "last"), (5, "old"), (6, "spark"), (7, "last"), (8, "last")]


# --- Iceberg

PARTITIONED = [
    field("id", "int32"),
    field("d", "double"),
    field("f", "float"),
    field("day", "int32", name=DATE),
    field("at", "int64", name=TIMESTAMP),
    field("v", "string"),
]
MOMENTS = {"day": 4_000_000, "at": 400_000_000_000_000}
"""In the years 12921 and 14645."""
NUMBERS: list[dict[str, Any]] = [
    {"d": "NaN", "f": "NaN", **MOMENTS},
    {"d": "Infinity", "f": "-Infinity", "day": -719_900, "at": -70_000_000_000_000},
    {"d": -0.0, "f": -0.0, "day": -141_432, "at": -1},
    {"d": 0.0, "f": 0.1, "day": 0, "at": 0},
    {"d": None, "f": None, "day": None, "at": None},
]


@pytest.mark.long
@pytest.mark.parametrize("version", ["3", "2"])
def test_rows_in_iceberg_partitions_of_any_value_are_replaced(
    props: Any, run: Any, topic: Any, tmp_path: Path, version: str
) -> None:
    settings = {k: v for k, v in props.items() if k != "table.location"} | UPSERT
    settings |= {f"spark.conf.{key}": value for key, value in catalog_props(tmp_path).items()}
    settings |= {"table.format": "iceberg", "table.catalog": CATALOG, "table.properties.format-version": version}
    settings |= {"key.columns": "id", "partition.columns": "d, f, day, at, years(day), days(at)"}
    t = topic("t", schemas=True)
    group: dict[TopicPartition, int] = {}
    for v in ("first", "in memory", "from the table"):
        task_run = run(settings, [t], raw=True, group=group)
        for _ in range(2):  # of which the second one finds its own files
            for at, numbers in enumerate(NUMBERS):
                t.add(None, message(PARTITIONED, {"id": at, **numbers, "v": v}))
            task_run.deliver()
            task_run.commit()
        task_run.close()
    lease = session.lease(parse_config(settings).spark)
    spark = lease.session()
    configure_catalog(spark, tmp_path)

    def ids(where: str) -> list[int]:
        return sorted(row[0] for row in spark.sql(f"SELECT id FROM {CATALOG}.t WHERE {where}").collect())

    try:
        found = spark.sql(f"SELECT id, v, unix_date(day), unix_millis(at) FROM {CATALOG}.t ORDER BY id").collect()
        assert [tuple(row) for row in found] == [(i, "from the table", n["day"], n["at"]) for i, n in enumerate(NUMBERS)]
        assert ids("d = double('NaN')") == ids("isnan(f)") == ids("day = date_from_unix_date(4000000)") == [0]
        assert ids("d = double('Infinity')") == ids("f = float('-Infinity')") == ids("at < timestamp_millis(-2)") == [1]
        assert ids("at = timestamp_millis(400000000000000)") == [0]
        assert ids("d IS NULL") == [4]
    finally:
        lease.release()


def digits(chosen: random.Random, count: int) -> int:
    return chosen.choice([-1, 1]) * chosen.randrange(10 ** chosen.randint(1, count))


def integer(bits: int) -> Callable[[random.Random], int]:
    limit = 1 << (bits - 1)

    def draw(chosen: random.Random) -> int:
        if chosen.random() < 0.2:
            return chosen.choice([-limit, limit - 1]) + chosen.randrange(20) * (1 if chosen.random() < 0.5 else 0)
        return chosen.randrange(1 << chosen.randint(1, bits - 1)) * chosen.choice([-1, 1])

    return lambda chosen: max(-limit, min(limit - 1, draw(chosen)))


def text(chosen: random.Random) -> str:
    return "".join(chosen.choice("ab\0é€\U0001f600\U0010ffff\ue000") for _ in range(chosen.randint(0, 9)))


def floating(chosen: random.Random) -> float:
    return chosen.choice([math.nan, math.inf, -math.inf, 0.0, -0.0, chosen.random(), -3e38])


TRUNCATED, BUCKETS = "truncate(c, {})", "bucket({}, c)"
TIMES = ("years(c)", "months(c)", "days(c)")
_COLUMNS: list[tuple[pa.DataType, Callable[[random.Random], Any], tuple[str, ...]]] = [
    (pa.bool_(), lambda chosen: chosen.random() < 0.5, ()),
    (pa.int32(), integer(32), (TRUNCATED, BUCKETS)),
    (pa.int64(), integer(64), (TRUNCATED, BUCKETS)),
    (pa.float32(), floating, ()),
    (pa.float64(), floating, ()),
    (pa.string(), text, (TRUNCATED, BUCKETS)),
    (pa.binary(), lambda chosen: chosen.randbytes(chosen.randint(0, 9)), (TRUNCATED, BUCKETS)),
    (pa.date32(), integer(32), (*TIMES, BUCKETS)),
    (pa.time64("us"), lambda chosen: chosen.randrange(86_400_000_000), (BUCKETS,)),
    (pa.timestamp("us"), integer(64), (*TIMES, "hours(c)", BUCKETS)),
    (pa.timestamp("us", "UTC"), integer(52), (*TIMES, "hours(c)", BUCKETS)),
    *(
        (pa.decimal128(p, s), lambda chosen, p=p, s=s: Decimal(f"{digits(chosen, p)}E-{s}"), (TRUNCATED, BUCKETS))
        for p, s in ((9, 2), (18, 0), (29, 29), (38, 10), (38, 38))
    ),
]
COLUMNS = {str(type_): (type_, draw, terms) for type_, draw, terms in _COLUMNS}
WIDTHS = [1, 2, 3, 7, 10, 16, 1000, 2**30 + 1, 2**31 - 1]
VALUES = randomness.size("SLUICE_PARTITION_VALUES", 400)


def split_rows(values: pa.Array, terms: list[str]) -> tuple[str, str, list[list[Any]]]:
    """Schema, spec, and by row its partition."""
    schema = new_schema({"c": values.type})
    spec = new_spec(terms, schema, {"c": values.type})
    found: list[list[Any]] = [[]] * len(values)
    rows = pa.table({"c": values, "row": range(len(values))})
    for partition, part in Partitioning.read(spec, schema).split(rows):
        for row in part["row"].to_pylist():
            found[row] = list(partition)
    return json.dumps(schema), json.dumps(spec), found


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(COLUMNS))
def test_transforms_are_those_of_the_library(props: Any, spark: Any, name: str) -> None:
    type_, draw, terms = COLUMNS[name]
    chosen = randomness.chance(f"transforms-{type_}")
    plain = [None if chosen.random() < 0.05 else draw(chosen) for _ in range(VALUES)]
    if pa.types.is_temporal(type_):
        values = pa.array(plain, pa.int32() if pa.types.is_date32(type_) else pa.int64()).cast(type_)
    else:
        values = pa.array(plain, type_)
    forms = [form for (form,) in split_rows(values, ["c"])[2]]
    install_class(spark, "sluice.tests.PartitionTransforms", TRANSFORMS, "the test", "none")
    java = spark._jvm.sluice.tests.PartitionTransforms
    for width in WIDTHS if terms else [1]:
        schema, spec, found = split_rows(values, ["c", *(term.format(width) for term in terms)])
        expected = json.loads(java.apply(schema, spec, json.dumps(forms)))
        differing = [(p, f, e) for p, f, e in zip(plain, found, expected, strict=True) if f != e]
        assert not differing, (width, differing[:5])
