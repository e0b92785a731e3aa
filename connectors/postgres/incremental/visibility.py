"""Decides whether a chunk may be used: whether the stream was behind its snapshot for every transaction.

The stream has the order of commit records in the WAL. A transaction becomes visible to snapshots a little later than its commit
record, with synchronous replication much later. So a snapshot can lack a transaction whose changes were streamed already, and its
rows would overwrite newer ones.
"""

from __future__ import annotations

from collections.abc import Callable

from connectors.postgres.connection import Connection

_WRITERS = """
select l.relation, l.virtualtransaction from pg_locks l
where l.locktype = 'relation' and l.granted and l.pid is distinct from pg_backend_pid()
  and l.database = (select oid from pg_database where datname = current_database())
  and l.mode in ('RowExclusiveLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
"""
_FAMILY = "select $1::oid::text union select relid::oid::text from pg_partition_tree($1::oid)"
_XID_BITS = 0xFFFFFFFF
_HALF = 1 << 31


class StreamedTransactions:
    """The IDs of transactions that the stream has started to send. Records nothing until ``start``."""

    def __init__(self) -> None:
        self._xids: set[int] = set()
        self._writers: dict[str, set[str]] | None = None

    def add(self, xid: int) -> None:
        self._xids.add(xid)

    def start(self, connection: Connection) -> None:
        """Starts to record, and notes the transactions that run now: it is not known whether they were streamed."""
        self._writers = {}
        self.note_writers(connection)

    def note_writers(self, connection: Connection) -> None:
        """Notes the transactions that write to tables now: their end has to be awaited before the first chunk of these tables."""
        assert self._writers is not None
        for relation, transaction in connection.query(_WRITERS):
            self._writers.setdefault(relation or "", set()).add(transaction or "")

    @property
    def is_started(self) -> bool:
        return self._writers is not None

    def stop(self) -> None:
        self._writers = None
        self._xids.clear()

    def unknown_writers(self, connection: Connection, table_oid: int) -> int:
        """The number of transactions that were noted as writers of the table and still run."""
        assert self._writers is not None
        family = [oid or "" for (oid,) in connection.query(_FAMILY, [table_oid])]
        before = set().union(*(self._writers.get(oid, set()) for oid in family))
        if not before:
            return 0
        now = {transaction for relation, transaction in connection.query(_WRITERS) if relation in family}
        if not (remaining := before & now):
            for oid in family:
                self._writers.pop(oid, None)
        return len(remaining)

    def precedes(self, snapshot: str) -> bool:
        """Whether the stream has sent nothing yet that ``snapshot`` (``xmin:xmax:xip,...``) does not contain."""
        xmin, xmax, running = snapshot.split(":")
        invisible = {int(xid) & _XID_BITS for xid in running.split(",") if xid}
        is_future = _at_or_after(int(xmax))
        if not self._xids.isdisjoint(invisible) or any(map(is_future, self._xids)):
            return False
        is_needed = _at_or_after(int(xmin))
        self._xids = {xid for xid in self._xids if is_needed(xid)}
        return True


def _at_or_after(bound: int) -> Callable[[int], bool]:
    """Compares 32-bit transaction IDs, which wrap around, with the ID ``bound``."""
    return lambda xid: (xid - bound) & _XID_BITS < _HALF
