from __future__ import annotations

import re
import ssl
from typing import Any

import pymysql
import pytest

from connect.errors import ConfigError, MissingExtraError, UnreachableError, UnsupportedError
from connectors.cdc.errors import ConnectionLostError, PositionLostError, QueryTimeoutError
from connectors.mysql.config import MySqlAddress
from connectors.mysql.errors import (
    DuplicateServerIdError,
    MySqlServerError,
    ServerReplacedError,
    binlog_error,
    connection_error,
    missing_package_error,
    statement_error,
)

ADDRESS = MySqlAddress("db", 3306, "cdc", None)


def server(number: int, text: str) -> pymysql.err.OperationalError:
    return pymysql.err.OperationalError(number, text)


@pytest.mark.parametrize(
    ("error", "expected", "message"),
    [
        (server(1045, "Access denied for user"), ConfigError, "rejected the password of user cdc"),
        (
            server(1130, "Host '10.0.0.1' is not allowed to connect"),
            ConfigError,
            "accepts no connections from this host.*CREATE USER",
        ),
        (server(1129, "Host is blocked"), ConnectionLostError, "FLUSH HOSTS"),
        (server(1040, "Too many connections"), ConnectionLostError, "raise max_connections"),
        (server(1053, "Server shutdown in progress"), ConnectionLostError, "temporarily accepts no connections"),
        (
            server(2059, "Authentication plugin 'auth_gssapi_client' not configured"),
            ConfigError,
            "unsupported.*caching_sha2_password",
        ),
        (server(3159, "Connections using insecure transport are prohibited"), ConfigError, "set database.ssl.mode to required"),
        (server(4151, "Access denied, this account is locked"), ConfigError, "until an administrator changes it"),
        (server(2003, "Can't connect ([Errno 111] Connection refused)"), UnreachableError, "cannot reach.*database.hostname"),
        (ssl.SSLCertVerificationError("certificate verify failed"), ConfigError, "no TLS connection.*database.ssl.truststore"),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), UnreachableError, "cannot reach.*EOF occurred"),
        (ConnectionResetError(104, "Connection reset by peer"), UnreachableError, "cannot reach.*reset by peer"),
        (server(1049, "Unknown database"), MySqlServerError, "refused the connection: Unknown database .error 1049"),
    ],
)
def test_failed_connections(error: Exception, expected: type[Exception], message: str) -> None:
    found = connection_error(ADDRESS, error)
    assert type(found) is expected
    assert re.search(message, str(found))


@pytest.mark.parametrize("package", ["cryptography", "pynacl"])
def test_packages_that_authentication_needs_are_named(package: str) -> None:
    found = missing_package_error(ADDRESS, RuntimeError(f"'{package}' package is required for the auth method"))
    assert type(found) is MissingExtraError
    assert f"user cdc of MySQL at db:3306 authenticates by a plugin that needs another package: '{package}'" in str(found)
    assert missing_package_error(ADDRESS, RuntimeError("can't start new thread")) is None


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionResetError(104, "Connection reset by peer"), ConnectionLostError),
        (ssl.SSLEOFError(8, "EOF occurred in violation of protocol"), ConnectionLostError),
        (ssl.SSLError(1, "decryption failed or bad record mac"), ConnectionLostError),
        (pymysql.err.InterfaceError(0, ""), ConnectionLostError),
        (pymysql.err.InternalError("Packet sequence number wrong - got 5 expected 1"), ConnectionLostError),
        (pymysql.err.ProgrammingError("Cursor closed"), MySqlServerError),
        (pymysql.err.OperationalError(2014, "Commands out of sync"), MySqlServerError),
    ],
)
def test_only_errors_of_socket_and_protocol_lose_the_connection(error: Exception, expected: type[Exception]) -> None:
    assert type(statement_error(ADDRESS, error, "SELECT 1")) is expected


@pytest.mark.parametrize(
    ("number", "text", "expected", "message"),
    [
        (
            1227,
            "Access denied; you need (at least one of) the SUPER, REPLICATION CLIENT privilege(s) for this operation",
            ConfigError,
            "GRANT REPLICATION CLIENT ON \\*\\.\\* TO 'cdc'",
        ),
        (1227, "Access denied; you need (at least one of) the RELOAD privilege(s)", ConfigError, "GRANT RELOAD ON"),
        (1142, "SELECT command denied to user 'cdc'@'%' for table 't'", ConfigError, "GRANT SELECT ON <database>.<table>"),
        (1142, "LOCK TABLES command denied to user", ConfigError, "GRANT LOCK ON|GRANT LOCK TABLES ON"),
        (1044, "Access denied for user to database 'shop'", ConfigError, "GRANT SELECT, LOCK TABLES ON <database>"),
        (1969, "Query execution was interrupted (max_statement_time exceeded)", QueryTimeoutError, "canceled SELECT 1"),
        (1205, "Lock wait timeout exceeded", MySqlServerError, "another transaction holds the lock"),
        (1290, "The server is running with the --read-only option", MySqlServerError, "connect to the primary"),
        (1927, "Connection was killed", ConnectionLostError, "lost the connection"),
        (0, "", ConnectionLostError, "lost the connection"),
        (1064, "You have an error in your SQL syntax", MySqlServerError, "rejected SELECT 1.*error 1064"),
    ],
)
def test_failed_statements(number: int, text: str, expected: type[Exception], message: str) -> None:
    found: Any = statement_error(ADDRESS, server(number, text), "SELECT\n 1")
    assert type(found) is expected
    assert re.search(message, str(found))


@pytest.mark.parametrize(
    ("number", "text", "expected"),
    [
        (1236, "Could not find first log file name in binary log index file", PositionLostError),
        (
            1236,
            "Cannot replicate because the master purged required binary logs. Replicate the missing transactions from elsewhere, "
            "or provision a new slave from backup. The GTID set sent by the slave is '', and the missing "
            "transactions are 'a:1-5'",
            PositionLostError,
        ),
        (
            1236,
            "Could not find GTID state requested by slave in any binlog files. Probably the slave state is too old and required "
            "binlog files have been purged.",
            PositionLostError,
        ),
        (
            1236,
            "Slave has more GTIDs than the master has, using the master's SERVER_UUID. This may indicate that "
            "the end of the binary "
            "log was truncated or that the last binary log file was lost",
            ServerReplacedError,
        ),
        (
            1236,
            "Error: connecting slave requested to start from GTID 0-1-9, which is not in the master's binlog",
            ServerReplacedError,
        ),
        (1236, "Client requested master to start replication from position > file size", ServerReplacedError),
        (1236, "Client requested master to start replication from impossible position", ServerReplacedError),
        (1236, "A slave with the same server_uuid/server_id as this slave has connected to the master", DuplicateServerIdError),
        (4052, "A slave with the same server_uuid/server_id is already connected", DuplicateServerIdError),
        (
            1236,
            "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on master",
            ConfigError,
        ),
        (1236, "Slave can not handle replication events with the checksum that master is configured to log", UnsupportedError),
        (1236, "Binary log is not open", ConfigError),
        (1236, "Misconfigured master - master server_id was not set", ConfigError),
        (1227, "Access denied; you need (at least one of) the REPLICATION SLAVE privilege(s) for this operation", ConfigError),
        (1053, "Server shutdown in progress", ConnectionLostError),
        (1236, "Something else", MySqlServerError),
    ],
)
def test_ends_of_the_stream_are_told_apart(number: int, text: str, expected: type[Exception]) -> None:
    assert type(binlog_error(ADDRESS, number, text, "binlog.000001:4")) is expected
