"""Uses libpq beneath psycopg for statements, COPY, and streamed results without a Python call per value.

psycopg's connection remains the owner: it starts the transaction (with its isolation level) and is idle between these calls. All
waits are on the socket, without the GIL. Errors are psycopg's; the session translates them.
"""

from __future__ import annotations

import contextlib
import select
from collections.abc import Sequence
from enum import Enum
from typing import Any

import psycopg
from psycopg import generators, pq, waiting
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from connectors.jdbc.connection.session import DriverSession

_COPY_CHUNK = 1 << 18
_END_S = 30.0
_CANCEL_S = 2.0


class ServerKind(Enum):
    """The product that speaks PostgreSQL's protocol."""

    POSTGRES = "PostgreSQL"
    COCKROACH = "CockroachDB"
    REDSHIFT = "Redshift"


def server_kind(session: DriverSession) -> ServerKind:
    """Detects the product by the parameters that the server sent when the connection opened, without a query."""
    pgconn: PGconn = session.driver.pgconn
    if pgconn.parameter_status(b"crdb_version"):
        return ServerKind.COCKROACH
    # Redshift is a fork of PostgreSQL 8 and reports that version.
    return ServerKind.REDSHIFT if pgconn.server_version < 90_000 else ServerKind.POSTGRES


def begin(session: DriverSession) -> PGconn:
    """Returns the connection within a transaction that both SQLAlchemy and psycopg know about."""
    if not session.connection.in_transaction():
        session.connection.begin()
    driver: psycopg.Connection[Any] = session.driver
    if driver.info.transaction_status == TransactionStatus.IDLE:
        driver.execute("SELECT 1")  # psycopg first sends BEGIN with the isolation level
    return driver.pgconn


def run(pgconn: PGconn, sql: str) -> None:
    """Runs statements that return no rows. Raises psycopg.Error."""
    pgconn.send_query(sql.encode())
    _require_success(results(pgconn))


def describe(pgconn: PGconn, sql: str) -> PGresult:
    """Describes the columns of a query without running it."""
    pgconn.send_prepare(b"", sql.encode())
    _require_success(results(pgconn))
    pgconn.send_describe_prepared(b"")
    return _require_success(results(pgconn))[0]


def start_copy(pgconn: PGconn, sql: str) -> None:
    """Starts a COPY, so that rows can be read or sent."""
    pgconn.send_query(sql.encode())
    found = results(pgconn)
    if found[-1].status not in (ExecStatus.COPY_IN, ExecStatus.COPY_OUT):
        _require_success(found)
        raise psycopg.ProgrammingError("the server did not take the COPY as one")


def send_copy(pgconn: PGconn, rows: bytes) -> int:
    """Sends all rows of a COPY FROM STDIN and ends it. Returns the number of rows that the server wrote."""
    view = memoryview(rows)
    for at in range(0, len(view), _COPY_CHUNK):
        while pgconn.put_copy_data(view[at : at + _COPY_CHUNK]) == 0:
            _wait(pgconn, write=True)
        flush(pgconn)
    while pgconn.put_copy_end() == 0:
        _wait(pgconn, write=True)
    return _require_success(results(pgconn))[0].command_tuples or 0


def end_copy_out(pgconn: PGconn) -> None:
    """Reads the result after the last row. Raises the error if one ended the COPY early."""
    _require_success(results(pgconn))


def stream(pgconn: PGconn, sql: str, rows: int) -> None:
    """Runs a query whose result arrives in chunks of ``rows``: call :func:`next_result` until it returns None."""
    pgconn.send_query(sql.encode())
    if pq.version() >= 170_000 and pq.__build_version__ >= 170_000:
        pgconn.set_chunked_rows_mode(rows)
    else:
        pgconn.set_single_row_mode()


def next_result(pgconn: PGconn) -> PGresult | None:
    """Returns the next result, None after the last. Raises the server's error."""
    result = _next(pgconn)
    if result is not None and result.status == ExecStatus.FATAL_ERROR:
        raise error_from_result(result)
    return result


def results(pgconn: PGconn) -> list[PGresult]:
    """Returns all results of what was sent, errors included; stops where a COPY starts."""
    found: list[PGresult] = []
    while True:
        try:
            result = _next(pgconn)
        except psycopg.Error:
            if any(one.status == ExecStatus.FATAL_ERROR for one in found):
                return found  # the server reported the cause before it closed the connection
            raise
        if result is None:
            return found
        found.append(result)
        if result.status in (ExecStatus.COPY_IN, ExecStatus.COPY_OUT):
            return found


def _next(pgconn: PGconn) -> PGresult | None:
    flush(pgconn)
    while pgconn.is_busy():
        _wait(pgconn)
        pgconn.consume_input()
    while pgconn.notifies():
        pass
    return pgconn.get_result()


def flush(pgconn: PGconn) -> None:
    """Sends what libpq has buffered. Reads meanwhile, because a server may block until its output is read."""
    while pgconn.flush():
        if _wait(pgconn, write=True) & select.POLLIN:
            pgconn.consume_input()


def wait_readable(pgconn: PGconn, seconds: float | None = None) -> bool:
    """Waits for something to read. Returns False on a timeout."""
    return bool(_wait(pgconn, seconds=seconds))


def _wait(pgconn: PGconn, *, write: bool = False, seconds: float | None = None) -> int:
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLIN | select.POLLOUT if write else select.POLLIN)
    events = poll.poll(None if seconds is None else max(0.0, seconds) * 1000)
    return events[0][1] if events else 0


def _require_success(found: Sequence[PGresult]) -> list[PGresult]:
    for result in found:
        if result.status in (ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE):
            raise error_from_result(result)
    if not found:
        raise psycopg.OperationalError("the server closed the connection without a response")
    return list(found)


def cancel(pgconn: PGconn) -> None:
    """Asks the server, over a new connection, to cancel the running statement. Thread-safe, raises nothing. With libpq 17 and
    newer, it gives up after a short time if the server does not respond."""
    with contextlib.suppress(Exception):
        if not psycopg.capabilities.has_cancel_safe():
            pgconn.get_cancel().cancel()
            return
        request = pgconn.cancel_conn()
        request.start()
        waiting.wait_conn(generators.cancel(request), interval=0.1, timeout=_CANCEL_S)


def discard(pgconn: PGconn) -> None:
    """Discards the remaining output of a canceled statement. Raises psycopg.Error if the connection is lost or silent for too
    long."""
    while True:
        while pgconn.is_busy():
            _wait_for_end(pgconn)
        result = pgconn.get_result()
        if result is None:
            return
        if result.status != ExecStatus.COPY_OUT:
            continue
        while True:
            length, _ = pgconn.get_copy_data(1)
            if length == 0:
                _wait_for_end(pgconn)
            elif length < 0:
                break


def _wait_for_end(pgconn: PGconn) -> None:
    if not _wait(pgconn, seconds=_END_S):
        raise psycopg.OperationalError(f"the server did not end a canceled query within {_END_S:g} s")
    pgconn.consume_input()
