"""Writers: stored values, affected columns, and rejected rows."""

from __future__ import annotations

import datetime as dt
import threading
from decimal import Decimal
from typing import Any

import pytest

from connect.data.logical import END_OF_DAY, FarInstant, date_schema, decimal_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connectors.jdbc.errors import DatabaseLostError, RowRejectedError, StatementError
from connectors.jdbc.options import InsertMode, SinkField, WriteOptions
from connectors.jdbc.sql import Sql
from tests.integration.jdbc.postgres.conftest import Desk, sink_fields
from tests.support.waiting import WAIT_S

K = ("k", Schema.INT32)
V = ("v", Schema.OPTIONAL_STRING)


def semantic(type: Type, name: str, **parameters: str) -> Schema:
    return Schema(type, optional=True, name=name, version=1, parameters=parameters)


def test_an_upsert_changes_only_its_columns(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (k int PRIMARY KEY, v text, other text DEFAULT 'new', n int)")
    desk.sql("INSERT INTO t VALUES (1, 'old', 'kept', 7)")
    desk.write("t", (K, V), [[1, "changed"], [2, "added"]])
    assert desk.sql("SELECT * FROM t ORDER BY k") == [(1, "changed", "kept", 7), (2, "added", "new", None)]


def test_an_upsert_of_keys_alone_inserts_missing_rows(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (a int, b text, v text DEFAULT 'x', PRIMARY KEY (b, a)); INSERT INTO t VALUES (1, 'a', 'kept')")
    desk.write("t", (("a", Schema.INT32), ("b", Schema.STRING)), [[1, "a"], [2, "b"]], keys=("a", "b"))
    assert desk.sql("SELECT * FROM t ORDER BY a") == [(1, "a", "kept"), (2, "b", "x")]


def test_an_update_changes_existing_rows_to_the_last_record_of_a_key(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (k int, v text, other text); INSERT INTO t VALUES (1, 'a', 'kept'), (2, 'b', 'kept')")
    desk.write("t", (K, V), [[1, "first"], [9, "nobody"], [1, "last"]], mode=InsertMode.UPDATE)
    assert desk.sql("SELECT * FROM t ORDER BY k") == [(1, "last", "kept"), (2, "b", "kept")]


def test_an_update_needs_columns_to_set(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (k int)")
    with pytest.raises(DataError, match="no columns to set"):
        desk.write("t", (K,), [[1]], mode=InsertMode.UPDATE)
    for mode in (InsertMode.UPDATE, InsertMode.UPSERT):
        with pytest.raises(DataError, match="needs a key"):
            desk.write("t", (K,), [[1]], mode=mode, keys=())


def test_deleting_a_missing_row_is_not_an_error(desk: Desk) -> None:
    desk.sql(
        "CREATE TABLE t (k int, b text, u uuid); INSERT INTO t SELECT i, 'b' || i, gen_random_uuid() FROM generate_series(1, 9) i"
    )
    desk.delete("t", (K,), [[1], [2], [77]])
    desk.delete("t", (K, ("b", Schema.STRING)), [[3, "b3"], [4, "not b4"]])
    desk.delete("t", (("u", Schema.STRING),), [[str(u)] for (u,) in desk.sql("SELECT u FROM t WHERE k = 5")])
    assert desk.sql("SELECT k FROM t ORDER BY k") == [(4,), (6,), (7,), (8,), (9,)]


@pytest.mark.parametrize("many", [1, 100])
def test_nulls_are_written_as_schema_defaults_unless_disabled(desk: Desk, many: int) -> None:
    desk.sql("CREATE TABLE t (k int, v text, n numeric(5,2))")
    fields = (K, ("v", Schema(Type.STRING, default="a\tb")), ("n", decimal_schema(2, optional=True, default=Decimal("1.50"))))
    rows = [[i, None, None] for i in range(many)]
    desk.write("t", fields, rows, mode=InsertMode.INSERT)
    assert desk.sql("SELECT DISTINCT v, n FROM t") == [("a\tb", Decimal("1.50"))]
    desk.sql("TRUNCATE t")
    desk.write("t", fields, rows, mode=InsertMode.INSERT, options=WriteOptions(null_as_default=False))
    assert desk.sql("SELECT DISTINCT v, n FROM t") == [(None, None)]


def test_views_and_tables_with_row_security_are_written_without_copy(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (k int PRIMARY KEY, v text); CREATE VIEW w AS SELECT * FROM t")
    desk.sql("CREATE TABLE r (k int PRIMARY KEY, v text); ALTER TABLE r ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
    for name in ("w", "r"):
        desk.write(name, (K, V), [[i, "x"] for i in range(50)], mode=InsertMode.INSERT)
        assert desk.sql(f"SELECT count(*) FROM {name}") == [(50,)]


def test_partitioned_tables_support_every_mode(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (k int PRIMARY KEY, v text) PARTITION BY HASH (k)")
    desk.sql("CREATE TABLE p PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0)")
    desk.sql("CREATE TABLE q PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1)")
    rows = [[i, "x"] for i in range(50)]
    for mode in (InsertMode.INSERT, InsertMode.UPSERT, InsertMode.UPDATE):
        desk.write("t", (K, V), rows, mode=mode)
    assert desk.sql("SELECT count(*) FROM t") == [(50,)]


# --- values on their way to columns of other types


def test_debezium_types_are_written_to_created_columns(desk: Desk) -> None:
    scaled = (
        SchemaBuilder.struct().name("io.debezium.data.VariableScaleDecimal").version(1).optional()
        .field("scale", Schema.INT32).field("value", Schema.BYTES).build()
    )  # fmt: skip
    point = (
        SchemaBuilder.struct().name("io.debezium.data.geometry.Point").version(1).optional()
        .field("x", Schema.FLOAT64).field("y", Schema.FLOAT64).field("wkb", Schema.OPTIONAL_BYTES).build()
    )  # fmt: skip
    time, data = "io.debezium.time.", "io.debezium.data."
    cases: list[tuple[str, Schema, Any, str, str]] = [
        ("d", semantic(Type.INT32, time + "Date"), 19782, "date", "2024-02-29"),
        ("inf_d", semantic(Type.INT32, time + "Date"), 2_146_033_979, "date", "infinity"),
        ("least_d", semantic(Type.INT32, time + "Date"), -2_147_472_691, "date", "-infinity"),
        ("inf_ts", semantic(Type.INT64, time + "Timestamp"), 9223372036825200000, "timestamp without time zone", "infinity"),
        ("inf_us", semantic(Type.INT64, time + "MicroTimestamp"), (1 << 63) - 1, "timestamp without time zone", "infinity"),
        ("least_ns", semantic(Type.INT64, time + "NanoTimestamp"), -(1 << 63), "timestamp without time zone", "-infinity"),
        ("iso_d", semantic(Type.STRING, time + "IsoDate"), "2024-02-29Z", "date", "2024-02-29"),
        ("ts", semantic(Type.INT64, time + "Timestamp"), 1709210096789, "timestamp without time zone", "2024-02-29 12:34:56.789"),
        ("us", semantic(Type.INT64, time + "MicroTimestamp"), -1, "timestamp without time zone", "1969-12-31 23:59:59.999999"),
        ("ns", semantic(Type.INT64, time + "NanoTimestamp"), 1000, "timestamp without time zone", "1970-01-01 00:00:00.000001"),
        ("z", semantic(Type.STRING, time + "ZonedTimestamp"), "2024-02-29T12:34:56.789012Z", "timestamp with time zone",
         "2024-02-29 12:34:56.789012+00"),
        ("inf", semantic(Type.STRING, time + "ZonedTimestamp"), "infinity", "timestamp with time zone", "infinity"),
        ("t", semantic(Type.INT32, time + "Time"), 45296789, "time without time zone", "12:34:56.789"),
        ("ut", semantic(Type.INT64, time + "MicroTime"), 86_400_000_000, "time without time zone", "24:00:00"),
        ("zt", semantic(Type.STRING, time + "ZonedTime"), "12:34:56.5Z", "time with time zone", "12:34:56.5+00"),
        ("i", semantic(Type.INT64, time + "MicroDuration"), 3_723_000_001, "interval", "01:02:03.000001"),
        ("ii", semantic(Type.STRING, time + "Interval"), "P1Y2M3DT4H5M6.78S", "interval", "1 year 2 mons 3 days 04:05:06.78"),
        ("y", semantic(Type.INT32, time + "Year"), 2024, "integer", "2024"),
        ("u", semantic(Type.STRING, data + "Uuid"), "f47ac10b-58cc-4372-a567-0e02b2c3d479", "uuid",
         "f47ac10b-58cc-4372-a567-0e02b2c3d479"),
        ("j", semantic(Type.STRING, data + "Json"), '{"a": "\\\\"}', "json", '{"a": "\\\\"}'),
        ("e", semantic(Type.STRING, data + "Enum", allowed="a,b"), "a", "text", "a"),
        ("b", semantic(Type.BYTES, data + "Bits", length="10"), b"\x05\x02", "bit(10)", "1000000101"),
        ("n", scaled, Struct(scaled, [2, b"\x00\x96"]), "numeric", "1.50"),
        ("p", point, Struct(point, [1.5, -2.0, None]), "point", "(1.5,-2)"),
    ]  # fmt: skip
    fields = [SinkField("k", Schema.INT32, True), *(SinkField(name, schema) for name, schema, *_ in cases)]
    desk.session.execute(desk.dialect.create_table(desk.table_name("made"), fields), "making a table")
    desk.session.commit()
    types = {column.name: column.type_name for column in desk.table("made").columns[1:]}
    assert types == {name: type for name, _, _, type, _ in cases}
    desk.sql("SET IntervalStyle = postgres; SET TIME ZONE UTC")
    row = [1, *(value for _, _, value, _, _ in cases)]
    desk.write("made", [(field.name, field.schema) for field in fields], [row])
    found = desk.sql(f"SELECT {', '.join(name + '::text' for name, *_ in cases)} FROM made")[0]
    assert dict(zip(types, found, strict=True)) == {name: text for name, _, _, _, text in cases}


def test_values_convert_to_their_columns_types(desk: Desk) -> None:
    members = (
        SchemaBuilder.struct().field("n", decimal_schema(2)).field("b", Schema.BYTES).field("s", Schema.OPTIONAL_STRING).build()
    )
    utc = dt.UTC
    at = dt.datetime(2024, 2, 29, 23, 30, 0, 500_000, utc)
    text_map = Schema(Type.MAP, key_schema=Schema.STRING, value_schema=Schema.OPTIONAL_STRING)
    cases: list[tuple[Schema, Any, str, str]] = [
        (timestamp_schema(), at, "timestamptz", "2024-02-29 23:30:00.5+00"),
        (timestamp_schema(), at, "date", "2024-02-29"),
        (timestamp_schema(), at, "text", "2024-02-29T23:30:00.500Z"),
        (timestamp_schema(), FarInstant(-63_517_824_000_000), "timestamp", "0044-03-17 00:00:00 BC"),
        (date_schema(), dt.date(2024, 2, 29), "timestamp", "2024-02-29 00:00:00"),
        (date_schema(), dt.date(2024, 2, 29), "text", "2024-02-29"),
        (time_schema(), dt.time(1, 2, 3, 4000), "time", "01:02:03.004"),
        (time_schema(), END_OF_DAY, "time", "24:00:00"),
        (decimal_schema(2), Decimal("7.00"), "int", "7"),
        (decimal_schema(2), Decimal("7.10"), "float8", "7.1"),
        (Schema.FLOAT64, 3.0, "bigint", "3"),
        (Schema.INT32, 1, "numeric(10,2)", "1.00"),
        (Schema.INT64, 1, "text", "1"),
        (Schema.BOOLEAN, True, "text", "t"),
        (Schema.INT32, 1, "boolean", "true"),
        (Schema.BYTES, b"\x00\xff\\", "bytea", "\\x00ff5c"),
        (Schema.STRING, "2024-02-29", "date", "2024-02-29"),
        (Schema.STRING, '{"a": 1}', "jsonb", '{"a": 1}'),
        (Schema.STRING, "{1,2}", "int[]", "{1,2}"),
        (Schema(Type.ARRAY, value_schema=Schema.INT8), [1, 2], "smallint[]", "{1,2}"),
        (Schema(Type.ARRAY, value_schema=timestamp_schema()), [at], "timestamp[]", '{"2024-02-29 23:30:00.5"}'),
        (Schema(Type.ARRAY, value_schema=Schema.OPTIONAL_STRING), ['a"', None], "jsonb", '["a\\"", null]'),
        (text_map, {"a": None, "b\\": "1"}, "jsonb", '{"a": null, "b\\\\": "1"}'),
        (members, Struct(members, [Decimal("1.50"), b"\xff", None]), "json", '{"n":1.50,"b":"/w==","s":null}'),
        (Schema.INT8, -1, "bit(8)", "11111111"),
        (Schema.BYTES, b"0101", "bit(4)", "0101"),
    ]  # fmt: skip
    desk.sql("SET TIME ZONE UTC")
    for schema, value, type, text in cases:
        desk.sql(f"DROP TABLE IF EXISTS t; CREATE TABLE t (k int PRIMARY KEY, v {type})")
        for mode in (InsertMode.UPSERT, InsertMode.INSERT):
            rows = [[i, value] for i in range(1 if mode is InsertMode.UPSERT else 30)]
            desk.sql("TRUNCATE t")
            desk.write("t", (K, ("v", schema)), rows, mode=mode)
            assert desk.sql("SELECT DISTINCT v::text FROM t") == [(text,)], (schema, type, mode)


def test_dates_use_date_timezone(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (k int PRIMARY KEY, d date, s timestamp, t time)")
    fields = (K, ("d", date_schema()), ("s", timestamp_schema()), ("t", time_schema()))
    west = dt.timezone(dt.timedelta(hours=-5))
    row = [1, dt.date(2024, 3, 1), dt.datetime(2024, 3, 1, 2, 0, tzinfo=dt.UTC), dt.time(2)]
    desk.write("t", fields, [row], options=WriteOptions(zone=west, date_zone=west))
    assert desk.sql("SELECT d::text, s::text, t::text FROM t") == [("2024-02-29", "2024-02-29 21:00:00", "21:00:00")]
    desk.write("t", fields, [row], options=WriteOptions(zone=west))
    assert desk.sql("SELECT d::text FROM t") == [("2024-03-01",)]


@pytest.mark.parametrize("many", [1, 50])
def test_values_that_cannot_be_stored_are_rejected_with_their_field(desk: Desk, many: int) -> None:
    desk.sql("CREATE TABLE t (k int, text text, int int, bits bit(4), ts timestamp, arr int[])")
    fields = {
        "text": (Schema.STRING, "a\0b", "Field text holds the character U\\+0000"),
        "int": (decimal_schema(1), Decimal("1.5"), "Field int: 1.5 is not a whole number"),
        "bits": (Schema.INT8, 16, "Field bits: 16 has more bits than the 4"),
        "ts": (semantic(Type.INT64, "io.debezium.time.NanoTimestamp"), 1, "Field ts: .* finer than the microseconds"),
    }
    for name, (schema, value, message) in fields.items():
        with pytest.raises(DataError, match=message):
            desk.write("t", (K, (name, schema)), [[i, value] for i in range(many)], mode=InsertMode.INSERT)
    with pytest.raises(DataError, match="Field text holds half of a surrogate pair"):
        desk.write("t", (K, ("text", Schema.STRING)), [[i, "\ud800"] for i in range(many)], mode=InsertMode.INSERT)
    with pytest.raises(DataError, match="Field arr is int32, but its column is of type integer\\[\\]"):
        desk.write("t", (K, ("arr", Schema.INT32)), [[1, 1]])
    assert desk.sql("SELECT count(*) FROM t") == [(0,)]


def test_fields_without_a_column_are_rejected_by_name(desk: Desk) -> None:
    desk.sql('CREATE TABLE t (k int PRIMARY KEY, v text, c int GENERATED ALWAYS AS (k) STORED, "Upper" int)')
    with pytest.raises(DataError, match=r"Field w has no column in public\.t, which has k, v, c, Upper"):
        desk.write("t", (K, ("w", Schema.STRING)), [[1, "x"]])
    with pytest.raises(DataError, match=r"Field c cannot be written: column c of public\.t is computed"):
        desk.write("t", (K, ("c", Schema.INT32)), [[1, 1]])
    desk.write("t", (K, ("upper", Schema.INT32)), [[1, 5]])
    assert desk.sql('SELECT "Upper" FROM t') == [(5,)]


# --- rows that the database refuses

REFUSED = {
    "k int PRIMARY KEY": ([[1, "a"], [1, "b"]], "t_pkey"),
    "k int CONSTRAINT small CHECK (k < 10)": ([[11, "a"]], "small"),
    "k int REFERENCES parent": ([[5, "a"]], "t_k_fkey"),
    "k int, w int NOT NULL": ([[1, "a"]], 'null value in column "w"'),
    "k smallint": ([[70000, "a"]], "out of range for type smallint"),
    "k uuid": ([[1, "a"]], "invalid input syntax for type uuid"),
}


@pytest.mark.parametrize("columns", REFUSED)
@pytest.mark.parametrize("many", [0, 40])
def test_rejected_rows_quote_the_database_and_write_nothing(desk: Desk, columns: str, many: int) -> None:
    rows, words = REFUSED[columns]
    desk.sql("CREATE TABLE parent (p int PRIMARY KEY)")
    desk.sql(f"CREATE TABLE t ({columns}, v varchar(20))")
    bad = [*rows, *([100 + i, "more"] for i in range(many))]
    writer = desk.dialect.writer(desk.table("t"), sink_fields((K, V), ()), InsertMode.INSERT, WriteOptions())
    with pytest.raises(RowRejectedError, match=words), desk.session.savepoint():
        writer.write(desk.session, bad)
    desk.session.commit()
    assert desk.sql("SELECT count(*) FROM t") == [(0,)]


@pytest.mark.parametrize("many", [1, 50])
def test_text_that_is_too_long_is_rejected_not_truncated(desk: Desk, many: int) -> None:
    desk.sql("CREATE TABLE t (k int PRIMARY KEY, v varchar(3), c char(3), b bit(3), d numeric(3,1))")
    for name, value in (("v", "abcd"), ("c", "abcd"), ("b", "0101"), ("d", "1234.5")):
        for mode in (InsertMode.INSERT, InsertMode.UPSERT):
            with pytest.raises(RowRejectedError):
                desk.write("t", (K, (name, Schema.STRING)), [[i, value] for i in range(many)], mode=mode)
    assert desk.sql("SELECT count(*) FROM t") == [(0,)]


def test_a_transaction_continues_after_a_savepoint(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (k int PRIMARY KEY, v text)")
    writer = desk.dialect.writer(desk.table("t"), sink_fields((K, V), ("k",)), InsertMode.UPSERT, WriteOptions())
    copier = desk.dialect.writer(desk.table("t"), sink_fields((K, V), ("k",)), InsertMode.INSERT, WriteOptions())
    writer.write(desk.session, [[1, "first"]])
    for bad in (writer, copier):
        with pytest.raises(DataError), desk.session.savepoint():
            bad.write(desk.session, [*([i, "x"] for i in range(2, 30)), [1, "twice"], [1, "twice"]])
    writer.write(desk.session, [[50, "last"]])
    desk.session.commit()
    assert desk.sql("SELECT k FROM t ORDER BY k") == [(1,), (50,)]


def test_uncommitted_rows_are_rolled_back_for_every_writer(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (k int PRIMARY KEY, v text)")
    for mode in (InsertMode.INSERT, InsertMode.UPSERT):
        writer = desk.dialect.writer(desk.table("t"), sink_fields((K, V), ("k",)), mode, WriteOptions())
        desk.session.commit()
        writer.write(desk.session, [[i, "x"] for i in range(100)])
        assert desk.sql("SELECT count(*) FROM t") == [(0,)]
        desk.session.rollback()
    assert desk.sql("SELECT count(*) FROM t") == [(0,)]


def test_the_database_rejects_values_for_a_generated_identity(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (k int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)")
    for mode in (InsertMode.INSERT, InsertMode.UPSERT):
        with pytest.raises(StatementError, match='cannot insert a non-DEFAULT value into column "k"'):
            desk.write("t", (K, V), [[i, "x"] for i in range(100)], mode=mode)
    desk.write("t", (V,), [["x"]] * 100, mode=InsertMode.INSERT)
    assert desk.sql("SELECT count(*) FROM t") == [(100,)]


def test_triggers_reject_rows(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (k int PRIMARY KEY, v text)")
    desk.sql("CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not %', NEW.v; END $$")
    desk.sql("CREATE TRIGGER no BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION no()")
    with pytest.raises(RowRejectedError, match="not today"):
        desk.write("t", (K, V), [[1, "today"]])


def test_a_conflict_target_without_key_is_a_statement_error(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (k int, v text)")
    with pytest.raises(StatementError, match="no unique or exclusion constraint matching the ON CONFLICT"):
        desk.write("t", (K, V), [[1, "x"]])


# --- trouble


def test_tasks_that_upsert_the_same_rows_in_opposite_orders_do_not_deadlock(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (k int PRIMARY KEY, v text)")
    rows = [[i, "x"] for i in range(300)]
    writer = desk.dialect.writer(desk.table("t"), sink_fields((K, V), ("k",)), InsertMode.UPSERT, WriteOptions())
    failures: list[Exception] = []

    def upsert(mine: list[list[Any]]) -> None:
        session = desk.database.session()
        try:
            for _ in range(15):
                writer.write(session, mine)
                session.commit()
        except Exception as e:
            failures.append(e)
        finally:
            session.close()

    desk.session.commit()
    threads = [threading.Thread(target=upsert, args=(mine,)) for mine in (rows, rows[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert failures == []
    assert desk.sql("SELECT count(*) FROM t") == [(300,)]


@pytest.mark.parametrize("mode", [InsertMode.INSERT, InsertMode.UPSERT])
def test_after_a_lost_connection_the_next_one_writes(desk: Desk, mode: InsertMode) -> None:
    desk.sql("CREATE TABLE t (k int PRIMARY KEY, v text)")
    writer = desk.dialect.writer(desk.table("t"), sink_fields((K, V), ("k",)), mode, WriteOptions())
    rows = [[i, "x"] for i in range(100)]
    writer.write(desk.session, rows)
    desk.sql("SELECT pg_terminate_backend(%s, 5000)", desk.session.driver.info.backend_pid)
    with pytest.raises(DatabaseLostError, match=r"terminating connection|closed the connection"):
        writer.write(desk.session, rows)
    desk.session.close()
    desk.session = desk.database.session()
    writer.write(desk.session, rows)
    desk.session.commit()
    assert desk.sql("SELECT count(*) FROM t") == [(100,)]


def test_a_standby_is_a_transient_error(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (k int PRIMARY KEY, v text)")
    writer = desk.dialect.writer(desk.table("t"), sink_fields((K, V), ("k",)), InsertMode.UPSERT, WriteOptions())
    desk.session.rollback()
    desk.session.execute(Sql("SET TRANSACTION READ ONLY"), "reading only")
    with pytest.raises(DatabaseLostError, match="read-only transaction"):
        writer.write(desk.session, [[1, "x"]])
    desk.session.rollback()


def test_a_restarted_server_is_reconnected(desk: Desk) -> None:
    desk.sql("CREATE TABLE t (k int PRIMARY KEY, v text)")
    writer = desk.dialect.writer(desk.table("t"), sink_fields((K, V), ("k",)), InsertMode.UPSERT, WriteOptions())
    writer.write(desk.session, [[1, "x"]])
    desk.session.commit()
    desk.own.close()
    desk.server.stop()
    with pytest.raises(DatabaseLostError):
        writer.write(desk.session, [[2, "x"]])
    desk.session.close()
    desk.server.start()
    desk.own = desk.server.connect(desk.name, autocommit=True)
    desk.session = desk.database.session()
    writer.write(desk.session, [[2, "x"]])
    desk.session.commit()
    assert desk.sql("SELECT count(*) FROM t") == [(2,)]


def test_tables_can_be_as_wide_as_the_database_allows(desk: Desk) -> None:
    names = [f"c{i}" for i in range(1500)]
    desk.sql(f"CREATE TABLE t (k int PRIMARY KEY, {', '.join(name + ' int' for name in names)})")
    fields = (K, *((name, Schema.OPTIONAL_INT32) for name in names))
    for mode in InsertMode:
        rows = [[i + (100 if mode is InsertMode.INSERT else 0), *range(1500)] for i in range(25)]
        desk.write("t", fields, rows, mode=mode)
    assert desk.sql("SELECT count(*), min(c1499) FROM t") == [(50, 1499)]
