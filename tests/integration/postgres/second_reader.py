"""A second reader of the log with a slot and a decoder of its own: what a source has to emit."""

from __future__ import annotations

import json
import struct
from typing import Any

import psycopg
from psycopg import sql

from tests.support.log_replay import UNCHANGED, Alteration, Change, LoggedTransaction, Row, Truncate


class SecondReader:
    """Reads transactions in commit order from its own slot."""

    def __init__(self, connection: psycopg.Connection[Any], slot: str, publication: str) -> None:
        self._connection = connection
        self._slot = slot
        self._publication = publication
        self._relations: dict[int, tuple[str, list[str], list[bool]]] = {}
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])

    def read(self) -> list[LoggedTransaction]:
        """Consumes everything that is committed."""
        query = sql.SQL(
            "SELECT data FROM pg_logical_slot_get_binary_changes({}, NULL, NULL, 'proto_version', '1', 'messages', 'true', "
            "'publication_names', {})"
        ).format(self._slot, self._publication)
        found: list[LoggedTransaction] = []
        for (data,) in self._connection.execute(query):
            if data[:1] == b"B":
                found.append(LoggedTransaction(int.from_bytes(data[17:21], "big")))
            elif (item := self._item(bytes(data))) is not None:
                found[-1].items.append(item)
        return found

    def _item(self, data: bytes) -> Change | Truncate | Alteration | None:
        kind = data[:1].decode()
        if kind == "R":
            self._read_relation(data)
        elif kind in "IUD":
            return self._read_change(kind, data)
        elif kind == "T":
            (count,) = struct.unpack_from("!I", data, 1)
            return Truncate([self._relations[oid][0] for oid in struct.unpack_from(f"!{count}I", data, 6)])
        elif kind == "M" and data[1] & 1:
            prefix, at = _string(data, 10)
            if prefix == "workload":
                return Alteration(json.loads(data[at + 4 :]))
        return None

    def _read_relation(self, data: bytes) -> None:
        (oid,) = struct.unpack_from("!I", data, 1)
        _, at = _string(data, 5)
        name, at = _string(data, at)
        (count,) = struct.unpack_from("!xH", data, at)
        at += 3
        columns, keys = [], []
        for _ in range(count):
            keys.append(bool(data[at] & 1))
            column, at = _string(data, at + 1)
            columns.append(column)
            at += 8
        self._relations[oid] = (name, columns, keys)

    def _read_change(self, kind: str, data: bytes) -> Change:
        (oid,) = struct.unpack_from("!I", data, 1)
        name, columns, keys = self._relations[oid]
        at, old, new = 5, None, None
        while at < len(data):
            marker = data[at : at + 1]
            row, at = _tuple(data, at + 1, columns)
            if marker == b"N":
                new = row
            elif marker == b"K":
                old = {column: row[column] for column, is_key in zip(columns, keys, strict=True) if is_key}
            else:
                old = row
        if new is not None and old is not None:
            # The server sends an unchanged value once, in the old row.
            new = {name: old[name] if value is UNCHANGED and name in old else value for name, value in new.items()}
        return Change(kind, name, old, new)


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\0", at)
    return data[at:end].decode(), end + 1


def _tuple(data: bytes, at: int, columns: list[str]) -> tuple[Row, int]:
    at += 2
    row: Row = {}
    for column in columns:
        kind = data[at : at + 1]
        at += 1
        if kind == b"t":
            (size,) = struct.unpack_from("!I", data, at)
            row[column] = data[at + 4 : at + 4 + size].decode()
            at += 4 + size
        else:
            row[column] = None if kind == b"n" else UNCHANGED
    return row, at
