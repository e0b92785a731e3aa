"""The binary log that MariaDB writes: all types at their limits, all row images and metadata, compression, and checksums.

Values are compared with SELECT, and with mysql-replication as another reader where it can read them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from ipaddress import IPv6Address
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from connectors.mysql.binlog import (
    ABSENT,
    ColumnReader,
    Event,
    FormatDescription,
    MariaDbGtidEvent,
    Query,
    Rotate,
    RowDecoder,
    RowsEvent,
    RowsKind,
    RowsQuery,
    TableMap,
    TableMapEvent,
    Xid,
    decimal_text,
)
from connectors.mysql.binlog.temporal import date_text, datetime_text, pack_datetime, time_text
from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.support.mariadb_log import BinaryLog

_POINTS = ("POINT(1, -2)", "ST_GeomFromText('POINT(0 1)', 4326)")
_UUIDS = ("'00000000-0000-0000-0000-000000000000'", "'123e4567-e89b-12d3-a456-426655440000'")


def _timestamp_text(microseconds: int, digits: int) -> str:
    if microseconds == 0:
        return datetime_text(0, digits)
    moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=microseconds)
    return datetime_text(pack_datetime(*moment.timetuple()[:6], moment.microsecond), digits)


def _text(value: bytes) -> str:
    return value.decode()


def _latin1(value: bytes) -> str:
    return value.decode("cp1252")


# Column type; how SELECT returns its raw value; what makes the same text of ours; three values: lowest, highest, special.
COLUMNS: dict[str, tuple[str, str, Callable[[Any], Any], tuple[str, str, str]]] = {
    "ti": ("TINYINT", "{}", str, ("-128", "127", "0")),
    "tu": ("TINYINT UNSIGNED", "{}", str, ("0", "255", "1")),
    "si": ("SMALLINT", "{}", str, ("-32768", "32767", "NULL")),
    "su": ("SMALLINT UNSIGNED", "{}", str, ("0", "65535", "NULL")),
    "mi": ("MEDIUMINT", "{}", str, ("-8388608", "8388607", "-1")),
    "mu": ("MEDIUMINT UNSIGNED", "{}", str, ("0", "16777215", "1")),
    "i": ("INT", "{}", str, ("-2147483648", "2147483647", "NULL")),
    "iu": ("INT UNSIGNED", "{}", str, ("0", "4294967295", "1")),
    "bi": ("BIGINT", "{}", str, ("-9223372036854775808", "9223372036854775807", "0")),
    "bu": ("BIGINT UNSIGNED", "{}", str, ("0", "18446744073709551615", "1")),
    "y": ("YEAR", "{}", lambda year: f"{year:04d}", ("1901", "2155", "0")),
    "f": ("FLOAT", "{}", lambda number: f"{number:g}", ("-1.5", "0.25", "NULL")),
    "d": ("DOUBLE", "{}", lambda number: f"{number:g}".replace("+", ""), ("-1.5e100", "2.5e-100", "0.5")),
    "dec1": ("DECIMAL(65,30)", "{}", lambda n: decimal_text(n, 30), ("-" + "9" * 35 + "." + "9" * 30, "1e-30", "0")),
    "dec2": ("DECIMAL(5,2) UNSIGNED", "{}", lambda n: decimal_text(n, 2), ("0", "999.99", "NULL")),
    "dec3": ("DECIMAL(9,9)", "{}", lambda n: decimal_text(n, 9), ("-0.999999999", "0.000000001", "0")),
    "bit1": ("BIT(1)", "{}+0", str, ("b'0'", "b'1'", "NULL")),
    "bit64": ("BIT(64)", "{}+0", str, ("0", "18446744073709551615", "5")),
    "da": ("DATE", "{}", date_text, ("'0000-00-00'", "'9999-12-31'", "'2024-00-15'")),
    "t0": ("TIME", "{}", lambda us: time_text(us, 0), ("'-838:59:59'", "'838:59:59'", "'-00:00:01'")),
    "t3": ("TIME(3)", "{}", lambda us: time_text(us, 3), ("'-838:59:59.999'", "'838:59:59.999'", "'-00:00:00.001'")),
    "t6": ("TIME(6)", "{}", lambda us: time_text(us, 6), ("'-838:59:59.999999'", "'00:00:00.000001'", "NULL")),
    "dt0": ("DATETIME", "{}", lambda p: datetime_text(p, 0), ("'0000-00-00'", "'9999-12-31 23:59:59'", "'2024-00-15 01:02:03'")),
    "dt1": ("DATETIME(1)", "{}", lambda p: datetime_text(p, 1), ("'0001-01-01 00:00:00.9'", "'9999-12-31 23:59:59.9'", "NULL")),
    "dt6": ("DATETIME(6)", "{}", lambda p: datetime_text(p, 6), ("'0000-00-00'", "'2024-02-29 23:59:59.999999'", "NULL")),
    "ts0": ("TIMESTAMP NULL", "{}", lambda us: _timestamp_text(us, 0), ("'0000-00-00'", "'2038-01-19 03:14:07'", "NULL")),
    "ts4": ("TIMESTAMP(4) NULL", "{}", lambda us: _timestamp_text(us, 4), ("'1970-01-01 00:00:01.0001'", "'2038-01-19'", "NULL")),
    "c": ("CHAR(10)", "{}", _text, ("''", "'trailing  '", "'ü'")),
    "cl": ("CHAR(5) CHARACTER SET latin1", "{}", _latin1, ("''", "'é€'", "NULL")),
    "c255": ("CHAR(255)", "{}", _text, ("''", "REPEAT('𝄞', 255)", "NULL")),
    "b": ("BINARY(4)", "HEX({})", lambda value: value.ljust(4, b"\0").hex().upper(), ("x'00'", "x'ff000100'", "NULL")),
    "v": ("VARCHAR(40)", "{}", _text, ("''", "'𝄞 ü'", "NULL")),
    "v2": ("VARCHAR(300)", "{}", _text, ("''", "REPEAT('x', 300)", "'short'")),
    "vb": ("VARBINARY(300)", "HEX({})", lambda value: value.hex().upper(), ("''", "REPEAT(x'00ff', 150)", "NULL")),
    "tb": ("TINYBLOB", "HEX({})", lambda value: value.hex().upper(), ("''", "REPEAT('x', 255)", "NULL")),
    "tx": ("TEXT", "{}", _text, ("''", "REPEAT('ü', 300)", "NULL")),
    "mt": ("MEDIUMTEXT", "{}", _text, ("''", "REPEAT('y', 70000)", "NULL")),
    "lb": ("LONGBLOB", "HEX({})", lambda value: value.hex().upper(), ("''", "x'00ff'", "NULL")),
    "j": ("JSON", "{}", _text, ("'null'", "'{\"a\": [1, 2]}'", "NULL")),
    "e": ("ENUM('x','ü','')", "{}+0", str, ("'x'", "'ü'", "NULL")),
    "e0": ("ENUM('x')", "{}+0", str, ("'invalid'", "'x'", "NULL")),
    "s": ("SET('p','q','r','s','t','u','v','w','z')", "{}+0", str, ("''", "'p,z'", "NULL")),
    "g": ("GEOMETRY", "HEX({})", lambda value: value.hex().upper(), (_POINTS[0], _POINTS[1], "NULL")),
    "uu": ("UUID", "{}", lambda value: _uuid_text(value), (_UUIDS[0], _UUIDS[1], "NULL")),
    "i6": ("INET6", "{}", lambda value: _inet6_text(value), ("'::'", "'2001:db8::ff00:42:8329'", "NULL")),
    "vc": ("VARCHAR(300) COMPRESSED", "{}", _text, ("''", "REPEAT('c', 300)", "'few'")),
    "bc": ("BLOB COMPRESSED", "HEX({})", lambda value: value.hex().upper(), ("''", "REPEAT('c', 3000)", "NULL")),
}  # fmt: skip

SECOND_READER_LACKS = {
    "vc": "COMPRESSED columns",
    "bc": "COMPRESSED columns",
    "uu": "UUID",
    "i6": "INET6",
    "y": "the year 0",
    "da": "dates that are no dates",
    "dt0": "dates that are no dates",
    "dt1": "dates before it knows the year 1 as text",
    "dt6": "dates that are no dates",
    "ts0": "UTC, and dates that are no dates",
    "ts4": "UTC",
    "e": "the number of a value",
    "e0": "the number of a value",
    "s": "the bits of a value",
    "bit1": "BIT as a number",
    "bit64": "BIT as a number",
    "f": "floats that are not rounded",
    "t3": "negative times with a fraction",
    "t6": "negative times with a fraction",
}
"""Columns that are not compared with mysql-replication, and what it lacks."""


def _uuid_text(value: bytes) -> str:
    return str(UUID(bytes=value.ljust(16, b"\0")))


def _inet6_text(value: bytes) -> str:
    return str(IPv6Address(value.ljust(16, b"\0")))


def rows_of(events: Iterator[Event], readers: list[ColumnReader | None] | None = None) -> list[tuple[RowsEvent, Any]]:
    decoders: dict[TableMap, RowDecoder] = {}
    found = []
    for event in events:
        if isinstance(event, RowsEvent):
            assert event.table is not None
            decoder = decoders.setdefault(event.table, RowDecoder(event.table, readers))
            found += [(event, row) for row in decoder.rows(event)]
    return found


def texts(row: tuple[Any, ...]) -> list[Any]:
    return [value if value is None else COLUMNS[name][2](value) for name, value in zip(COLUMNS, row[1:], strict=True)]


@pytest.fixture
def settings(mariadb: EmbeddedMariaDB) -> Iterator[Callable[..., None]]:
    """Sets global variables until the test ends."""
    before: dict[str, str] = {}
    with mariadb.connect() as connection, connection.cursor() as cursor:

        def change(**values: str) -> None:
            for name, value in values.items():
                cursor.execute(f"SELECT @@GLOBAL.{name}")
                before.setdefault(name, str(cursor.fetchone()[0]))
                cursor.execute(f"SET GLOBAL {name} = {value}")

        yield change
        for name, value in before.items():
            cursor.execute(f"SET GLOBAL {name} = %s", (int(value) if value.isdigit() else value,))


@pytest.mark.parametrize(
    ("image", "metadata", "compress", "checksum"),
    [("FULL", "FULL", "0", "CRC32"), ("MINIMAL", "MINIMAL", "1", "NONE"), ("NOBLOB", "NO_LOG", "1", "CRC32")],
)
def test_every_type_in_every_image(
    mariadb: EmbeddedMariaDB, mariadb_database: str, settings: Callable[..., None], image: str, metadata: str, compress: str,
    checksum: str,
) -> None:  # fmt: skip
    settings(binlog_checksum=checksum, binlog_row_metadata=metadata, log_bin_compress=compress, log_bin_compress_min_len="10")
    log = BinaryLog(mariadb, checksum)
    with mariadb.connect(mariadb_database, conv={}, charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute(f"SET SESSION binlog_row_image = '{image}', time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'")
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute(
            f"CREATE TABLE t (id INT PRIMARY KEY, {', '.join(f'{name} {column[0]}' for name, column in COLUMNS.items())}) "
            "CHARACTER SET utf8mb4"
        )
        inserted = ", ".join(f"({number}, {', '.join(column[3][number] for column in COLUMNS.values())})" for number in range(3))
        cursor.execute(f"INSERT INTO t VALUES {inserted}")
        cursor.execute(f"SELECT id, {', '.join(column[1].format(name) for name, column in COLUMNS.items())} FROM t ORDER BY id")
        selected = [[_as_text(value) for value in row] for row in cursor.fetchall()]
        cursor.execute("UPDATE t SET ti = ti + 1 WHERE ti < 127")
        cursor.execute("UPDATE t SET tx = 'changed', si = NULL WHERE id = 0")
        cursor.execute("DELETE FROM t")
    types = ["INT", *(column[0] for column in COLUMNS.values())]
    # Without metadata, the reader must know which numbers are unsigned.
    readers: list[ColumnReader | None] = [
        ColumnReader(unsigned="UNSIGNED" in kind if metadata == "NO_LOG" else None) for kind in types
    ]
    events = list(log.events())
    kinds = [type(event) for event in events]
    assert kinds[:2] == [Rotate, FormatDescription]
    assert {MariaDbGtidEvent, Query, TableMapEvent, RowsEvent, Xid} <= set(kinds)
    assert any(isinstance(event, Query) and event.is_compressed for event in events) == (compress == "1")
    assert any(event.header.type_code in (166, 167, 168) for event in events) == (compress == "1")
    assert RowsQuery not in kinds  # the dump did not ask for it
    found = rows_of(iter(events), readers)

    inserts = [row for event, row in found if event.kind is RowsKind.INSERT]
    assert [row[0] for row in inserts] == [0, 1, 2]
    for row, expected in zip(inserts, selected, strict=True):
        assert dict(zip(COLUMNS, texts(row), strict=True)) == dict(zip(COLUMNS, expected[1:], strict=True))

    names = ["id", *COLUMNS]
    blobs = {name for name, column in COLUMNS.items() if any(word in column[0] for word in ("BLOB", "TEXT", "JSON"))}
    updates = [(row, event) for event, row in found if event.kind is RowsKind.UPDATE]
    assert len(updates) == 3
    before, after = (
        {name: value for name, value in zip(names, row, strict=True) if value is not ABSENT} for row in updates[2][0]
    )
    kept = {"FULL": set(names), "MINIMAL": {"id"}, "NOBLOB": set(names) - blobs}[image]
    assert set(before) == kept
    assert set(after) == {"FULL": set(names), "MINIMAL": {"si", "tx"}, "NOBLOB": set(names) - blobs | {"tx"}}[image]
    assert (before["id"], after["tx"], after["si"]) == (0, b"changed", None)
    deletes = [row for event, row in found if event.kind is RowsKind.DELETE]
    assert [row[0] for row in deletes] == [0, 1, 2]
    assert {name for name, value in zip(names, deletes[0], strict=True) if value is not ABSENT} == kept

    table = next(event.table for event in events if isinstance(event, TableMapEvent))
    assert (str(table), table.column_count) == (f"{mariadb_database}.t", len(names))
    if metadata == "FULL":
        assert table.metadata.names == tuple(names)
        assert table.metadata.primary_key == ((0, 0),)
        by_name = {name: index for index, name in enumerate(names)}
        assert table.metadata.enum_values[by_name["e"]] == (b"x", "ü".encode(), b"")
        assert table.metadata.set_values[by_name["s"]][8] == b"z"
        assert (table.metadata.collations[by_name["cl"]], table.metadata.collations[by_name["lb"]]) == (8, 63)


def _as_text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def second_reader(packets: list[bytes]) -> list[tuple[str, dict[str, Any]]]:
    """The inserted rows as mysql-replication reads them."""
    from pymysql.protocol import MysqlPacket
    from pymysqlreplication.packet import BinLogPacketWrapper
    from pymysqlreplication.row_event import TableMapEvent as TheirTableMap
    from pymysqlreplication.row_event import WriteRowsEvent

    connection = SimpleNamespace(charset="utf8mb4", _get_dbms=lambda: "mariadb")
    tables: dict[int, Any] = {}
    found = []
    for packet in packets:
        if packet[5] not in (19, 23):
            continue
        wrapper = BinLogPacketWrapper(
            MysqlPacket(packet, "utf8mb4"), tables, connection, (11, 4, 0), True, frozenset({TheirTableMap, WriteRowsEvent}),
            None, None, None, None, False, False, False, True, False,
        )  # fmt: skip
        if isinstance(wrapper.event, TheirTableMap):
            tables[wrapper.event.table_id] = wrapper.event.get_table()
        else:
            found += [(wrapper.event.table, row["values"]) for row in wrapper.event.rows]
    return found


def _as_second_reader(name: str, value: Any) -> Any:
    kind = COLUMNS[name][0]
    if value is None:
        return None
    if name.startswith("dec"):
        return Decimal(decimal_text(value, {"dec1": 30, "dec2": 2, "dec3": 9}[name]))
    if kind == "TIME":
        return dt.timedelta(microseconds=value)
    if value == b"":
        return ""  # it does not tell empty texts from empty bytes
    if kind.startswith(("CHAR", "VARCHAR")) or kind in ("TEXT", "MEDIUMTEXT", "JSON"):
        return COLUMNS[name][2](value)
    return value


def test_another_reader_reads_the_same(mariadb: EmbeddedMariaDB, mariadb_database: str, settings: Callable[..., None]) -> None:
    settings(binlog_checksum="CRC32", binlog_row_metadata="FULL")
    names = [name for name in COLUMNS if name not in SECOND_READER_LACKS]
    log = BinaryLog(mariadb, "CRC32")
    with mariadb.connect(mariadb_database, charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        cursor.execute(f"CREATE TABLE t ({', '.join(f'{name} {COLUMNS[name][0]}' for name in names)}) CHARACTER SET utf8mb4")
        rows = ", ".join(f"({', '.join(COLUMNS[name][3][number] for name in names)})" for number in range(3))
        cursor.execute(f"INSERT INTO t VALUES {rows}")
    ours = [dict(zip(names, row, strict=True)) for _, row in rows_of(log.events())]
    theirs = [row for table, row in second_reader(log.raw) if table == "t"]
    assert len(ours) == len(theirs) == 3
    for mine, other in zip(ours, theirs, strict=True):
        assert {name: _as_second_reader(name, value) for name, value in mine.items()} == other


def test_older_times_of_mariadb(mariadb: EmbeddedMariaDB, mariadb_database: str, settings: Callable[..., None]) -> None:
    """With mysql56_temporal_format=OFF, the reader must know the precision: the log does not have it."""
    settings(mysql56_temporal_format="OFF", binlog_checksum="NONE")
    log = BinaryLog(mariadb, "CRC32")
    with mariadb.connect(mariadb_database) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION time_zone = '+00:00'")
        cursor.execute("CREATE TABLE t (a TIME(3), b DATETIME(6), c TIMESTAMP(1) NULL, d TIME, e DATETIME, f TIMESTAMP NULL)")
        cursor.execute(
            "INSERT INTO t VALUES ('-12:34:56.789', '2024-02-29 12:34:56.123456', '2024-01-01 00:00:01.5', '-838:59:59', "
            "'9999-12-31 23:59:59', '2001-02-03 04:05:06'), (NULL, '1000-01-01', NULL, '00:00:01', NULL, NULL)"
        )
    readers: list[ColumnReader | None] = [ColumnReader(fraction_digits=digits) for digits in (3, 6, 1, 0, 0, 0)]
    assert [row for _, row in rows_of(log.events(), readers)] == [
        (
            -45296_789_000, pack_datetime(2024, 2, 29, 12, 34, 56, 123456), 1704067201_500_000, -3020399_000_000,
            pack_datetime(9999, 12, 31, 23, 59, 59), 981173106_000_000,
        ),
        (None, pack_datetime(1000, 1, 1), None, 1_000_000, None, None),
    ]  # fmt: skip
