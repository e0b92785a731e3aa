"""Rows of the binary log decoded by one CPU core, to raw values and to those of events, beside mysql-replication on the same
bytes: a table of ten columns in MariaDB, inserts of 500 rows per event, then updates of all rows, and inserts of one row per
transaction."""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.measure import measure_here, report
from connectors.mysql.binlog import BinlogDecoder, ColumnReader, RowDecoder, RowsEvent, TableMap, split_file
from connectors.mysql.schema.model import Column
from connectors.mysql.types import MySqlTypeSettings, column_type
from sluice.embedded.mariadb import EmbeddedMariaDB

ROWS = 20_000
SINGLE_ROWS = 2_000
BATCH = 500
OUR_TIMES = 10
"""How often we decode the same bytes: one pass is too short to be measured."""

_CREATE = """CREATE TABLE customers (
    id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(60) NOT NULL, email VARCHAR(120), active TINYINT(1),
    score DOUBLE, balance DECIMAL(12,2), city VARCHAR(40), created DATETIME(3), changed TIMESTAMP(6) NOT NULL, quantity INT)"""


def _row(i: int) -> str:
    note = "NULL" if i % 3 == 0 else f"'c{i}@example.com'"
    return (
        f"({i}, 'customer {i}', {note}, {i % 2}, {i * 0.37}, {i % 9999}.{i % 100:02d}, 'Zürich', "
        f"'2026-11-{1 + i % 28:02d} 12:00:0{i % 10}.{i % 1000:03d}', '2026-11-26 12:00:00.{i:06d}', {i % 100})"
    )


def _capture() -> dict[str, list[bytes]]:
    """The events of each load, as a server writes them."""
    folder = Path(tempfile.mkdtemp(prefix="binlog-benchmark-"))
    server = EmbeddedMariaDB(
        folder / "mariadb", dies_with_parent=True, settings={"binlog_row_metadata": "FULL", "binlog_checksum": "CRC32"}
    )
    captured: dict[str, list[bytes]] = {}
    try:
        server.start()
        with server.connect() as connection, connection.cursor() as cursor:

            def load(name: str, statements: Sequence[str]) -> None:
                cursor.execute("FLUSH BINARY LOGS")
                cursor.execute("SHOW MASTER STATUS")
                (file, *_) = cursor.fetchone()
                for statement in statements:
                    cursor.execute(statement)
                cursor.execute("FLUSH BINARY LOGS")
                captured[name] = list(split_file((folder / "mariadb" / "data" / str(file)).read_bytes()))

            cursor.execute("SET time_zone = '+00:00'")
            cursor.execute(_CREATE)
            insert = "INSERT INTO customers VALUES "
            load("inserts", [insert + ", ".join(map(_row, range(at, at + BATCH))) for at in range(0, ROWS, BATCH)])
            load("updates", ["UPDATE customers SET quantity = quantity + 1, score = -score"])
            cursor.execute("TRUNCATE customers")
            load("single_inserts", [insert + _row(i) for i in range(SINGLE_ROWS)])
    finally:
        server.remove()
        shutil.rmtree(folder, ignore_errors=True)
    return captured


_COLUMNS = (
    Column("id", 1, "BIGINT", "BIGINT", -5, optional=False), Column("name", 2, "VARCHAR", "VARCHAR", 12, 60, optional=False),
    Column("email", 3, "VARCHAR", "VARCHAR", 12, 120), Column("active", 4, "TINYINT", "TINYINT", -6, 1),
    Column("score", 5, "DOUBLE", "DOUBLE", 8), Column("balance", 6, "DECIMAL", "DECIMAL", 3, 12, 2),
    Column("city", 7, "VARCHAR", "VARCHAR", 12, 40), Column("created", 8, "DATETIME", "DATETIME", 93, 3),
    Column("changed", 9, "TIMESTAMP", "TIMESTAMP", 2014, 6, optional=False), Column("quantity", 10, "INT", "INT", 4),
)  # fmt: skip


def typed_readers() -> list[ColumnReader]:
    """Readers that convert raw values to those of events."""
    mapped = [column_type(column, MySqlTypeSettings(), "utf8mb4") for column in _COLUMNS]
    return [one.reader for one in mapped if one is not None]


def decode(events: Sequence[bytes], readers: Sequence[ColumnReader] | None = None) -> int:
    """Decodes all events, to raw values or as ``readers`` say; returns the number of rows."""
    decoder = BinlogDecoder()
    decoders: dict[TableMap, RowDecoder] = {}
    rows = 0
    for raw in events:
        event = decoder.decode(raw)
        if isinstance(event, RowsEvent) and event.table is not None:
            reader = decoders.get(event.table)
            if reader is None:
                reader = decoders[event.table] = RowDecoder(event.table, readers)
            rows += len(reader.rows(event))
    return rows


def decode_with_mysql_replication(events: Sequence[bytes]) -> int:
    """The same with mysql-replication."""
    from pymysql.protocol import MysqlPacket
    from pymysqlreplication.packet import BinLogPacketWrapper
    from pymysqlreplication.row_event import DeleteRowsEvent, TableMapEvent, UpdateRowsEvent, WriteRowsEvent

    tables: dict[int, Any] = {}
    # What its events ask of the connection that would read the table's columns from the server.
    connection = SimpleNamespace(charset="utf8mb4", _get_dbms=lambda: "mariadb")
    allowed = frozenset({TableMapEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent})
    rows = 0
    for raw in events:
        packet = MysqlPacket(b"\0" + raw, "utf8mb4")
        wrapper = BinLogPacketWrapper(
            packet, tables, connection, (11, 4, 0), True, allowed, None, None, None, None, False, False, False, True, False
        )
        event = wrapper.event
        if isinstance(event, TableMapEvent):
            tables[event.table_id] = event.get_table()
        elif isinstance(event, (WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent)):
            rows += len(event.rows)
    return rows


def _work(times: int, function: Callable[[Sequence[bytes]], int], events: Sequence[bytes], expected: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(times):
            if (found := function(events)) != expected:
                raise RuntimeError(f"{found} rows decoded; expected {expected}")

    return run


def main() -> None:
    logging.getLogger().setLevel(logging.ERROR)
    ways: dict[str, dict[str, float]] = {}
    for name, events in _capture().items():
        count = SINGLE_ROWS if name == "single_inserts" else ROWS
        ours = measure_here(count * OUR_TIMES, _work(OUR_TIMES, decode, events, count))
        typed = measure_here(count * OUR_TIMES, _work(OUR_TIMES, partial(decode, readers=typed_readers()), events, count))
        theirs = measure_here(count, _work(1, decode_with_mysql_replication, events, count))
        if name == "inserts":
            first = (ours, theirs)
        ways[name] = {
            "rows_per_cpu_s": round(ours.records / ours.cpu_s),
            "event_values_rows_per_cpu_s": round(typed.records / typed.cpu_s),
            "mysql_replication_rows_per_cpu_s": round(theirs.records / theirs.cpu_s),
        }
    report("binlog_decode", *first, ways=ways)


if __name__ == "__main__":
    main()
