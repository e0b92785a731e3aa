"""Values that a key change did not send: read from the table itself.

An update leaves out TOASTed values that it did not change. Everyone downstream still has them, except after a change of the
primary key: that is a new row to them, and a placeholder in a new row means a value that nobody has. So it is looked up. What is
found may be newer than the change; then the event that made it newer follows, and says the same. A row that is gone by now is
left with its placeholders: an event that says so follows too.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

from connectors.postgres.connection import Connection, quote_identifier
from connectors.postgres.errors import ConnectionLostError
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.streaming.pgoutput import UNCHANGED, Tuple, pad_message

_VISIBILITY_TIMEOUT_S = 10.0
_RECHECK_INTERVAL_S = 0.002
_IN_PROGRESS = "SELECT 1 FROM pg_locks WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND transactionid = $1::xid"


def fetch_unavailable_values(connect: Callable[[], Connection], rows: TableRows, new: Tuple, xid: int | None) -> Tuple:
    """The new row with what it lacks, as far as the table has it.

    Raises ConnectionLostError when the database is away or the change does not become visible: the stream is to be read again
    from before it.
    """
    names = [column.name for column in rows.table.columns]
    wanted = [i for i, value in enumerate(new) if value is UNCHANGED]
    key = [(name, new[names.index(name)]) for name in rows.table.key]
    if not wanted or not key or any(not isinstance(value, bytes) for _, value in key):
        return new
    connection = connect()
    if xid is not None:
        _wait_until_visible(connection, xid)
    columns = ", ".join(quote_identifier(names[i]) for i in wanted)
    condition = " AND ".join(f"{quote_identifier(name)} = ${n}" for n, (name, _) in enumerate(key, 1))
    found = connection.query(
        f"SELECT {columns} FROM {quote_identifier(rows.table.schema)}.{quote_identifier(rows.table.name)} WHERE {condition}",
        [value.decode() for _, value in key if isinstance(value, bytes)],
    )
    if not found:
        return new
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
