"""Values that the stream does not contain: read from the table itself.

An update leaves out TOASTed values that it did not change. Everyone downstream still has them, except after a change of the
primary key: that is a new row to them, and a placeholder in a new row means a value that nobody has. So it is looked up. What is
found may be newer than the change; then the event that made it newer follows, and says the same. A row that is gone by now is
left with its placeholders: an event that says so follows too.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Sequence

from connectors.cdc.errors import ConnectionLostError
from connectors.postgres.connection import Connection, quote_identifier
from connectors.postgres.errors import ServerError
from connectors.postgres.schema.catalog import read_table
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.streaming.pgoutput import UNCHANGED, Tuple, pad_message

log = logging.getLogger(__name__)

_VISIBILITY_TIMEOUT_S = 10.0
_RECHECK_INTERVAL_S = 0.002
_ALTERED = ("42P01", "42703", "42883")
"""Undefined table, undefined column, undefined operator."""
_IN_PROGRESS = "SELECT 1 FROM pg_locks WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND transactionid = $1::xid"


def fetch_unavailable_values(connect: Callable[[], Connection], rows: TableRows, new: Tuple, xid: int | None) -> Tuple:
    """Fills in unavailable values of a new row, as far as the table still has the row and their columns.

    Raises ConnectionLostError when the connection is lost or the change does not become visible: read the stream again from
    before it.
    """
    wanted = [i for i, value in enumerate(new) if value is UNCHANGED]
    found = read_row_again(connect, rows, new, wanted, rows.table.key, xid)
    return new if found is None else found


def read_row_again(
    connect: Callable[[], Connection],
    rows: TableRows,
    new: Tuple,
    wanted: Sequence[int],
    key: Sequence[str],
    xid: int | None,
) -> Tuple | None:
    """The new row with the values that the table now has in the columns ``wanted``, as far as they exist; None if it has no such
    row, by the columns ``key``. Raises ConnectionLostError as :func:`fetch_unavailable_values` does."""
    connection = connect()
    if xid is not None:
        _wait_until_visible(connection, xid)
    while True:
        try:
            return _filled(connection, rows, new, wanted, key)
        except ServerError as e:
            if e.sqlstate not in _ALTERED:  # the table was altered in between
                raise


def _filled(connection: Connection, rows: TableRows, new: Tuple, wanted: Sequence[int], key: Sequence[str]) -> Tuple | None:
    columns = rows.table.columns
    current = read_table(connection, rows.table.oid)
    types = {column.name: column.type_oid for column in current.columns} if current else {}
    usable = [types.get(column.name) == column.type_oid for column in columns]
    lost = [columns[i].name for i in wanted if new[i] is UNCHANGED and not usable[i]]
    if lost:
        log.warning("table %s was altered or dropped: unchanged values of %s are unavailable", rows.table, ", ".join(lost))
    wanted = [i for i in wanted if usable[i]]
    values = [(i, new[i]) for i, column in enumerate(columns) if column.name in key]
    if current is None or not wanted or not values or not all(usable[i] and isinstance(value, bytes) for i, value in values):
        return new
    selected = ", ".join(quote_identifier(columns[i].name) for i in wanted)
    condition = " AND ".join(f"{quote_identifier(columns[i].name)} = ${n}" for n, (i, _) in enumerate(values, 1))
    connection.execute("SET row_security = off")  # a policy would hide the row
    try:
        found = connection.query(
            f"SELECT {selected} FROM {current.own_rows} WHERE {condition}",
            [value.decode() for _, value in values if isinstance(value, bytes)],
        )
    finally:
        connection.execute("RESET row_security")
    if not found:
        return None
    filled = list(new)
    for i, value in zip(wanted, found[0], strict=True):
        filled[i] = None if value is None else value.encode()
    return filled


def _wait_until_visible(connection: Connection, xid: int) -> None:
    # The log can be read a moment before the commit is visible to others.
    deadline = time.monotonic() + _VISIBILITY_TIMEOUT_S
    while connection.query(_IN_PROGRESS, [xid]):
        if time.monotonic() > deadline:
            raise ConnectionLostError(f"transaction {xid} is in the log, but not visible on {connection.address} yet")
        connection.wait(_RECHECK_INTERVAL_S)


def encode_tuple(values: Tuple) -> bytes:
    """A tuple's columns as a message has them, for the decoders of :mod:`connectors.postgres.schema.row_decoder`."""
    parts = []
    for value in values:
        if isinstance(value, bytes):
            parts.append(struct.pack("!BI", 116, len(value)) + value)
        else:
            parts.append(b"n" if value is None else b"u")
    return pad_message(b"".join(parts))
