"""A libpq connection that never blocks the interpreter.

psycopg's thin layer over libpq (``psycopg.pq``) supports SQL, COPY, and the replication stream, so there is one driver, one kind
of error, and one way to wait: on the socket and on an :class:`Interrupt`, with a deadline.
"""

from __future__ import annotations

import contextlib
import math
import select
import threading
import time
from collections.abc import Sequence

from psycopg import pq
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, PollingStatus
from psycopg.pq.abc import PGcancel, PGconn, PGresult

from connect.addresses import address_rules
from connect.errors import ConfigError, ConnectError
from connectors.cdc.errors import ConnectionLostError, QueryTimeoutError, WaitInterrupted
from connectors.cdc.interrupt import Interrupt
from connectors.databases.postgresql.addresses import pin_addresses
from connectors.postgres.config import Address
from connectors.postgres.errors import connection_error, statement_error

CONNECT_TIMEOUT_S = 10.0
_TCP_USER_TIMEOUT_MS = "60000"
"""Sent data that is not acknowledged for this long ends the connection. Without it, Linux retries for 15 minutes."""
_KEEPALIVES = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}
"""A connection on which nothing arrives, such as that of a running query, ends after a minute without a sign of the server.
Without it, Linux waits for two hours."""

# Makes the text of values independent of the server's and the role's settings, in COPY and in the replication stream.
_SESSION = (
    "-c DateStyle=ISO,YMD -c TimeZone=UTC -c IntervalStyle=iso_8601 -c extra_float_digits=1 -c bytea_output=hex "
    "-c lc_monetary=C -c xmloption=content -c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0"
)
# Settings of newer servers, which older ones reject; a role may have them set.
_TIMEOUTS = {"idle_session_timeout": 140000, "transaction_timeout": 170000}


class Connection:
    """A connection. Not thread-safe. Every method may raise ConnectionLostError, and WaitInterrupted after ``set``."""

    def __init__(self, pgconn: PGconn, address: Address, interrupt: Interrupt, query_timeout_s: float = math.inf) -> None:
        self.pgconn = pgconn
        self._query_timeout_s = query_timeout_s
        self.address = address
        self._interrupt = interrupt
        self._poll = select.poll()
        self._poll.register(interrupt.fileno(), select.POLLIN)
        self._fd = -1
        self._watch()

    @classmethod
    def open(
        cls,
        address: Address,
        interrupt: Interrupt,
        *,
        replication: bool = False,
        timeout_s: float = CONNECT_TIMEOUT_S,
        query_timeout_s: float = math.inf,
    ) -> Connection:
        """Connects; ``replication`` opens a walsender session. Raises the errors of :func:`errors.connection_error`."""
        deadline = time.monotonic() + timeout_s
        pgconn = pq.PGconn.connect_start(_conninfo(address, replication))
        connection = cls(pgconn, address, interrupt, query_timeout_s)
        try:
            direction = PollingStatus.WRITING
            while True:
                if pgconn.status == ConnStatus.BAD:
                    raise connection_error(address, _text(pgconn.error_message))
                if direction == PollingStatus.OK:
                    break
                if direction == PollingStatus.FAILED:
                    raise connection_error(address, _text(pgconn.error_message))
                connection._watch()
                if not connection.wait(deadline - time.monotonic(), write=direction == PollingStatus.WRITING):
                    raise connection_error(address, f"no answer within {timeout_s:g} s (timeout expired)")
                direction = PollingStatus(pgconn.connect_poll())
            pgconn.nonblocking = 1
            connection._watch()
            if not replication:
                if settings := [f"SET {name} = 0" for name, since in _TIMEOUTS.items() if pgconn.server_version >= since]:
                    connection.execute("; ".join(settings))
                for statement in address.initial_statements:
                    connection.execute(statement)
        except BaseException:
            connection.close()
            raise
        return connection

    def _watch(self) -> None:
        """Registers libpq's current socket: libpq opens several while it tries addresses and TLS."""
        try:
            fd = self.pgconn.socket
        except Exception:
            return
        if fd != self._fd:
            if self._fd >= 0:
                with contextlib.suppress(KeyError):
                    self._poll.unregister(self._fd)
            self._poll.register(fd, select.POLLIN)
            self._fd = fd

    @property
    def server_version(self) -> int:
        """The version in libpq's form: 150003 is 15.3."""
        return self.pgconn.server_version

    def wait(self, seconds: float, *, write: bool = False) -> bool:
        """Waits for the socket; returns False after a timeout. Raises WaitInterrupted."""
        if self._interrupt.is_set:
            raise WaitInterrupted
        self._poll.modify(self._fd, select.POLLIN | select.POLLOUT if write else select.POLLIN)
        events = self._poll.poll(None if seconds == math.inf else max(0.0, seconds) * 1000)
        if self._interrupt.is_set:
            raise WaitInterrupted
        return bool(events)

    def wait_idle(self, seconds: float) -> None:
        """Waits some time without a query. Raises ConnectionLostError as soon as the server ends the session."""
        deadline = time.monotonic() + seconds
        while self.wait(deadline - time.monotonic()):
            try:
                self.pgconn.consume_input()
                self.pgconn.is_busy()  # passes the server's last message on to the notice handler
            except Exception as e:
                raise self.lost_error() from e
            if self.pgconn.status == ConnStatus.BAD:
                raise self.lost_error()

    def query(
        self, sql: str, params: Sequence[str | int | None] = (), *, timeout_s: float | None = None
    ) -> list[tuple[str | None, ...]]:
        """Runs SQL; returns rows as text. ``params`` fill ``$1``, ``$2``.

        Raises the errors of :func:`errors.statement_error`, and QueryTimeoutError after ``timeout_s``, or the connection's own.
        """
        values = [None if p is None else str(p).encode() for p in params]
        try:
            if values:
                self.pgconn.send_query_params(sql.encode(), values)
            else:
                self.pgconn.send_query(sql.encode())
        except Exception as e:
            raise self.lost_error() from e
        rows: list[tuple[str | None, ...]] = []
        failure: ConnectError | None = None
        deadline = time.monotonic() + (self._query_timeout_s if timeout_s is None else timeout_s)
        while (result := self._next_result(deadline)) is not None:
            status = result.status
            if status == ExecStatus.TUPLES_OK:
                rows = _rows(result)
            elif status in (ExecStatus.COPY_OUT, ExecStatus.COPY_BOTH):
                return rows  # the caller reads the data with get_copy_data
            elif status not in (ExecStatus.COMMAND_OK, ExecStatus.EMPTY_QUERY):
                failure = failure or self._failure(result, sql)
        if failure is not None:
            raise failure
        return rows

    def execute(self, sql: str, params: Sequence[str | int | None] = ()) -> None:
        self.query(sql, params)

    def _wait_for_query(self, deadline: float, *, write: bool = False) -> None:
        if not self.wait(deadline - time.monotonic(), write=write):
            self.cancel()
            raise QueryTimeoutError(
                f"a query on PostgreSQL at {self.address} took longer than database.query.timeout.ms allows: the server is busy, "
                "or the network is interrupted"
            )
        self.pgconn.consume_input()

    def _next_result(self, deadline: float) -> PGresult | None:
        pgconn = self.pgconn
        try:
            while pgconn.flush():
                self._wait_for_query(deadline, write=True)
            while pgconn.is_busy():
                self._wait_for_query(deadline)
            return pgconn.get_result()
        except (ConnectError, WaitInterrupted):
            raise
        except Exception as e:
            raise self.lost_error() from e

    def read_copy(self, max_bytes: float = math.inf) -> bytes:
        """Reads the data of a COPY, and its results. Raises the error that ended it early.

        If there are more than ``max_bytes``, it stops behind the row that exceeds them, and closes the connection.
        """
        parts: list[memoryview] = []
        size = 0
        try:
            while (found := self.pgconn.get_copy_data(1))[0] >= 0:
                if found[0]:
                    if size > max_bytes:
                        self.close()
                        return b"".join(parts)
                    parts.append(found[1])
                    size += found[0]
                else:
                    self.wait(math.inf)
                    self.pgconn.consume_input()
        except (ConnectError, WaitInterrupted):
            raise
        except Exception as e:
            raise self.lost_error() from e
        self.finish_copy()
        return b"".join(parts)

    def finish_copy(self, *, timeout_s: float = 60.0) -> None:
        """Reads the results after the last row of a COPY. Raises the error that ended it early."""
        failure: ConnectError | None = None
        deadline = time.monotonic() + timeout_s
        while (result := self._next_result(deadline)) is not None:
            if result.status == ExecStatus.FATAL_ERROR:
                failure = failure or self._failure(result, "COPY")
        if failure is not None:
            raise failure

    def _failure(self, result: PGresult, sql: str) -> ConnectError:
        state = result.error_field(DiagnosticField.SQLSTATE)
        message = result.error_field(DiagnosticField.MESSAGE_PRIMARY) or result.error_message
        detail = result.error_field(DiagnosticField.MESSAGE_DETAIL) or b""
        if self.pgconn.status == ConnStatus.BAD and not state:
            return self.lost_error()
        return statement_error(self.address, _text(state or b""), _text(message), _text(detail), sql)

    def cancel(self) -> None:
        """Asks the server to cancel the running query. A thread does it, because that takes a connection, which may hang."""
        with contextlib.suppress(Exception):
            handle = self.pgconn.get_cancel()
            threading.Thread(target=_cancel, args=(handle,), name="postgres-cancel", daemon=True).start()

    def lost_error(self) -> ConnectionLostError:
        """The error for a lost connection, with libpq's reason."""
        reason = "closed"
        with contextlib.suppress(Exception):
            reason = _text(self.pgconn.error_message)
        return ConnectionLostError(f"lost the connection to PostgreSQL at {self.address}: {reason or 'closed'}")

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called, or the connection was lost."""
        return bool(self.pgconn.status == ConnStatus.BAD)

    def close(self) -> None:
        """Closes the connection. May be called twice; never raises."""
        with contextlib.suppress(Exception):
            self.pgconn.finish()


def _cancel(handle: PGcancel) -> None:
    with contextlib.suppress(Exception):
        handle.cancel()


def quote_identifier(name: str) -> str:
    """Quotes a name as a SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def quote_name(schema: str, name: str) -> str:
    """Quotes the name of a table with its schema."""
    return f"{quote_identifier(schema)}.{quote_identifier(name)}"


def quote_value(text: str) -> str:
    """Quotes text as a SQL literal, whatever the server's ``standard_conforming_strings``."""
    quoted = text.replace("'", "''")
    return "E'" + quoted.replace("\\", "\\\\") + "'" if "\\" in text else f"'{quoted}'"


def is_standby(connection: Connection) -> bool:
    """Whether the server is a standby now."""
    return connection.query("select pg_is_in_recovery()")[0][0] == "t"


def quote_literal(text: str) -> str:
    """Quotes text for a replication command, which has no parameters and no backslash escapes."""
    return "'" + text.replace("'", "''") + "'"


def _rows(result: PGresult) -> list[tuple[str | None, ...]]:
    columns = range(result.nfields)
    get = result.get_value
    return [tuple(None if (v := get(row, column)) is None else v.decode() for column in columns) for row in range(result.ntuples)]


def _text(message: bytes | str) -> str:
    text = message if isinstance(message, str) else message.decode("utf-8", "replace")
    return " ".join(text.split())


def _conninfo(address: Address, replication: bool) -> bytes:
    parameters = {
        "host": address.host,
        "port": str(address.port),
        "user": address.user,
        "dbname": address.database,
        "client_encoding": "UTF8",
        "application_name": "sluice",
        "options": _SESSION,
        "keepalives": "1" if address.tcp_keep_alive else "0",
        **_KEEPALIVES,
        "tcp_user_timeout": _TCP_USER_TIMEOUT_MS,
        **dict(address.ssl),
    }
    if address.password is not None:
        parameters["password"] = address.password.value
    if address.ssl_password is not None:
        parameters["sslpassword"] = address.ssl_password.value
    if replication:
        parameters["replication"] = "database"
    try:
        parameters |= pin_addresses(address_rules(), address.host, str(address.port))
    except ConfigError as e:
        raise ConfigError(e.message, key="database.hostname") from e
    except OSError as e:
        raise connection_error(address, f'could not translate host name "{address.host}" to address: {e.strerror}') from e
    return " ".join(f"{name}={_conninfo_value(value)}" for name, value in parameters.items()).encode()


def _conninfo_value(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
