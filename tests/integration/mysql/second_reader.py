"""A second reader of the binary log of MariaDB, mysql-replication: what a source has to emit."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from pymysql.protocol import MysqlPacket
from pymysqlreplication.packet import BinLogPacketWrapper
from pymysqlreplication.row_event import DeleteRowsEvent, TableMapEvent, UpdateRowsEvent, WriteRowsEvent

from tests.support.log_replay import Alteration, Change, LoggedTransaction, Row, Truncate

_HEADER = 20
"""The byte of the protocol, and the event's header."""
_TYPE = 5
_FORMAT, _TABLE_MAP, _GTID = 15, 19, 162
_ROWS = (23, 24, 25)
_COMPRESSED_ROWS = {166: 23, 167: 24, 168: 25}
_UPDATE = 24
_EVENTS = frozenset({TableMapEvent, WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent})


class SecondReader:
    """Reads packets of the log. The log may lack the names of columns, and does not say what DDL does: the workload does."""

    def __init__(self, columns: Mapping[str, list[str]], described: Mapping[str, list[list[Any]]]) -> None:
        """``columns`` are those of each table at first; ``described`` are, by GTID, what DDL does, and the columns after it."""
        self._columns = dict(columns)
        self._described = described
        self._tables: dict[int, Any] = {}
        self._has_checksum = False

    def read(self, packets: Iterable[bytes]) -> list[LoggedTransaction]:
        """The transactions, each as the group of events between two GTIDs; those of other databases have no items."""
        found: list[LoggedTransaction] = []
        for packet in packets:
            kind = packet[_TYPE]
            if kind == _FORMAT:
                self._has_checksum = packet[-5] == 1
            data = _sized(packet[:-4]) if self._has_checksum else packet
            if kind == _GTID:
                found.append(LoggedTransaction(_gtid(data)))
                found[-1].items += self._alterations(str(found[-1].id))
            elif kind in (_TABLE_MAP, *_ROWS):
                if found or kind == _TABLE_MAP:
                    found[-1].items += self._changes(data)
            elif kind in _COMPRESSED_ROWS:
                found[-1].items += self._changes(_uncompressed(data))
        return found

    def _alterations(self, gtid: str) -> list[Alteration | Truncate]:
        items: list[Alteration | Truncate] = []
        for change, table, *arguments in self._described.get(gtid, []):
            if change == "columns":
                self._columns[table] = arguments[0]
            elif change == "truncate":
                items.append(Truncate([table]))
            else:
                items.append(Alteration([change, table, *arguments]))
        return items

    def _changes(self, data: bytes) -> list[Change]:
        connection = SimpleNamespace(charset="utf8mb4", _get_dbms=lambda: "mariadb")
        event = BinLogPacketWrapper(
            MysqlPacket(data, "utf8mb4"), self._tables, connection, (11, 4, 0), False, _EVENTS,
            None, None, None, None, False, False, False, True, False,
        ).event  # fmt: skip
        if data[_TYPE] == _TABLE_MAP:
            self._tables[event.table_id] = event.get_table()
            return []
        table = f"{event.schema}.{event.table}"
        names = self._columns.get(table)
        if names is None:
            return []
        if data[_TYPE] == _UPDATE:
            rows = [(_row(row["before_values"], names), _row(row["after_values"], names)) for row in event.rows]
            return [Change("U", table, old, new) for old, new in rows]
        values = [_row(row["values"], names) for row in event.rows]
        if isinstance(event, DeleteRowsEvent):
            return [Change("D", table, row, None) for row in values]
        return [Change("I", table, None, row) for row in values]


def _row(values: Mapping[str, Any], names: list[str]) -> Row:
    """A row as texts, named by the places of its columns."""
    return {name: None if value is None else str(value) for name, value in zip(names, values.values(), strict=True)}


def _gtid(data: bytes) -> str:
    sequence = int.from_bytes(data[_HEADER : _HEADER + 8], "little")
    domain = int.from_bytes(data[_HEADER + 8 : _HEADER + 12], "little")
    return f"{domain}-{int.from_bytes(data[6:10], 'little')}-{sequence}"


def _uncompressed(data: bytes) -> bytes:
    """The event of rows that MariaDB compressed: everything after the bitmaps of columns is."""
    at = _HEADER + 8
    count = data[at]
    assert count < 251
    bitmaps = 2 if data[_TYPE] == 167 else 1
    at += 1 + bitmaps * ((count + 7) // 8)
    length = data[at] & 7
    rows = zlib.decompress(data[at + 1 + length :])
    head = bytearray(data[:at])
    head[_TYPE] = _COMPRESSED_ROWS[head[_TYPE]]
    return _sized(bytes(head) + rows)


def _sized(data: bytes) -> bytes:
    """The event with its size in the header."""
    return data[:10] + (len(data) - 1).to_bytes(4, "little") + data[14:]
