"""Readers: schemas, ways to end, and rejected values."""

from __future__ import annotations

import datetime as dt
import threading
import zoneinfo
from decimal import Decimal

import pytest

from connect.data.logical import END_OF_DAY, FarInstant
from connect.errors import ConnectError, DataError
from connectors.jdbc.dialects.postgres import libpq
from connectors.jdbc.errors import DatabaseLostError, StatementError, TableChangedError
from connectors.jdbc.options import Granularity, ReadOptions
from connectors.jdbc.sql import Bind, Sql
from tests.integration.jdbc.postgres.conftest import Desk

STRICT = ReadOptions(strict=True)


def test_schemas_match_confluents_connector(desk: Desk) -> None:
    desk.sql(
        "CREATE TABLE t (a smallint, b int, c bigint, d real, e float8, f numeric(10,2), g numeric, h bool, i bit, j bit(8), "
        "k bit(9), l char(3), m varchar, n text, o bytea, p date, q time, r timetz, s timestamp, u timestamptz, v json, w uuid, "
        "x xml, y money, z oid)"
    )
    fields, _ = desk.read("SELECT * FROM t")
    shown = {name: (s.type.value, (s.name or "").rpartition(".")[2], s.version, s.parameters) for name, s in fields}
    date, time, stamp = ("int32", "Date", 1, None), ("int32", "Time", 1, None), ("int64", "Timestamp", 1, None)
    string = ("string", "", None, None)
    assert shown == {
        "a": ("int16", "", None, None), "b": ("int32", "", None, None), "c": ("int64", "", None, None),
        "d": ("float", "", None, None), "e": ("double", "", None, None),
        "f": ("bytes", "Decimal", 1, {"scale": "2", "connect.decimal.precision": "10"}),
        "g": ("bytes", "Decimal", 1, {"scale": "0", "connect.decimal.precision": "0"}),
        "h": ("boolean", "", None, None), "i": ("boolean", "", None, None), "j": ("int8", "", None, None),
        "k": ("bytes", "", None, None), "l": string, "m": string, "n": string, "o": ("bytes", "", None, None),
        "p": date, "q": time, "r": time, "s": stamp, "u": stamp, "v": string, "w": string, "x": string,
        "y": ("double", "", None, None), "z": ("int64", "", None, None),
    }  # fmt: skip
    assert all(schema.optional for _, schema in fields)


def test_query_columns_are_optional_unless_the_catalog_forbids_null(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (i int PRIMARY KEY, v text)")
    fields, _ = desk.read("SELECT i, v, i + 1 AS next, 'x' AS word, count(*) OVER () FROM t")
    assert {name: schema.optional for name, schema in fields} == {
        "i": False, "v": True, "next": True, "word": True, "count": True
    }  # fmt: skip


def test_a_null_in_a_not_null_column_is_rejected_with_its_name(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (i int PRIMARY KEY)")
    with pytest.raises(DataError, match=r"Column right_i is NOT NULL .* outer join"):
        desk.read("SELECT l.i, r.i AS right_i FROM (VALUES (1)) l(i) LEFT JOIN t r ON r.i = l.i")


def test_fields_are_the_same_objects_until_the_columns_change(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (i int PRIMARY KEY, v text)")
    first, _ = desk.read("SELECT * FROM t", table=desk.table("t"))
    again, _ = desk.read("SELECT * FROM t WHERE i > 5", table=desk.table("t"))
    assert again is first
    desk.sql("ALTER TABLE t ADD w int")
    changed, _ = desk.read("SELECT * FROM t", table=desk.table("t"))
    assert [name for name, _ in changed] == ["i", "v", "w"]


def test_values_are_bound_and_never_become_sql(desk: Desk) -> None:
    values = ["'; DROP TABLE t; --", "\\'; --", "%s $1 ?", "ü😀\n\t\\N", '"']
    for value in values:
        reader = desk.dialect.reader(desk.session, Sql("SELECT ", Bind(value), "::text AS v, ", Bind(5), " AS n"), ReadOptions())
        assert reader.read(10).values == [[value, 5]]
        reader.close()


def test_exact_values_are_returned_with_the_rows(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (i int, n numeric(20,0), s timestamp, z timestamptz, d date)")
    desk.sql("INSERT INTO t VALUES (1, 12345678901, '2024-07-01 12:00:00.123456', '2024-07-01 12:00:00.123456+00', '2024-07-01')")
    desk.sql("INSERT INTO t VALUES (2, NULL, '0044-03-15 BC', '20000-01-01+00', NULL)")
    options = ReadOptions(exact=("i", "n", "s", "Z", "d"))
    reader = desk.dialect.reader(desk.session, Sql("SELECT * FROM t ORDER BY i"), options)
    assert reader.read(10).exact == [
        (1, 12_345_678_901, 1_719_835_200_123_456_000, 1_719_835_200_123_456_000, 1_719_792_000_000_000_000),
        (2, None, -63_517_824_000_000_000_000, 568_971_820_800_000_000_000, None),
    ]
    in_berlin = ReadOptions(zone=zoneinfo.ZoneInfo("Europe/Berlin"), exact=("s",))
    reader = desk.dialect.reader(desk.session, Sql("SELECT s FROM t WHERE i = 1"), in_berlin)
    assert reader.read(10).exact == [(1_719_828_000_123_456_000,)]
    for query, what in (("SELECT i FROM t", "no column v"), ("SELECT i::text AS v FROM t", "must be an integer")):
        with pytest.raises(DataError, match=what):
            desk.dialect.reader(desk.session, Sql(query), ReadOptions(exact=("v",)))


def test_values_that_a_schema_cannot_represent_are_rejected_with_a_hint(desk: Desk) -> None:
    refused = {
        "'NaN'::numeric(10,2)": r"Column v: NaN .* casts the column to double precision or text",
        "'1.5'::numeric": r"Column v: 1\.5 has more than the 0 decimal places .* numeric\(p,s\)",
        "'-infinity'::date": r"Column v: -infinity",
        "'[0:1]={1,2}'::int[]": r"Column v: the array .* has explicit bounds",
        "'{{1},{2}}'::int[]": r"Column v: the array .* several dimensions",
        "ARRAY['infinity'::date]": r"Column v: infinity",
    }
    for value, message in refused.items():
        with pytest.raises(DataError, match=message):
            desk.read(f"SELECT 1 AS fine, {value} AS v")
        desk.session.rollback()


def test_values_are_truncated_as_in_confluents_connector_or_rejected_when_strict(desk: Desk) -> None:
    utc = dt.UTC
    cut = {
        "'2024-01-01 00:00:00.123999'::timestamp": dt.datetime(2024, 1, 1, 0, 0, 0, 123_000, utc),
        "'1969-12-31 23:59:59.999999+00'::timestamptz": dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, utc),
        "'12:34:56.789999'::time": dt.time(12, 34, 56, 789_000),
        "'01:00:00+02'::timetz": dt.time(23),
        "'90071992547409.93'::money": 90071992547409.93,
    }
    for value, expected in cut.items():
        assert desk.read(f"SELECT {value} AS v")[1] == [[expected]]
    for value in list(cut)[:4]:
        with pytest.raises(DataError, match=r"Column v: .*conversion\.strict"):
            desk.read(f"SELECT {value} AS v", STRICT)
        desk.session.rollback()
    fine = (
        "'2024-01-01 00:00:00.123'::timestamp, '12:00'::time, '12:00+00'::timetz, '24:00'::time, '2024-01-01'::date, '1.5'::money"
    )
    assert desk.read(f"SELECT {fine}", STRICT)[1][0][3] is END_OF_DAY


def test_years_beyond_pythons_range_are_far_instants(desk: Desk) -> None:
    _, rows = desk.read("SELECT '12345-01-01'::date, '0001-01-01 BC'::timestamp, '294276-12-31 23:59:59.999+00'::timestamptz")
    assert rows[0][0] == FarInstant(327_403_382_400_000)
    assert isinstance(rows[0][1], FarInstant)
    assert rows[0][2] == FarInstant(9_224_318_015_999_999)


def test_every_granularity_has_its_own_representation(desk: Desk) -> None:
    query = "SELECT '2024-07-01 12:00:00.123456'::timestamp, '2024-07-01 12:00:00.5+02'::timestamptz"
    found = {g.name: desk.read(query, ReadOptions(granularity=g))[1][0] for g in Granularity}
    assert found == {
        "CONNECT_LOGICAL": [
            dt.datetime(2024, 7, 1, 12, 0, 0, 123_000, dt.UTC),
            dt.datetime(2024, 7, 1, 10, 0, 0, 500_000, dt.UTC),
        ],
        "MICROS_LONG": [1_719_835_200_123_456, 1_719_828_000_500_000],
        "MICROS_STRING": ["1719835200123456", "1719828000500000"],
        "MICROS_ISO": ["2024-07-01T12:00:00.123456", "2024-07-01T10:00:00.500000"],
        "NANOS_LONG": [1_719_835_200_123_456_000, 1_719_828_000_500_000_000],
        "NANOS_STRING": ["1719835200123456000", "1719828000500000000"],
        "NANOS_ISO": ["2024-07-01T12:00:00.123456000", "2024-07-01T10:00:00.500000000"],
    }


def test_types_without_mapping_are_rejected_or_skipped(desk: Desk) -> None:
    query = "SELECT 1 AS a, ROW(1, 2) AS b"
    with pytest.raises(DataError, match=r"Column b has type record, which has no mapping"):
        desk.read(query)
    desk.session.rollback()
    fields, rows = desk.read(query, ReadOptions(skip_unsupported=True))
    assert ([name for name, _ in fields], rows) == (["a"], [[1]])


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t ORDER BY i FOR UPDATE", "WITH w AS (SELECT * FROM t) SELECT * FROM w ORDER BY i;", "TABLE t",
        "VALUES (1), (2), (3)", "/* a comment */ (SELECT * FROM t) -- another", "  select i from t ; ",
        "WITH w AS (UPDATE t SET i = i RETURNING i) SELECT * FROM w", "UPDATE t SET i = i RETURNING i", "EXECUTE three",
    ],
)  # fmt: skip
def test_queries_of_every_form_are_read(desk: Desk, query: str) -> None:
    desk.sql("CREATE TABLE t (i int); INSERT INTO t VALUES (1), (2), (3)")
    desk.session.execute(Sql("PREPARE three AS SELECT i FROM t"), "preparing")
    fields, rows = desk.read(query)
    desk.session.execute(Sql("DEALLOCATE three"), "forgetting")
    assert (len(fields), sorted(rows)) == (1, [[1], [2], [3]])


def test_statements_that_copy_does_not_accept_are_streamed(desk: Desk) -> None:
    fields, rows = desk.read("SHOW server_version", ReadOptions(batch_rows=1))
    assert (fields[0][0], len(rows)) == ("server_version", 1)
    _, plan = desk.read("EXPLAIN SELECT * FROM generate_series(1, 3)", ReadOptions(batch_rows=1))
    assert "generate_series" in plan[0][0]


def test_streamed_rows_equal_copied_ones(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (i int, s text, b bytea, n numeric(5,2), a text[], z timestamptz)")
    desk.sql("INSERT INTO t VALUES (1, E'\\t\\\\N\\n', '\\x00ff', 1.5, ARRAY[E'\\\\', NULL], '2024-01-01 00:00+00')")
    desk.sql("INSERT INTO t (i) VALUES (2)")
    _, copied = desk.read("UPDATE t SET i = i RETURNING *")
    _, streamed = desk.read("SELECT * FROM t ORDER BY i")
    assert copied == streamed
    assert copied[0][:4] == [1, "\t\\N\n", b"\x00\xff", Decimal("1.50")]


def test_a_result_without_columns_has_rows(desk: Desk) -> None:
    assert desk.read("SELECT FROM generate_series(1, 3)") == ((), [[], [], []])


def test_batches_have_the_requested_size_and_the_last_is_empty(desk: Desk) -> None:
    reader = desk.dialect.reader(desk.session, Sql("SELECT generate_series(1, 2500)"), ReadOptions())
    sizes = []
    while part := reader.read(1000).values:
        sizes.append(len(part))
    assert (sum(sizes), max(sizes)) == (2500, 1000)
    assert reader.read(1000).values == []


# --- ends


@pytest.mark.parametrize("query", ["SELECT generate_series(1, 100000000)", "UPDATE t SET i = i RETURNING i"])
@pytest.mark.parametrize("nested", [True, False])
def test_closing_a_reader_early_preserves_the_session(desk: Desk, nested: bool, query: str) -> None:
    desk.sql("CREATE TABLE t (i int); INSERT INTO t SELECT generate_series(1, 30000)")
    if nested:
        desk.session.execute(Sql("CREATE TABLE made (i int)"), "making a table")
    pid = desk.session.driver.info.backend_pid
    reader = desk.dialect.reader(desk.session, Sql(query), ReadOptions(batch_rows=10))
    assert len(reader.read(10).values) == 10
    reader.close()
    reader.close()
    assert reader.read(10).values == []
    assert desk.session.query(Sql("SELECT 1"), "asking") == [(1,)]
    assert desk.session.driver.info.backend_pid == pid
    desk.session.commit()
    assert desk.sql("SELECT count(*) FROM pg_class WHERE relname = 'made'") == [(1 if nested else 0,)]


SLEEPY = "SELECT i, CASE WHEN i > 5000 THEN pg_sleep(600)::text END AS v FROM generate_series(1, 10000) i"
"""Sends some rows, then nothing for a long time."""


def test_closing_a_reader_cancels_a_silent_query(desk: Desk) -> None:
    reader = desk.dialect.reader(desk.session, Sql(SLEEPY), ReadOptions())
    assert len(reader.read(10).values) == 10
    desk.asleep()
    reader.close()
    assert desk.session.query(Sql("SELECT 1"), "asking") == [(1,)]


@pytest.mark.parametrize("query", ["SELECT pg_sleep(600)::text", SLEEPY])
def test_another_thread_can_cancel_a_read(desk: Desk, query: str) -> None:
    def cancel() -> None:
        desk.asleep()
        desk.session.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(StatementError, match="canceling statement due to user request"):
        desk.read(query)
    thread.join()
    desk.session.rollback()
    assert desk.session.query(Sql("SELECT 1"), "asking") == [(1,)]


def test_a_query_that_takes_too_long_is_canceled(desk: Desk) -> None:
    database = desk.open(statement_timeout_ms=1000)
    session = database.session()
    with pytest.raises(StatementError, match="statement timeout"):
        database.dialect.reader(session, Sql("SELECT pg_sleep(600)::text"), ReadOptions()).read(10)
    session.close()
    database.close()


def test_a_lock_wait_times_out_as_a_transient_error(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (i int)")
    database = desk.open(statement_timeout_ms=2000)
    session = database.session()
    with desk.own.transaction():
        desk.own.execute("LOCK TABLE t")
        with pytest.raises(DatabaseLostError, match="lock timeout"):
            database.dialect.reader(session, Sql("SELECT * FROM t"), ReadOptions()).read(1)
    session.close()
    database.close()


def test_a_connection_lost_while_reading_is_replaced(desk: Desk) -> None:
    reader = desk.dialect.reader(desk.session, Sql("SELECT generate_series(1, 100000000)"), ReadOptions())
    reader.read(10)
    desk.sql("SELECT pg_terminate_backend(%s)", desk.session.driver.info.backend_pid)
    with pytest.raises(DatabaseLostError, match="terminating connection"):
        desk.drain(reader)
    reader.close()
    desk.session.close()
    desk.session = desk.database.session()
    assert desk.read("SELECT 1 AS one")[1] == [[1]]


def test_errors_quote_the_servers_message(desk: Desk) -> None:
    with pytest.raises(
        TableChangedError, match=r'running the query in postgresql://.* failed: relation "nowhere" does not exist'
    ):
        desk.read("SELECT * FROM nowhere")
    desk.session.rollback()
    with pytest.raises(ConnectError, match=r"division by zero"):
        desk.read("SELECT 1 / (i - 5) FROM generate_series(1, 10) i")
    desk.session.rollback()
    with pytest.raises(StatementError, match=r"syntax error at or near"):
        desk.read("SELECT FROM FROM")
    desk.session.rollback()


def test_a_changed_table_is_read_with_its_new_columns(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (i int); INSERT INTO t VALUES (1)")
    for _ in range(10):
        desk.read("SELECT * FROM t")
    desk.sql("ALTER TABLE t ALTER i TYPE text")
    assert desk.read("SELECT * FROM t")[1] == [["1"]]


def test_a_frequent_statement_survives_a_changed_table(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (i int); INSERT INTO t VALUES (1)")
    for _ in range(10):
        assert desk.session.query(Sql("SELECT * FROM t WHERE i = ", Bind(1)), "asking") == [(1,)]
        desk.session.commit()
    desk.sql("ALTER TABLE t ADD v text")
    assert desk.session.query(Sql("SELECT * FROM t WHERE i = ", Bind(1)), "asking") == [(1, None)]


def test_the_server_kind_is_detected_without_a_query(desk: Desk) -> None:
    assert libpq.server_kind(desk.session) is libpq.ServerKind.POSTGRES
