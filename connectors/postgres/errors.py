"""Errors of the database, translated to errors that name the cause, the server, and what to do.

The class decides whether to retry: ConnectionLostError, SlotInUseError, and SlotSynchronizedError are retriable.
"""

from __future__ import annotations

from connect.errors import ConfigError, ConnectError, RetriableError, UnreachableError
from connectors.cdc.errors import ConnectionLostError
from connectors.postgres.config import Address


class SlotInUseError(RetriableError):
    """Another session reads from the slot."""


class SlotSynchronizedError(RetriableError):
    """The slot is the copy of a primary's on a standby, and can be read once the standby is promoted."""


class ServerError(ConnectError):
    """A SQL error; ``sqlstate`` is its five-character code."""

    def __init__(self, message: str, sqlstate: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


_TRANSIENT_SQLSTATES = ("57P01", "57P02", "57P03", "53300", "08")


def connection_error(address: Address, reason: str) -> ConnectError:
    """The error for a failed connection attempt. libpq reports no SQLSTATE here, so its text decides."""
    text = reason.lower()
    where = f"PostgreSQL at {address.host}:{address.port}"
    if "replication" in text and ("must be" in text or "permission denied" in text):
        return ConfigError(
            f"user {address.user} may not replicate from {where}: ALTER ROLE {address.user} REPLICATION "
            f"(on Amazon RDS: GRANT rds_replication TO {address.user}). {reason}",
            key="database.user",
        )
    if "pg_hba.conf" in text:
        return ConfigError(
            f"{where} rejects connections of user {address.user} to database {address.database} from this host: add or change a "
            f"line of pg_hba.conf (it also decides whether TLS is needed: database.sslmode). {reason}",
            key="database.user",
        )
    if "password" in text or "authentication" in text:
        return ConfigError(
            f"{where} rejected the password of user {address.user}: check database.user and database.password. {reason}",
            key="database.password",
        )
    if "does not exist" in text and "role" in text:
        return ConfigError(f"{where} has no user {address.user}: check database.user. {reason}", key="database.user")
    if "does not exist" in text:
        return ConfigError(f"{where} has no database {address.database}: check database.dbname. {reason}", key="database.dbname")
    if "starting up" in text or "shutting down" in text or "too many" in text or "remaining connection slots" in text:
        return ConnectionLostError(f"{where} temporarily accepts no connections: {reason}")
    if "ssl" in text or "certificate" in text:
        return ConfigError(
            f"no TLS connection to {where}: check database.sslmode and its files. {reason}", key="database.sslmode"
        )
    return UnreachableError(
        f"cannot reach {where}: {reason}; check database.hostname, database.port, and that the server is running"
    )


def statement_error(address: Address, sqlstate: str, message: str, detail: str, sql: str) -> ConnectError:
    """The error for a failed statement."""
    reason = f"{message}{'; ' + detail if detail else ''} (SQLSTATE {sqlstate})"
    if sqlstate.startswith(_TRANSIENT_SQLSTATES):
        return ConnectionLostError(f"PostgreSQL at {address} ended the session: {reason}")
    if sqlstate == "40001":
        return ConnectionLostError(
            f"PostgreSQL at {address} canceled a query, as standbys do if it conflicts with recovery (hot_standby_feedback=on "
            f"prevents that): {reason}"
        )
    if sqlstate == "55006":
        return SlotInUseError(f"{reason}; give each connector its own slot.name, or stop the other reader")
    return ServerError(f"PostgreSQL at {address} rejected {_first_words(sql)}: {reason}", sqlstate)


def _first_words(sql: str) -> str:
    text = " ".join(sql.split())
    return text if len(text) <= 80 else text[:77] + "..."
