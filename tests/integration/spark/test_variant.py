"""VARIANT columns: Spark reads what the worker has encoded, exactly; other writers' VARIANTs survive."""

from __future__ import annotations

import decimal
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from connect.errors import DataError, SchemaError
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.tables import open_table
from tests.integration.spark.change_events import PLACEHOLDER, change, field, key
from tests.integration.spark.table_access import CATALOG, FORMATS, TableAccess, catalog_props, configure_catalog
from tests.support import randomness
from tests.support.cases import first_fast
from tests.support.replayed_events import plain, read_all
from tests.support.small_spark import GENERATED

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

D = decimal.Decimal
EXAMPLES = randomness.size("SLUICE_EXAMPLES", 150)
ROW = [field("id", "int64"), field("doc", "string", semantic="io.debezium.data.Json"), field("note", "string")]

DOCUMENTS = [
    "{}", "[]", "[null]", '""', '"é"', '"' + "x" * 63 + '"', '"' + "ü" * 40 + '"', "true", "false", "0", "-1", "127", "128",
    "-128", "-129", "32767", "32768", "2147483647", "2147483648", "9007199254740993", "9223372036854775807",
    "-9223372036854775808", "9223372036854775808", "18446744073709551615", "99999999999999999999999999999999999999",
    "0.1", "1.50", "-1.50", "0.000000001", "12345678.9", "123456789.123456789", "0.00000000000000000000000000000000000001",
    "12345678901234567890.123456789012345678", "1e3", "1.5e-7", "1e300", "-0.0", "5e-324", "1.7976931348623157e308",
    '{"a":{"b":[1,{"c":null,"a":2.5}],"z":""},"":[[],{}]}', '{"ä":1,"a":2,"Z":3,"\U0001f600":4}',
    json.dumps({f"k{i}": i for i in range(300)}), json.dumps(list(range(-300, 300))), "[" * 200 + "1" + "]" * 200,
    json.dumps({f"key{i}": "v" * 200 for i in range(400)}), json.dumps([{"a": "x" * 70000}]), "null",
]  # fmt: skip


@pytest.fixture
def spark(props: dict[str, str]) -> Iterator[Any]:
    lease = session.lease(parse_config(props).spark)
    found = lease.session()
    configure_catalog(found, props["table.location"])
    yield found
    lease.release()


def generate_code(spark: Any) -> None:
    """Spark's interpreted projections lack VARIANT, which it needs for Delta tables with deletion vectors."""
    for name, value in GENERATED.items():
        spark.conf.set(name.removeprefix("spark.conf."), value)


class Target:
    """Tables of one format, which Spark reads by their SQL names."""

    def __init__(self, table_format: str, props: dict[str, str]) -> None:
        self.format = table_format
        self._location = props["table.location"]
        self.props = {**props, "table.format": table_format}
        if table_format == "iceberg":
            del self.props["table.location"]
            self.props |= {f"spark.conf.{name}": value for name, value in catalog_props(self._location).items()}
            self.props["table.catalog"] = CATALOG
        self.access: TableAccess = FORMATS[table_format](Path(self._location) / "t")

    def name(self, table: str = "t") -> str:
        return f"{CATALOG}.`{table}`" if self.format == "iceberg" else f"delta.`{self._location}/{table}`"

    def create(self, spark: Any, columns: str, **properties: str) -> None:
        listed = {"delta.enableDeletionVectors": "true"} if self.format == "delta" else {"format-version": "3", **properties}
        texts = ", ".join(f"'{name}' = '{value}'" for name, value in listed.items())
        spark.sql(f"CREATE TABLE {self.name()} ({columns}) USING {self.format} TBLPROPERTIES ({texts})")


@pytest.fixture(params=first_fast(["iceberg", "delta"]))
def target(request: Any, props: dict[str, str]) -> Target:
    return Target(request.param, props)


@pytest.fixture
def iceberg(props: dict[str, str]) -> Target:
    return Target("iceberg", props)


def nodes(text: str | None) -> Any:
    """The JSON with numbers as their values: 1.50 and 1.5 are equal, and -0.0 is not 0. Beyond decimals, there are doubles, of
    which some have two texts (5e-324 and 4.9E-324)."""

    def number(digits: str) -> Any:
        found = D(digits)
        if not found:
            return "-0" if found.is_signed() else "0"
        shortest = found.normalize(decimal.Context(prec=400))
        exponent = int(shortest.as_tuple().exponent)
        return float(digits) if exponent < -38 or shortest.adjusted() >= 38 else str(shortest)

    return None if text is None else json.loads(text, parse_float=number, parse_int=number)


def write(run: Any, props: dict[str, str], topic: Any, *, raw: bool = True, group: Any = None) -> None:
    task_run = run(props, [topic], raw=raw, group={} if group is None else group)
    task_run.deliver()
    task_run.close()


def documents_of_any_shape() -> st.SearchStrategy[str]:
    numbers = st.one_of(
        st.integers(-(10**37), 10**37).map(str),
        st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**12), max_value=10**12).map(
            lambda d: f"{d:f}"
        ),
        st.floats(allow_nan=False, allow_infinity=False).map(repr),
    )
    text = st.text(st.characters(codec="utf-8"), max_size=12)
    leaves = st.one_of(st.just("null"), st.just("true"), st.just("false"), numbers, text.map(json.dumps))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=4).map(lambda parts: f"[{','.join(parts)}]"),
            st.dictionaries(text, inner, max_size=4).map(
                lambda members: "{" + ",".join(f"{json.dumps(n)}:{v}" for n, v in members.items()) + "}"
            ),
        ),
        max_leaves=12,
    )


def generated(count: int) -> list[str]:
    found: list[str] = []

    @settings(max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(documents_of_any_shape())
    def collect(text: str) -> None:
        found.append(text)

    collect()
    return found


def test_spark_reads_documents_of_any_shape_exactly(target: Target, run: Any, topic: Any, spark: Any) -> None:
    documents = [*DOCUMENTS, *generated(EXAMPLES)]
    t = topic("t", schemas=False)
    for number, text in enumerate(documents):
        t.add(None, f'{{"id":{number},"payload":{text}}}'.encode())
    settings_ = {**target.props, "metadata.columns": "none", "variant.columns": "payload"}
    write(run, settings_, t)

    def check() -> None:
        rows = (
            spark.sql(f"SELECT id, to_json(payload) AS text, payload IS NULL AS missing FROM {target.name()}")
            .toArrow()
            .to_pylist()
        )
        found = {row["id"]: row for row in rows}
        assert len(found) == len(documents)
        for number, text in enumerate(documents):
            # null is SQL's null, as in every other column
            assert found[number]["missing"] == (text == "null")
            assert nodes(found[number]["text"]) == nodes(text), text

    check()
    # Types and paths of Spark's functions, and rows that others rewrite.
    (row,) = spark.sql(
        "SELECT max(CASE WHEN id = {0} THEN variant_get(payload, '$.a.b[1].a', 'decimal(3,1)') END) AS a, "
        "max(CASE WHEN id = {1} THEN variant_get(payload, '$', 'decimal(20,0)') END) AS b, "
        "max(CASE WHEN id = {2} THEN variant_get(payload, '$.k299', 'int') END) AS c, "
        "max(CASE WHEN id = {1} THEN schema_of_variant(payload) END) AS d FROM {t}".format(
            next(i for i, x in enumerate(documents) if x.startswith('{"a":{')), documents.index("18446744073709551615"),
            next(i for i, x in enumerate(documents) if x.startswith('{"k0"')), t=target.name(),
        )
    ).collect()  # fmt: skip
    assert (row.a, row.b, row.c) == (D("2.5"), D(18446744073709551615), 299)
    (count,) = spark.sql(f"SELECT count(*) AS nulls FROM {target.name()} WHERE payload IS NULL").collect()
    assert count.nulls == documents.count("null")  # files are skipped by their statistics
    target.access.change(spark, "OPTIMIZE {table}")
    check()


def test_number_that_no_variant_holds_is_refused_with_its_path(props: Any, run: Any, topic: Any) -> None:
    t = topic("t", schemas=False)
    t.add(None, b'{"id":1,"payload":{"a":[1,1234567890123456789012345678901234567890.5]}}')
    with pytest.raises(
        DataError, match=r"offset 0: field payload\.a\[1\]: a VARIANT cannot hold the number 12345678901234567890"
    ):
        write(run, {**props, "variant.columns": "payload"}, t)


@pytest.mark.parametrize(("table_format", "way"), first_fast([("delta", "files"), ("delta", "merge"), ("iceberg", "files")]))
def test_json_of_change_events_is_upserted_as_variant(
    props: Any, run: Any, topic: Any, spark: Any, monkeypatch: pytest.MonkeyPatch, table_format: str, way: str
) -> None:
    monkeypatch.setattr(open_table, "reaches_jvm", lambda spark: way == "files")
    if way == "files":
        generate_code(spark)
    t, target = topic("t", schemas=True), Target(table_format, props)
    settings_ = {**target.props, "write.mode": "upsert", "json.columns": "variant"}
    group: dict[Any, int] = {}

    def event(op: str, id_: int, doc: str | None, note: str = "") -> None:
        row = {"id": id_, "doc": doc, "note": note}
        t.add(key(id_), change(op, row if op == "d" else None, None if op == "d" else row, ROW))

    event("c", 1, '{"b": 1.10, "a": "x"}')
    event("c", 2, None)
    event("c", 3, "null")
    event("c", 4, "[1,2]")
    event("c", 5, PLACEHOLDER)
    write(run, settings_, t, group=group)
    event("u", 1, PLACEHOLDER, "changed")
    event("u", 2, '"text"')
    event("d", 4, "[1,2]")
    write(run, settings_, t, group=group)
    rows = spark.sql(f"SELECT id, to_json(doc), doc IS NULL, note, typeof(doc) FROM {target.name()} ORDER BY id").collect()
    assert [tuple(r) for r in rows] == [
        (1, '{"a":"x","b":1.1}', False, "changed", "variant"),
        (2, '"text"', False, "", "variant"),
        (3, "null", False, "", "variant"),
        (5, None, True, "", "variant"),
    ]


def test_table_with_a_variant_column_takes_records_with_and_without_it(target: Target, run: Any, topic: Any, spark: Any) -> None:
    target.create(spark, "id BIGINT, name STRING, doc VARIANT, nested STRUCT<v: VARIANT, n: INT>")
    spark.sql(f"INSERT INTO {target.name()} SELECT 1, 'old', parse_json('{{\"k\":[1]}}'), struct(parse_json('5'), 6)")
    without = topic("t", schemas=True)
    group: dict[Any, int] = {}
    settings_ = {**target.props, "write.mode": "upsert", "key.columns": "id", "compaction.min.files": "2"}
    rows = [field("id", "int64"), field("name", "string")]

    def add(fields: Any, payload: Any) -> None:
        without.add(None, json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": payload}).encode())

    add(rows, {"id": 2, "name": "b"})
    write(run, settings_, without, group=group)
    # Objects, and text: of Debezium's Json, and plain.
    struct = {
        "type": "struct",
        "field": "doc",
        "optional": True,
        "fields": [field("x", "int32"), field("day", "int32", semantic="org.apache.kafka.connect.data.Date")],
    }
    add([*rows, struct], {"id": 3, "name": "c", "doc": {"x": 7, "day": 20000}})
    add([*rows, field("doc", "string", semantic="io.debezium.data.Json")], {"id": 4, "name": "d", "doc": '{"z":1}'})
    add([*rows, field("doc", "string")], {"id": 5, "name": "e", "doc": '{"z":1}'})
    task_run = run(settings_, [without], raw=True, group=group)
    task_run.deliver()
    task_run.commit()
    writer = task_run.task.sink.tables.writer("t")
    assert writer is not None
    writer.maintain(lambda: False)  # rows of Spark and of the worker in one file
    task_run.close()
    found = spark.sql(f"SELECT id, name, to_json(doc), nested.n, to_json(nested.v) FROM {target.name()} ORDER BY id").collect()
    assert [tuple(r) for r in found] == [
        (1, "old", '{"k":[1]}', 6, "5"),
        (2, "b", None, None, None),
        (3, "c", '{"day":"2024-10-04","x":7}', None, None),
        (4, "d", '{"z":1}', None, None),
        (5, "e", '"{\\"z\\":1}"', None, None),
    ]
    # The source reads what Spark and the worker wrote.
    events = [plain(event.value)["after"] for event in read_all(target.access.path, None, source_format=target.format)]
    assert sorted((row["id"], row["doc"]) for row in events) == [(row[0], row[2]) for row in found]


def test_variant_column_is_added_to_an_existing_table(target: Target, run: Any, topic: Any, spark: Any) -> None:
    t = topic("t", schemas=False)
    group: dict[Any, int] = {}
    t.add(None, b'{"id":1}')
    settings_ = {**target.props, "metadata.columns": "none", "variant.columns": "doc", "variant.text": "json"}
    write(run, settings_, t, group=group)
    t.add(None, b'{"id":2,"doc":"{\\"a\\":1}"}')
    t.add(None, b'{"id":3,"doc":{"a":[1]}}')
    t.add(None, b'{"id":4}')
    write(run, settings_, t, raw=False, group=group)
    found = spark.sql(f"SELECT id, to_json(doc) FROM {target.name()} ORDER BY id").collect()
    assert [tuple(r) for r in found] == [(1, None), (2, '{"a":1}'), (3, '{"a":[1]}'), (4, None)]
    t.add(None, b'{"id":5,"doc":"no document"}')
    with pytest.raises(DataError, match=r'offset 4: field doc: "no document" is not JSON.*variant\.text=json'):
        write(run, settings_, t, group=group)


@pytest.mark.long
@pytest.mark.parametrize(
    ("table_format", "engine"), first_fast([("delta", "worker"), ("iceberg", "worker"), ("iceberg", "executors")])
)
def test_changed_documents_in_current_tables_changelogs_and_versions(
    props: Any, run: Any, topic: Any, spark: Any, table_format: str, engine: str
) -> None:
    t, target = topic("t", schemas=True), Target(table_format, props)
    if table_format == "delta":
        generate_code(spark)

    def event(op: str, id_: int, doc: str | None, note: str = "") -> None:
        row = {"id": id_, "doc": doc, "note": note}
        t.add(key(id_), change(op, row if op == "d" else None, None if op == "d" else row, ROW))

    for id_ in range(6):
        event("c", id_, json.dumps({"n": id_, "items": [{"price": 1.5}] * id_}))
    batches = [len(t.logs[0])]
    event("u", 1, '{"n": "changed"}')
    event("u", 2, PLACEHOLDER, "kept")
    event("d", 3, None)
    event("u", 4, None)
    batches.append(len(t.logs[0]))
    event("c", 3, "[3]")
    event("d", 5, None)
    batches.append(len(t.logs[0]))

    def write_all(mode: str) -> None:
        settings_ = {**target.props, "write.mode": mode, "json.columns": "variant", "spark.engine": engine}
        settings_ |= {"table.name.format": mode, "name": mode, "metadata.columns": "__offset"}
        running = run(settings_, [t], raw=True, group={})
        if engine == "worker":
            for end in batches:
                running.deliver(end)
                running.commit()
        else:
            running.finish()
        running.close()

    def rows(table: str, columns: str) -> list[tuple[Any, ...]]:
        listed = spark.sql(f"SELECT {columns}, to_json(doc), note FROM {target.name(table)} ORDER BY ALL").collect()
        return [tuple(row) for row in listed]

    document = '{"items":[%s],"n":%d}'
    price = '{"price":1.5}'
    write_all("both")
    assert rows("both", "id") == [
        (0, document % ("", 0), ""), (1, '{"n":"changed"}', ""), (2, document % (",".join([price] * 2), 2), "kept"),
        (3, "[3]", ""), (4, None, ""),
    ]  # fmt: skip
    log = rows("both_changelog", "__offset, id")
    assert [(row[0], row[1]) for row in log] == list(enumerate([0, 1, 2, 3, 4, 5, 1, 2, 3, 4, 3, 5]))
    assert [row[2] for row in log[6:]] == ['{"n":"changed"}', json.dumps(PLACEHOLDER), None, None, "[3]", None]
    (found,) = spark.sql(
        f"SELECT variant_get(doc, '$.items[1].price', 'decimal(3,1)') AS price FROM {target.name('both')} WHERE id = 2"
    ).collect()
    assert found.price == D("1.5")
    if engine == "executors":
        return
    write_all("scd2")
    assert rows("scd2", "id, __current") == [
        (0, True, document % ("", 0), ""),
        (1, False, document % (price, 1), ""), (1, True, '{"n":"changed"}', ""),
        (2, False, document % (",".join([price] * 2), 2), ""), (2, True, document % (",".join([price] * 2), 2), "kept"),
        (3, False, document % (",".join([price] * 3), 3), ""), (3, True, "[3]", ""),
        (4, False, document % (",".join([price] * 4), 4), ""), (4, True, None, ""),
        (5, False, document % (",".join([price] * 5), 5), ""),
    ]  # fmt: skip


def test_values_that_no_column_holds_are_rescued(target: Target, run: Any, topic: Any, spark: Any) -> None:
    target.create(spark, "id BIGINT, doc VARIANT, rest STRING")
    t = topic("t", schemas=False)
    t.add(None, b'{"id":1,"doc":{"a":[1.50]},"extra":{"b":2}}')
    t.add(None, b'{"id":2,"doc":12345678901234567890123456789012345678901234567890.5}')
    settings_ = {**target.props, "schema.evolution": "lenient", "rescue.column": "rest", "metadata.columns": "none"}
    write(run, {**settings_, "variant.columns": "doc,extra"}, t)
    found = spark.sql(f"SELECT id, to_json(doc), rest FROM {target.name()} ORDER BY id").collect()
    assert [tuple(row) for row in found] == [
        (1, '{"a":[1.5]}', '{"extra":{"b":2}}'),
        (2, None, '{"doc":12345678901234567890123456789012345678901234567890.5}'),
    ]


def test_iceberg_table_of_an_older_format_version_gets_no_variant_column(
    iceberg: Target, run: Any, topic: Any, spark: Any
) -> None:
    iceberg.create(spark, "id BIGINT", **{"format-version": "2"})
    t = topic("t", schemas=False)
    t.add(None, b'{"id":1,"doc":{}}')
    settings_ = {**iceberg.props, "metadata.columns": "none", "variant.columns": "doc"}
    with pytest.raises(
        SchemaError, match=r"table lake\.t lacks the column `doc`, which is VARIANT, and has the format version 2"
    ):
        write(run, settings_, t)
    spark.sql(f"ALTER TABLE {iceberg.name()} SET TBLPROPERTIES ('format-version' = '3')")
    write(run, settings_, t)
    (row,) = spark.sql(f"SELECT id, to_json(doc) FROM {iceberg.name()}").collect()
    assert tuple(row) == (1, "{}")
    (file,) = spark.sql(f"SELECT value_counts, lower_bounds, upper_bounds FROM {iceberg.name()}.files").collect()
    assert (set(file.value_counts), set(file.lower_bounds), set(file.upper_bounds)) == ({1, 2}, {1}, {1})


def test_shredded_documents_of_spark_are_read_and_rewritten(
    iceberg: Target, run: Any, topic: Any, spark: Any, no_maintenance_thread: None
) -> None:
    iceberg.create(spark, "id BIGINT, doc VARIANT, note STRING", **{"write.parquet.shred-variants": "true"})
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    fields = (
        "'k', array(1, 2.5D), 'n', id, 's', 'text', 'o', named_struct('d', true, 'e', cast(null AS INT)), 'b', X'01', "
        "'at', timestamp '2024-05-06 07:08:09', 'day', date '2024-05-06', 'price', cast(id / 4 AS DECIMAL(9, 2))"
    )
    spark.sql(
        f"INSERT INTO {iceberg.name()} SELECT id, CASE WHEN id = 7 THEN parse_json('[7]') WHEN id = 8 THEN NULL "
        f"ELSE to_variant_object(named_struct({fields})) END, 'old' FROM range(0, 10, 1, 2)"
    )

    def shredded_files() -> int:
        paths = [row.file_path for row in spark.sql(f"SELECT file_path FROM {iceberg.name()}.data_files").collect()]
        return sum("typed_value" in str(pq.ParquetFile(path).schema) for path in paths)

    def rows() -> dict[int, tuple[Any, str]]:
        found = spark.sql(f"SELECT id, to_json(doc), note FROM {iceberg.name()}").collect()
        # Spark writes a blank before the time.
        return {row[0]: (nodes(row[1] and row[1].replace("06 07", "06T07")), row[2]) for row in found}

    before = rows()
    assert shredded_files() == 2
    events = [plain(event.value)["after"] for event in read_all(iceberg.access.path, None, source_format="iceberg")]
    assert {row["id"]: (nodes(row["doc"]), row["note"]) for row in events} == before
    t = topic("t", schemas=True)
    for id_, doc in ((1, PLACEHOLDER), (7, PLACEHOLDER), (2, '{"new":[1]}')):
        t.add(key(id_), change("u", None, {"id": id_, "doc": doc, "note": "new"}, ROW))
    t.add(key(3), change("d", {"id": 3, "doc": None, "note": None}, None, ROW))
    settings_ = {**iceberg.props, "write.mode": "upsert", "json.columns": "variant", "compaction.min.files": "2"}
    task_run = run(settings_, [t], raw=True, group={})
    task_run.deliver()
    task_run.commit()
    expected = {**before, 1: (before[1][0], "new"), 7: (before[7][0], "new"), 2: ({"new": ["1"]}, "new")}
    del expected[3]
    assert rows() == expected
    task_run.task.sink.tables.writer("t").maintain(lambda: False)
    task_run.close()
    assert rows() == expected
    assert shredded_files() == 0
