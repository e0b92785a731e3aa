"""Streaming queries: exact values, early close, canceled and broken connections."""

from __future__ import annotations

import datetime as dt
import threading
import tracemalloc
from typing import Any

import pymysql
import pytest

from connect.data.schema import Schema
from connect.errors import ConnectError, DataError
from connectors.databases.mysql.protocol import CONNECTION_ATTRIBUTES, RESULT_ATTRIBUTES
from connectors.jdbc.dialects.mysql.statements import kill_query
from connectors.jdbc.errors import AuthenticationError, DatabaseLostError, RowRejectedError, StatementError, TableChangedError
from connectors.jdbc.options import Calendar, ReadOptions
from connectors.jdbc.sql import Bind, Sql
from connectors.jdbc.table_name import TableName
from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.integration.jdbc.mysql.conftest import Connect, Rig
from tests.support.waiting import eventually

BIG = "select seq as id, repeat(char(97 + seq % 26), 500) as filler from seq_1_to_60000"


def open_reader(rig: Rig, query: str, **options: Any) -> Any:
    return rig.dialect.reader(rig.session, Sql(query), ReadOptions(**options))


def read_on(reader: Any) -> None:
    while reader.read(1000).values:
        pass


def test_rows_are_read_in_batches_of_the_requested_size(rig: Rig) -> None:
    reader = open_reader(rig, "select seq from seq_1_to_10")
    assert [reader.read(4).values for _ in range(4)] == [[[1], [2], [3], [4]], [[5], [6], [7], [8]], [[9], [10]], []]
    assert reader.read(4).values == []
    reader.close()
    assert rig.rows("select 1") == [(1,)]


def test_fields_are_the_same_objects_until_the_columns_change(rig: Rig) -> None:
    rig.run("drop table if exists fields", "create table fields (a int, b text)")
    first = open_reader(rig, "select * from fields")
    first.close()
    second = open_reader(rig, "select * from fields")
    second.close()
    assert first.fields is second.fields
    assert first.fields == (("a", Schema.OPTIONAL_INT32), ("b", Schema.OPTIONAL_STRING))
    rig.run("alter table fields modify a bigint not null")
    third = open_reader(rig, "select * from fields")
    third.close()
    assert third.fields[0] == ("a", Schema.INT64)


def test_values_of_all_lengths_and_rows_across_blocks_are_complete(rig: Rig) -> None:
    lengths = [0, 1, 249, 250, 251, 252, 255, 256, 65_534, 65_535, 65_536, 262_143, 262_144, 300_000, 1_000_000]
    union = " union all ".join(f"select {n} as n, repeat('x', {n}) as v, {n} as again" for n in lengths)
    _, rows = rig.read(f"{union} order by n", most=3)
    assert rows == [[n, "x" * n, n] for n in lengths]


def test_rows_of_several_packets_are_complete(rig: Rig) -> None:
    # 16,777,215 bytes and more are cut into packets; the column's type says more than 4 GB, so nothing is cut by the server.
    most = int(rig.rows("select @@max_allowed_packet")[0][0])
    size = min(most, 1 << 24) - 100
    rig.run(f"set @whole = repeat('y', {size})")
    reader = open_reader(rig, "select 1 as one, @whole as a, @whole as b, 2 as two union all select 3, 'c', null, 4")
    ((one, a, b, two), *rest) = [row for _ in range(3) for row in reader.read(1).values]
    assert (one, len(a), len(b), two, rest) == (1, size, size, 2, [[3, "c", None, 4]])
    reader.close()
    rig.session.rollback()
    assert rig.rows("select 5") == [(5,)]


@pytest.mark.long
def test_memory_is_constant_while_a_large_result_is_read(rig: Rig) -> None:
    count = 0
    tracemalloc.start()
    try:
        reader = open_reader(rig, BIG)
        while rows := reader.read(500).values:
            count += len(rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    reader.close()
    assert count == 60_000
    assert peak < 4_000_000  # of a result of 30 MB


def test_closing_a_query_early_preserves_connection_and_transaction(rig: Rig) -> None:
    rig.run("drop table if exists kept", "create table kept (a int)")
    rig.session.execute(Sql("insert into kept values (1)"), "writing")
    number = rig.session.query(Sql("select connection_id()"), "looking")
    reader = open_reader(rig, "select seq, repeat('z', 1000) from seq_1_to_1000000000")
    assert len(reader.read(10).values) == 10
    reader.close()
    reader.close()
    assert rig.session.query(Sql("select connection_id()"), "looking") == number
    rig.session.commit()
    assert rig.rows("select * from kept") == [(1,)]


def test_a_short_query_that_is_closed_early_is_drained(rig: Rig) -> None:
    reader = open_reader(rig, "select seq from seq_1_to_1000")
    reader.read(1)
    reader.close()
    assert rig.rows("select 1") == [(1,)]


def test_another_thread_can_cancel_a_query(rig: Rig, another: Rig) -> None:
    number = rig.session.driver.thread_id()
    sleeps = f"select count(*) from information_schema.processlist where id = {number} and state = 'User sleep'"

    def cancel_when_it_runs() -> None:
        eventually(lambda: another.rows(sleeps) != [(0,)], "a running query")
        rig.session.cancel()

    thread = threading.Thread(target=cancel_when_it_runs)
    thread.start()
    with pytest.raises(StatementError, match="interrupted"):
        read_on(open_reader(rig, "select sleep(600) union all select benchmark(1000000000, 1)"))
    thread.join()
    assert rig.rows("select 1") == [(1,)]


def test_a_statement_timeout_ends_a_query(connect: Connect) -> None:
    rig = Rig(connect(statement_timeout_ms=1000).session())
    with pytest.raises(StatementError, match="max_statement_time exceeded"):
        rig.rows("select count(*) from seq_1_to_100000000 a, seq_1_to_100000000 b")
    assert rig.rows("select 1") == [(1,)]
    rig.session.close()


@pytest.mark.parametrize("started", [True, False])
def test_a_connection_killed_while_reading_is_lost_and_the_next_session_works(connect: Connect, rig: Rig, started: bool) -> None:
    database = connect()
    session = database.session()
    reader = session.dialect.reader(session, Sql(BIG), ReadOptions())
    if started:
        reader.read(10)
    rig.run(f"kill {session.driver.thread_id()}")
    with pytest.raises(DatabaseLostError):
        read_on(reader)
    reader.close()
    session.close()
    again = database.session()
    assert again.query(Sql("select 1"), "looking") == [(1,)]
    again.close()


def test_a_server_lost_while_reading_is_a_lost_database(connect: Connect, rig: Rig) -> None:
    session = connect().session()
    reader = session.dialect.reader(session, Sql(BIG), ReadOptions())
    session.driver._sock.shutdown(2)
    with pytest.raises(DatabaseLostError, match="Lost connection"):
        read_on(reader)
    reader.close()
    session.close()


def test_exact_values_are_integers_and_nanoseconds_since_1970(rig: Rig) -> None:
    from zoneinfo import ZoneInfo

    rig.run(
        "drop table if exists exact",
        "create table exact (id bigint unsigned, n decimal(20,0), a datetime(6), b timestamp(6) null, c date, t text)",
        "insert into exact values (7, 12345678901234567890, '2024-07-01 12:00:00.123456', '2024-07-01 12:00:00.123456', "
        "'2024-07-01', 'x'), (8, null, null, null, null, null)",
    )
    options = ReadOptions(exact=("id", "n", "a", "b", "c"), zone=ZoneInfo("Europe/Berlin"))
    reader = rig.dialect.reader(rig.session, Sql("select * from exact"), options)
    found = reader.read(10)
    reader.close()
    moment = 1719835200123456000
    two_hours = 7_200_000_000_000
    assert found.exact == [
        (7, 12345678901234567890, moment - two_hours, moment, 1719792000_000000000 - two_hours),
        (8, None, None, None, None),
    ]
    assert found.values[0][2] == dt.datetime(2024, 7, 1, 10, 0, 0, 123_000, tzinfo=dt.UTC)
    for name, words in (("t", "Column t is read as string"), ("missing", "The result has no column missing; it has id, n")):
        with pytest.raises(DataError, match=words):
            open_reader(rig, "select * from exact", exact=(name,))
    assert rig.rows("select 1") == [(1,)]


def test_an_instant_compares_with_a_column_to_the_microsecond(rig: Rig) -> None:
    from zoneinfo import ZoneInfo

    rig.run("drop table if exists moments", "create table moments (a datetime(6), b timestamp(6) null)")
    rig.run("insert into moments values ('2024-07-01 12:00:00.123456', '2024-07-01 10:00:00.123456')")
    table = rig.table("moments")
    options = ReadOptions(zone=ZoneInfo("Europe/Berlin"))
    ns = 1719828000123456000
    for name in "ab":
        for more, count in ((0, 1), (999, 1), (1000, 0), (-1, 0)):
            sql = Sql(f"select count(*) from moments where {name} = ") + rig.dialect.timestamp(
                ns + more, table.column(name), options
            )
            assert rig.session.query(sql, "looking") == [(count,)], (name, more)


def test_the_databases_time_is_utc_with_microseconds(rig: Rig) -> None:
    rig.session.execute(Sql("set time_zone = '+09:00'"), "preparing")
    before = dt.datetime.now(dt.UTC).timestamp()
    now = rig.dialect.now(rig.session) / 1e9
    assert abs(now - before) < 60
    rig.session.execute(Sql("set time_zone = '+00:00'"), "preparing")


def test_query_values_are_bound(rig: Rig) -> None:
    text = "a'\"\\ %s 😀\0"
    reader = rig.dialect.reader(rig.session, Sql("select ", Bind(text), " as a, ", Bind(5), " as b, '%' as c"), ReadOptions())
    assert reader.read(10).values == [[text, 5, "%"]]
    reader.close()


def test_a_procedure_returns_its_first_result(rig: Rig) -> None:
    rig.run("drop procedure if exists two_results")
    rig.run("create procedure two_results() begin select 1 as a; select 2 as b, 3 as c; do 1; end")
    fields, rows = rig.read("call two_results()")
    assert (fields, rows) == ([("a", Schema.INT32)], [[1]])
    assert rig.rows("select 4") == [(4,)]


def test_a_statement_without_rows_is_rejected(rig: Rig) -> None:
    with pytest.raises(ConnectError, match="returns no rows"):
        open_reader(rig, "do 1")
    assert rig.rows("select 1") == [(1,)]


def test_an_error_among_the_rows_has_the_servers_message(rig: Rig) -> None:
    rig.run("drop table if exists numbers", "create table numbers (a varchar(10), b int)")
    rig.run("insert into numbers values ('1', 1), ('2', 2)")
    with pytest.raises(RowRejectedError, match=r"more than 1 row \(error 1242\)"):
        open_reader(rig, "select (select b from numbers n where n.b >= m.b) from numbers m order by b").read(10)
    assert rig.rows("select 1") == [(1,)]


def test_invisible_columns_stay_invisible_next_to_floats(rig: Rig) -> None:
    rig.run("drop table if exists hidden", "create table hidden (a float, `b``c` float not null, z int invisible default 5)")
    rig.run("insert into hidden (a, `b``c`) values (0.1, 0.2)")
    fields, rows = rig.read("hidden")
    assert fields == [("a", Schema.OPTIONAL_FLOAT32), ("b`c", Schema.FLOAT32)]
    assert rows == [[0.1, 0.2]]


def test_missing_tables_and_columns_are_distinguished(connect: Connect, rig: Rig) -> None:
    with pytest.raises(TableChangedError, match=r"doesn't exist \(error 1146\)"):
        rig.rows("select * from nowhere")
    with pytest.raises(TableChangedError, match="Unknown column 'x'"):
        rig.rows("select x")
    with pytest.raises(StatementError, match="syntax"):
        rig.rows("selct")
    host, port = rig.dialect.target.url.host, rig.dialect.target.url.port
    with pytest.raises(AuthenticationError, match="Unknown database"):
        connect(url=f"jdbc:mysql://{host}:{port}/nowhere").session()
    with pytest.raises(AuthenticationError, match="Access denied") as refused:
        connect(user="nobody").session()
    password = rig.dialect.target.url.password
    assert password is not None
    assert password not in str(refused.value)
    with pytest.raises(ConnectError, match="Table nowhere does not exist in"):
        rig.dialect.find(rig.session, TableName("nowhere"))


def test_pymysql_has_the_internals_that_are_used(rig: Rig) -> None:
    driver = rig.session.driver
    assert [name for name in CONNECTION_ATTRIBUTES if not hasattr(driver, name)] == []
    driver.query("select 1", unbuffered=True)
    assert [name for name in RESULT_ATTRIBUTES if not hasattr(driver._result, name)] == []
    field = driver._result.fields[0]
    assert [name for name in ("name", "type_code", "flags", "charsetnr", "length", "scale") if not hasattr(field, name)] == []
    assert (driver._result.unbuffered_active, hasattr(driver._rfile, "read1")) == (True, True)
    driver._result._finish_unbuffered_query()


def test_rows_are_read_packet_by_packet_if_pymysql_has_no_file(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    query = "select seq, if(seq = 3, repeat('x', 17000000), 'short') from seq_1_to_5"
    rig.run("set session max_statement_time = 0")
    expected = rig.read(query)
    reader = rig.dialect.reader(rig.session, Sql(query), ReadOptions())
    monkeypatch.setattr(vars(reader)["_stream"], "_file", None)
    found = [row for _ in range(6) for row in reader.read(1).values]
    assert (list(reader.fields), found) == expected


def test_kill_needs_credentials(connect: Connect, rig: Rig) -> None:
    target = connect(user="nobody").dialect.target
    with pytest.raises(pymysql.err.MySQLError):
        kill_query(target, rig.session.driver)


@pytest.mark.parametrize(
    ("behaviour", "day", "moment"),
    [
        ("CONVERT_TO_NULL", None, None),
        ("convertToNull", None, None),
        ("round", dt.date(1, 1, 1), dt.datetime(1, 1, 1, tzinfo=dt.UTC)),
    ],
)
def test_zero_dates_are_read_as_the_url_configures(
    connect: Connect, mariadb: EmbeddedMariaDB, own_database: str, behaviour: str, day: Any, moment: Any
) -> None:
    url = f"jdbc:mysql://{mariadb.host}:{mariadb.port}/{own_database}?zeroDateTimeBehavior={behaviour}"
    query = "select 1, cast('0000-00-00' as date), cast('0000-00-00 00:00:00' as datetime), date '2024-02-29'"
    session = connect(url=url).session()
    try:
        reader = session.dialect.reader(session, Sql(query), ReadOptions(calendar=Calendar.PROLEPTIC_GREGORIAN))
        assert reader.read(10).values == [[1, day, moment, dt.date(2024, 2, 29)]]
        reader.close()
    finally:
        session.close()


def test_a_date_without_month_or_day_is_rejected_with_a_hint(rig: Rig) -> None:
    with pytest.raises(DataError, match="2024-00-10 has no month or day") as caught:
        rig.read("select cast('2024-00-10' as date) as d")
    assert "zeroDateTimeBehavior" not in caught.value.message
