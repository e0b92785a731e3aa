"""Errors of the database, translated to errors that name the cause, the server, and what to do.

The class decides what happens next: ConnectionLostError is retriable, PositionLostError needs a new snapshot (or a restored
server), and other errors fail the task.
"""

from __future__ import annotations

import re
import ssl
from typing import Any

from pymysql.err import InterfaceError, InternalError, OperationalError

from connect.errors import ConfigError, ConnectError, MissingExtraError, UnreachableError, UnsupportedError
from connectors.cdc.errors import ConnectionLostError, PositionLostError, QueryTimeoutError, RejectedStatementError
from connectors.mysql.config import MySqlAddress


class MySqlServerError(RejectedStatementError):
    """An error that the server reported; ``number`` is its number."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


class ServerReplacedError(PositionLostError):
    """The server is another one than that of the stored position, or it lost transactions."""


class DuplicateServerIdError(ConnectError):
    """Another replica connected with the server ID of this connector. Not retriable: that would disconnect the other one."""


_LOST = frozenset(
    (1040, 1042, 1043, 1047, 1053, 1077, 1080, 1152, 1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161, 1184, 1203, 1226, 1927, 2001,
     2002, 2003, 2004, 2005, 2006, 2012, 2013, 2055, 3169, 3546, 4031)
)  # fmt: skip
"""Lost connections, KILL (1927, 3169), shutdown (1053), too many connections (1040, 1203, 1226), idle too long (4031), a node of
Galera that is not ready (1047)."""
_TOO_MANY = frozenset((1040, 1203, 1226))
_TIMEOUT = frozenset((1317, 1907, 1969, 3024))
_NO_PRIVILEGE = frozenset((1044, 1095, 1142, 1143, 1227, 1370, 1873))
_PLUGIN = frozenset((1251, 1524, 2054, 2058, 2059, 2061, 3955))
_INSECURE = frozenset((3159, 4111))
_LOCKED = frozenset((1820, 1862, 3118, 4151))
_BINLOG = frozenset((1236, 1945, 1946, 1955))
_OF_PROTOCOL = (OSError, InterfaceError, InternalError, OperationalError)
"""Errors of the socket, and PyMySQL's about packets, which have no number."""
_CLOSED = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
"""The connection broke during TLS."""
_PRIVILEGES = re.compile(r"the (.+?) privilege")

SUPPORTED_PLUGINS = "mysql_native_password, caching_sha2_password, sha256_password, and MariaDB's ed25519"


def error_number(error: BaseException) -> int:
    """Returns the number of an error of PyMySQL; 0 if it has none, and for errors of sockets, whose numbers are the system's."""
    first = error.args[0] if error.args and not isinstance(error, OSError) else None
    return first if isinstance(first, int) else 0


def error_text(error: BaseException) -> str:
    """Returns the text of an error of PyMySQL or a socket, in one line."""
    text = error.args[1] if error_number(error) and len(error.args) > 1 else error
    return " ".join(str(text).split()) or type(error).__name__


def connection_error(address: MySqlAddress, error: BaseException) -> ConnectError:
    """Translates the error of a failed connection attempt."""
    number, reason = error_number(error), error_text(error)
    where = address.server
    original = getattr(error, "original_exception", None) or error
    if (isinstance(original, ssl.SSLError) and not isinstance(original, _CLOSED)) or number == 2026:
        return ConfigError(
            f"no TLS connection to {where}: check database.ssl.mode, database.ssl.truststore, and database.ssl.keystore. "
            f"{reason}",
            key="database.ssl.mode",
        )
    if number in (1045, 1698):
        return ConfigError(
            f"{where} rejected the password of user {address.user}: check database.user and database.password, and the user's "
            f"hosts. {reason}",
            key="database.password",
        )
    if number == 1130:
        return ConfigError(
            f"{where} accepts no connections from this host: CREATE USER '{address.user}'@'<this host>', or another value of "
            f"database.hostname. {reason}",
            key="database.hostname",
        )
    if number == 1129:
        return ConnectionLostError(f"{where} blocks this host after failed connections, until FLUSH HOSTS: {reason}")
    if number in _INSECURE or "insecure transport" in reason:
        return ConfigError(f"{where} requires TLS: set database.ssl.mode to required. {reason}", key="database.ssl.mode")
    if number in _LOCKED:
        return ConfigError(
            f"{where} does not let user {address.user} in until an administrator changes it: {reason}", key="database.user"
        )
    if number in _PLUGIN or "Authentication plugin" in reason:
        return ConfigError(
            f"user {address.user} of {where} has an unsupported authentication plugin; supported are {SUPPORTED_PLUGINS}. "
            f"{reason}",
            key="database.user",
        )
    if number in _TOO_MANY:
        return ConnectionLostError(
            f"{where} temporarily accepts no connections: {reason} (error {number}); raise max_connections, or the user's limit"
        )
    if number and number not in _LOST:
        return MySqlServerError(f"{where} refused the connection: {reason} (error {number})", number)
    if number in (1053, 1077, 1047):
        return ConnectionLostError(f"{where} temporarily accepts no connections: {reason}")
    return UnreachableError(
        f"cannot reach {where}: {reason}; check database.hostname, database.port, and that the server is running"
    )


def missing_package_error(address: MySqlAddress, error: RuntimeError) -> MissingExtraError | None:
    """Translates PyMySQL's error about a package that the user's authentication plugin needs; None if it is another one."""
    reason = error_text(error)
    if not any(package in reason for package in ("cryptography", "pynacl")):
        return None
    return MissingExtraError(
        f"user {address.user} of {address.server} authenticates by a plugin that needs another package: {reason}",
        key="database.user",
    )


def statement_error(address: MySqlAddress, error: BaseException, sql: str) -> ConnectError:
    """Translates the error of a failed statement."""
    number, reason = error_number(error), error_text(error)
    where, what = address.where, first_words(sql)
    if number in _NO_PRIVILEGE:
        return _privilege_error(address, number, reason, what)
    if number in _TIMEOUT:
        return QueryTimeoutError(f"{where} canceled {what}: {reason} (error {number})")
    if number in _LOST or (number == 0 and isinstance(error, _OF_PROTOCOL)):
        return ConnectionLostError(f"lost the connection to {where} during {what}: {reason or 'closed'}")
    if number in _BINLOG:
        return binlog_error(address, number, reason)
    hint = ""
    if number == 1205:
        hint = "; another transaction holds the lock: end it, or raise snapshot.lock.timeout.ms"
    elif number in (1290, 1836):
        hint = "; the server is read-only: connect to the primary, or use read.only=true for incremental snapshots"
    elif number == 1146:
        hint = "; it was dropped or renamed, or the user has no privilege for it"
    return MySqlServerError(f"{where} rejected {what}: {reason} (error {number}){hint}", number)


def _privilege_error(address: MySqlAddress, number: int, reason: str, what: str) -> ConfigError:
    """Names the GRANT that helps. The server names global privileges; for tables it names the statement."""
    found = _PRIVILEGES.search(reason)
    if found is not None and number == 1227:
        # "the SUPER, REPLICATION CLIENT privilege(s)": the last one is the least.
        names = [name for part in found[1].split(",") if (name := part.strip()) and name != "SUPER"] or ["SUPER"]
        grant = f"GRANT {names[-1]} ON *.* TO '{address.user}'"
    elif number == 1044:
        grant = f"GRANT SELECT, LOCK TABLES ON <database>.* TO '{address.user}'"
    else:
        word = reason.split(" ", 1)[0]
        grant = f"GRANT {word if word.isupper() else 'SELECT'} ON <database>.<table> TO '{address.user}'"
    return ConfigError(
        f"user {address.user} of {address.where} lacks a privilege for {what}: {grant}. {reason} (error {number})",
        key="database.user",
    )


def binlog_error(address: MySqlAddress, number: int, reason: str, requested: str = "") -> ConnectError:
    """Translates the error with which the server ends a stream of the binary log. ``requested`` names where it was to begin."""
    text = reason.lower()
    where = address.where
    start = f" from {requested}" if requested else ""
    shown = f"{reason} (error {number})"
    if "same server_uuid" in text or "same server_id" in text or number == 4052:
        return DuplicateServerIdError(f"another replica with the server ID of this connector connected to {where}: {shown}")
    if number in _NO_PRIVILEGE or (number == 1045 and "privilege" in text):
        return _privilege_error(address, 1227, reason, "reading the binary log")
    if "max_allowed_packet" in text:
        return ConfigError(
            f"an event in the binary log of {where} is larger than its max_allowed_packet: raise it with SET GLOBAL "
            f"max_allowed_packet (MariaDB: also slave_max_allowed_packet). {shown}",
            key="database.hostname",
        )
    if "checksum" in text:
        return UnsupportedError(f"{where} uses checksums of the binary log that this connector does not understand: {shown}")
    if "binary log is not open" in text or "log_bin" in text:
        return ConfigError(
            f"{where} writes no binary log: set log_bin, binlog_format=ROW, and server_id, and restart it. {shown}",
            key="database.hostname",
        )
    if "server_id was not set" in text or "server id not set" in text:
        return ConfigError(f"{where} has no server_id: set it to 1 or more. {shown}", key="database.hostname")
    if (
        "more gtids than" in text
        or number in (1945, 1955)
        or "not in the master's binlog" in text
        or "diverged" in text
        or "impossible position" in text
        or "> file size" in text
    ):
        return ServerReplacedError(
            f"the binary log of {where} does not have the position of this connector{start}: the server was replaced or "
            f"restored, or it lost transactions. Take a new snapshot (snapshot.mode=when_needed), or connect to the server that "
            f"has the position. {shown}"
        )
    if "purged" in text or "could not find first log file" in text or "could not find gtid state" in text:
        return PositionLostError(
            f"{where} no longer has the binary log{start}: it was removed before the connector read it. Take a new snapshot "
            f"(snapshot.mode=when_needed), and keep logs longer (binlog_expire_logs_seconds, expire_logs_days). {shown}"
        )
    if number in _LOST or number == 0:
        return ConnectionLostError(f"lost the connection to {where} while reading its binary log: {reason or 'closed'}")
    return MySqlServerError(f"{where} ended the stream of its binary log{start}: {shown}", number)


def first_words(sql: str) -> str:
    """Returns the beginning of a statement in one line, for messages."""
    text = " ".join(sql.split())
    return text if len(text) <= 80 else text[:77] + "..."


def lost_error(address: MySqlAddress, reason: Any) -> ConnectionLostError:
    """The error for a connection that broke without a message of the server."""
    return ConnectionLostError(f"lost the connection to {address.where}: {reason or 'closed'}")
