"""Tables that a writer changes all the time, so that their topics show what is missing or in the wrong order.

``counters(id, n, note)``: every update increments ``n``. ``events(n)`` has no key: each insert is an event with the next number.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import md5
from typing import Any

import psycopg
import pymysql

from connectors.mysql.errors import error_number
from sluice.embedded.mariadb import EmbeddedMariaDB
from sluice.embedded.postgres import EmbeddedPostgres
from tests.support.background import BackgroundWriter
from tests.support.waiting import WAIT_S

_SHUTDOWN, _KILLED = 1053, 1927
_FIRST_OF_CLIENT = 2000


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs between servers."""

    create: tuple[str, ...]
    """Statements that create the tables and 1,000 counters with long notes, after ``{rows}`` others."""
    position: str
    """Selects where the log is after a commit."""
    sessions: str
    is_lost: Callable[[Exception], bool]
    """Whether a connection is lost: other errors end the work."""
    alterations: tuple[tuple[int, int, str], ...] = ()
    """DDL before the changes whose numbers have this remainder (second) modulo the first number."""


POSTGRES = Dialect(
    create=(
        "CREATE TABLE counters(id bigint PRIMARY KEY, n bigint NOT NULL, note text)",
        "ALTER TABLE counters ALTER COLUMN note SET STORAGE EXTERNAL",
        "CREATE TABLE events(n bigint NOT NULL)",
        "INSERT INTO counters SELECT i, 1, repeat(md5(i::text), 100) FROM generate_series(0, 999) i",
        "INSERT INTO counters SELECT i, 1, 'old' FROM generate_series(-{rows}::bigint, -1) i",
    ),
    position="SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint",
    sessions="SELECT pid, state, query FROM pg_stat_activity",
    is_lost=lambda error: isinstance(error, psycopg.OperationalError),
)
MARIADB = Dialect(
    create=(
        "CREATE TABLE counters(id bigint PRIMARY KEY, n bigint NOT NULL, note text)",
        "CREATE TABLE events(n bigint NOT NULL, KEY (n))",
        "INSERT INTO counters SELECT seq, 1, REPEAT(MD5(seq), 100) FROM seq_0_to_999",
        "INSERT INTO counters SELECT -seq, 1, 'old' FROM seq_1_to_{rows}",
    ),
    # The sequence number in the server's only domain.
    position="SELECT CAST(SUBSTRING_INDEX(@@last_gtid, '-', -1) AS UNSIGNED)",
    sessions="SELECT id, command, time, state, info FROM information_schema.processlist",
    is_lost=lambda error: (
        isinstance(error, pymysql.err.Error)
        and ((number := error_number(error)) in (0, _SHUTDOWN, _KILLED) or number >= _FIRST_OF_CLIENT)
    ),
    alterations=(
        # A table keeps the columns that were dropped until it is rebuilt, and may have 1,017 with them.
        (8_000, 0, "ALTER TABLE counters FORCE"),
        (40, 0, "ALTER TABLE counters ADD COLUMN IF NOT EXISTS extra int NOT NULL DEFAULT 7 FIRST"),
        (40, 20, "ALTER TABLE counters DROP COLUMN IF EXISTS extra"),
    ),
)


class NumberedTables:
    """The tables in a new database. ``connect`` opens a connection with autocommit."""

    def __init__(self, dialect: Dialect, connect: Callable[[], Any], rows: int) -> None:
        self.dialect = dialect
        self.connect = connect
        for sql in dialect.create:
            self.query(sql.format(rows=rows))

    @classmethod
    def in_postgres(cls, server: EmbeddedPostgres, database: str, rows: int) -> NumberedTables:
        """Another server may take over the address, once it is the primary."""
        dsn = f"{server.dsn(database)} target_session_attrs=read-write"
        return cls(POSTGRES, partial(psycopg.connect, dsn, autocommit=True, connect_timeout=int(WAIT_S)), rows)

    @classmethod
    def in_mariadb(cls, server: EmbeddedMariaDB, database: str, rows: int) -> NumberedTables:
        return cls(MARIADB, partial(server.connect, database, connect_timeout=int(WAIT_S)), rows)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Runs a statement and returns its rows."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

    def numbers(self) -> list[int]:
        """The numbers of all events."""
        return [n for (n,) in self.query("SELECT n FROM events ORDER BY n")]


class CommittedChanges:
    """Commits numbered changes on a thread until it is stopped; survives restarts of the server."""

    def __init__(self, tables: NumberedTables) -> None:
        self._tables = tables
        self._writer = BackgroundWriter("committed-changes", self._run)
        self.start, self.stop = self._writer.start, self._writer.stop
        self._gate, self._lock = threading.Lock(), threading.Lock()
        self._positions: dict[int, int] = {}
        """Where the log is after the commit of each number."""
        self.committed = 0

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Commits nothing meanwhile."""
        with self._gate:
            yield

    def numbers_until(self, end: int, start: int = -1) -> set[int]:
        """The numbers whose transactions are before a position, and began after ``start``."""
        with self._lock:
            return {n for n, at in self._positions.items() if at <= end and self._positions.get(n - 1, -1) >= start}

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                with closing(self._tables.connect()) as connection, connection.cursor() as cursor:
                    cursor.execute("SELECT coalesce(max(n), 0) FROM events")
                    (n,) = cursor.fetchone()  # a commit counts even if a restart lost its response
                    while not stop.is_set():
                        with self._gate:
                            n += 1
                            self._commit(cursor, n)
                            self.committed += 1
                        stop.wait(0.02)
            except Exception as e:
                if not self._tables.dialect.is_lost(e):
                    raise
                stop.wait(0.2)

    def _commit(self, cursor: Any, n: int) -> None:
        """Commits the event of the number, with changes of counters."""
        for every, remainder, sql in self._tables.dialect.alterations:
            if n % every == remainder:
                cursor.execute(sql)
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO events VALUES (%s)", (n,))
        cursor.execute("UPDATE counters SET n = n + 1 WHERE id BETWEEN %s AND %s", (n % 50, n % 50 + 3))
        if n % 5 == 0:
            note = md5(str(n).encode(), usedforsecurity=False).hexdigest() * 100
            cursor.execute("INSERT INTO counters(id, n, note) VALUES (%s, 1, %s)", (1000 + n, note))
        if n % 7 == 0:
            cursor.execute("DELETE FROM counters WHERE id = %s", (1000 + n - n % 5 - 10,))
        if n % 11 == 0:
            cursor.execute("UPDATE counters SET id = id + 1000000 WHERE id = %s", (1000 + n - n % 5 - 5,))
        cursor.execute("COMMIT")
        cursor.execute(self._tables.dialect.position)
        (position,) = cursor.fetchone()
        with self._lock:
            self._positions[n] = int(position)


def assert_versions_in_order(changes: Iterable[Mapping[str, Any] | None]) -> None:
    """Per counter, versions first appear in the order they were committed in, none left out after the first that was seen."""
    seen: dict[int, int] = {}
    for change in changes:
        if change is None or change["after"] is None:
            continue
        key, version = change["after"]["id"], change["after"]["n"]
        latest = seen.get(key)
        if latest is None or version > latest:
            # Only a snapshot shows a row without the versions between.
            known = latest is None or version == latest + 1 or change["op"] == "r"
            assert known, f"row {key}: version {version} came after {latest}"
            seen[key] = version
