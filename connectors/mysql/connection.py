"""A PyMySQL connection whose every wait ends at a deadline, and when the task stops."""

from __future__ import annotations

import contextlib
import math
import re
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pymysql

from connect.errors import ConfigError, ConnectError
from connect.tls import load_identity, load_trust
from connectors.cdc.errors import QueryTimeoutError, WaitInterrupted
from connectors.cdc.interrupt import Interrupt
from connectors.databases.mysql.connections import connect_pymysql
from connectors.databases.mysql.protocol import ResultStream
from connectors.mysql.config import MySqlAddress, TlsSettings
from connectors.mysql.errors import MySqlServerError, connection_error, lost_error, missing_package_error, statement_error
from connectors.mysql.interruptible_socket import DeadlinePassed, InterruptibleSocket, TlsContext, open_socket, resolve_host

_KILL_TIMEOUT_S: Final = 10.0
_STOP_TIMEOUT_S: Final = 60.0
"""More than the two steps of a KILL over another connection."""
# Makes the text of values independent of the server's and the user's settings, and lets a slow reader finish. PyMySQL sets
# the character set.
_SESSION: Final = (
    "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES', sql_quote_show_create = 1, sql_safe_updates = 0, "
    "sql_select_limit = 18446744073709551615, net_write_timeout = 3600, net_read_timeout = 600, wait_timeout = 28800, "
    "autocommit = 1"
)
_NO_LIMIT_MARIADB: Final = "SET SESSION max_statement_time = 0"
_NO_LIMIT_MYSQL: Final = "SET SESSION max_execution_time = 0"
_UNKNOWN_VARIABLE: Final = 1193
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


class MySqlConnection:
    """A connection. Not thread-safe. Every method may raise ConnectionLostError, and WaitInterrupted after ``set``.

    ``driver`` is PyMySQL's connection, for code that reads the protocol itself; use it inside :meth:`guarded`.
    """

    def __init__(self, driver: Any, address: MySqlAddress, interrupt: Interrupt, query_timeout_s: float) -> None:
        self.driver = driver
        self.address = address
        self.interrupt = interrupt
        self._query_timeout_s = query_timeout_s

    @classmethod
    def open(
        cls,
        address: MySqlAddress,
        interrupt: Interrupt,
        *,
        timeout_s: float | None = None,
        query_timeout_s: float = math.inf,
        runs_initial_statements: bool = True,
    ) -> MySqlConnection:
        """Connects, authenticates, and sets the session up, in ``timeout_s`` (default: ``connect.timeout.ms``).

        Raises the errors of :func:`errors.connection_error`, and ConfigError for key stores that cannot be read.
        """
        limit = address.connect_timeout_s if timeout_s is None else timeout_s
        connection = cls(_connect(address, interrupt, limit), address, interrupt, query_timeout_s)
        try:
            connection.execute(_SESSION, timeout_s=limit)
            connection._remove_time_limit(limit)
            for statement in address.initial_statements if runs_initial_statements else ():
                connection.execute(statement)
        except BaseException:
            connection.close()
            raise
        return connection

    def _remove_time_limit(self, timeout_s: float) -> None:
        try:
            self.execute(_NO_LIMIT_MARIADB if self.is_mariadb else _NO_LIMIT_MYSQL, timeout_s=timeout_s)
        except MySqlServerError as e:
            if e.number != _UNKNOWN_VARIABLE:  # servers before MySQL 5.7.8 and MariaDB 10.1
                raise

    @property
    def version_text(self) -> str:
        """The server's version as it reports it, such as ``8.0.36`` or ``11.4.5-MariaDB-log``."""
        return str(self.driver.get_server_info()).removeprefix("5.5.5-")

    @property
    def is_mariadb(self) -> bool:
        return "mariadb" in self.version_text.lower()

    @property
    def version(self) -> tuple[int, int, int]:
        """The version as numbers, for comparisons; zeros if the server reports none."""
        found = _VERSION.match(self.version_text)
        return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else (0, 0, 0)

    @property
    def thread_id(self) -> int:
        """The server's number for this connection."""
        return int(self.driver.thread_id())

    @property
    def socket(self) -> InterruptibleSocket:
        """The socket, for code that reads the stream of the binary log. Raises ConnectionLostError if it is closed."""
        link = self.driver._sock
        if link is None:
            raise lost_error(self.address, "closed")
        assert isinstance(link, InterruptibleSocket)
        return link

    def query(
        self, sql: str, params: Sequence[str | int | None] = (), *, timeout_s: float | None = None
    ) -> list[tuple[str | None, ...]]:
        """Runs SQL; returns rows as text. ``params`` replace each ``%s``.

        Raises the errors of :func:`errors.statement_error`, and QueryTimeoutError after ``timeout_s``, or the connection's own.
        Then the connection is closed, and the server is asked to end the query.
        """
        if params:
            sql = sql % tuple(map(quote_value, params))
        with self.guarded(sql, self._query_timeout_s if timeout_s is None else timeout_s):
            self.driver.query(sql)
            result = self.driver._result
            return [tuple(map(_as_text, row)) for row in result.rows or ()]

    def execute(self, sql: str, params: Sequence[str | int | None] = (), *, timeout_s: float | None = None) -> None:
        """Runs SQL without a result; see :meth:`query`."""
        self.query(sql, params, timeout_s=timeout_s)

    def stream(self, sql: str) -> ResultStream:
        """Runs a query and returns its rows as a stream, without a time limit. Read it inside :meth:`guarded`, and call
        :meth:`stop` unless it has ended."""
        with self.guarded(sql):
            return ResultStream(self.driver, sql)

    def stop(self, stream: ResultStream) -> None:
        """Ends a stream before its last row. Afterwards, the connection can be used again, or is closed. Raises nothing."""
        link = self.driver._sock
        if link is not None:
            link.deadline = time.monotonic() + _STOP_TIMEOUT_S
        stream.stop(lambda: _kill(self.address, self.thread_id, "QUERY"))
        if link is not None:
            link.deadline = math.inf

    @contextlib.contextmanager
    def guarded(self, sql: str, timeout_s: float = math.inf) -> Iterator[None]:
        """Limits the time of the block, and translates PyMySQL's errors. ``sql`` is for messages."""
        link = self.socket
        link.deadline = time.monotonic() + timeout_s
        try:
            yield
        except ConnectError:
            raise
        except WaitInterrupted:
            self.cancel()  # a statement that waits for locks would block others until it gets them
            raise
        except DeadlinePassed as e:
            self.cancel()
            raise QueryTimeoutError(
                f"a query on {self.address.where} took longer than database.query.timeout.ms allows: the server is "
                "busy, or the network is interrupted"
            ) from e
        except (pymysql.err.MySQLError, OSError) as e:
            raise statement_error(self.address, e, sql) from e
        finally:
            link.deadline = math.inf

    def wait_idle(self, seconds: float) -> None:
        """Waits some time without a query. Raises ConnectionLostError as soon as the server ends the session."""
        deadline = time.monotonic() + seconds
        byte = bytearray(1)
        while self.socket.wait(deadline):
            # TLS has messages of its own, which are no data.
            try:
                count = self.socket.recv_available(byte)
            except OSError as e:
                self.close()
                raise lost_error(self.address, e) from e
            if count >= 0:
                self.close()
                raise lost_error(self.address, "the server ended the session")

    def cancel(self) -> None:
        """Closes the connection and asks the server to end what it does. A thread does that, because it takes another connection,
        which may hang."""
        number = self.thread_id
        self.close()
        threading.Thread(target=_kill, args=(self.address, number, "CONNECTION"), name="mysql-cancel", daemon=True).start()

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called, or the connection was lost."""
        return not self.driver.open

    def close(self) -> None:
        """Closes the connection. May be called twice; never raises, and never waits."""
        with contextlib.suppress(Exception):
            self.driver._force_close()


def _connect(address: MySqlAddress, interrupt: Interrupt, timeout_s: float) -> Any:
    deadline = time.monotonic() + timeout_s

    def open_link(host: str, port: int, _: float | None, source: tuple[str, int] | None) -> InterruptibleSocket:
        # Names are resolved anew at each attempt, as after a failover.
        addresses = resolve_host(host, port, deadline, interrupt)
        return open_socket(addresses, port, deadline, interrupt, keep_alive=address.keep_alive)

    context = build_tls_context(address.tls)
    security = {"ssl_disabled": True} if context is None else {"ssl": context if address.tls.mode != "preferred" else None}
    try:
        driver = connect_pymysql(
            host=address.host,
            port=address.port,
            user=address.user,
            # PyMySQL would encode text as Latin-1; servers and other clients use UTF-8.
            password=address.password.value.encode() if address.password is not None else b"",
            charset="utf8mb4",
            conv={},
            program_name="sluice",
            autocommit=None,
            open_socket=open_link,
            tls_context=None if context is None else TlsContext(context),
            **security,
        )
    except (ConnectError, WaitInterrupted) as e:
        if isinstance(e, ConfigError) and e.key is None:
            raise ConfigError(e.message, key="database.hostname") from e
        raise
    except DeadlinePassed as e:
        raise connection_error(address, TimeoutError(f"no answer within connect.timeout.ms ({timeout_s:g} s)")) from e
    except (pymysql.err.MySQLError, OSError) as e:
        raise connection_error(address, e) from e
    except RuntimeError as e:
        if (missing := missing_package_error(address, e)) is not None:
            raise missing from e
        raise
    driver._sock.deadline = math.inf
    return driver


def build_tls_context(tls: TlsSettings) -> ssl.SSLContext | None:
    """Builds the TLS context of ``database.ssl.mode``; None for disabled. Raises ConfigError for stores that cannot be used."""
    if tls.mode == "disabled":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The certificates that MySQL generates itself have no key usage, which Python 3.13 rejects.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    context.check_hostname = tls.mode == "verify_identity"
    context.verify_mode = ssl.CERT_REQUIRED if tls.mode.startswith("verify") else ssl.CERT_NONE
    if tls.key_store.is_given:
        load_identity(context, tls.key_store)
    if context.verify_mode == ssl.CERT_REQUIRED:
        # As in Java, the store replaces the system's certificates.
        if tls.trust_store.is_given:
            load_trust(context, tls.trust_store)
        else:
            context.load_default_certs()
    return context


def _kill(address: MySqlAddress, number: int, what: str) -> None:
    """Ends the query of a connection, or the connection (``what``), over another connection. Raises nothing."""
    interrupt = Interrupt()
    try:
        with contextlib.suppress(ConnectError, WaitInterrupted, pymysql.err.MySQLError, OSError, DeadlinePassed):
            driver = _connect(address, interrupt, _KILL_TIMEOUT_S)
            try:
                driver._sock.deadline = time.monotonic() + _KILL_TIMEOUT_S
                driver.query(f"KILL {what} {number:d}")
            finally:
                driver._force_close()
    finally:
        interrupt.close()


def quote_identifier(name: str) -> str:
    """Quotes a name as a SQL identifier."""
    return "`" + name.replace("`", "``") + "`"


def quote_name(database: str, name: str) -> str:
    """Quotes the name of a table with its database."""
    return f"{quote_identifier(database)}.{quote_identifier(name)}"


def quote_value(value: str | int | None) -> str:
    """Returns a SQL literal; sessions of :class:`MySqlConnection` have backslash escapes."""
    if value is None:
        return "NULL"
    if isinstance(value, int):
        return str(value)
    escaped = value.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0")
    return f"'{escaped}'"


def _as_text(value: Any) -> str | None:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
