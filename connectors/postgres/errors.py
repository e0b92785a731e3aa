"""Errors of the database, translated to errors that name the cause, the server, and what to do.

The class decides whether to retry: ConnectionLostError, SlotInUseError, and SlotSynchronizedError are retriable.
"""

from __future__ import annotations

from connect.errors import ConfigError, ConnectError, RetriableError, UnreachableError
from connectors.cdc.errors import ConnectionLostError, RejectedStatementError
from connectors.postgres.config import Address


class SlotInUseError(RetriableError):
    """Another session reads from the slot."""


class SlotSynchronizedError(RetriableError):
    """The slot is the copy of a primary's on a standby, and can be read once the standby is promoted."""


class ServerError(RejectedStatementError):
    """A SQL error; ``sqlstate`` is its five-character code."""

    def __init__(self, message: str, sqlstate: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


class ServerSetupError(ConfigError):
    """The server, or the user on it, is not set up as the configuration needs it. The message consists of problem, advice, and
    the server's own reason; ``code`` is that of a finding."""

    def __init__(self, code: str, problem: str, advice: str, *, key: str, reason: str = "") -> None:
        super().__init__(f"{problem}: {advice}{'. ' + reason if reason else ''}", key=key)
        self.code = code
        self.problem = f"{problem}. {reason}" if reason else problem
        self.advice = advice


_TRANSIENT_SQLSTATES = ("57P01", "57P02", "57P03", "53300", "08")


def connection_error(address: Address, reason: str) -> ConnectError:
    """The error for a failed connection attempt. libpq reports no SQLSTATE here, so its text decides."""
    text = reason.lower()
    where = f"PostgreSQL at {address.host}:{address.port}"
    if "replication" in text and ("must be" in text or "permission denied" in text):
        return may_not_replicate(address.user, where, reason)
    if "pg_hba.conf" in text:
        return ServerSetupError(
            "rejected-by-pg-hba",
            f"{where} rejects connections of user {address.user} to database {address.database} from this host",
            "add or change a line of pg_hba.conf (it also decides whether TLS is needed: database.sslmode)",
            key="database.user",
            reason=reason,
        )
    if "password" in text or "authentication" in text:
        return ServerSetupError(
            "authentication-failed",
            f"{where} rejected the password of user {address.user}",
            "check database.user and database.password",
            key="database.password",
            reason=reason,
        )
    if "does not exist" in text and "role" in text:
        return ServerSetupError(
            "unknown-user", f"{where} has no user {address.user}", "check database.user", key="database.user", reason=reason
        )
    if "does not exist" in text:
        return ServerSetupError(
            "unknown-database",
            f"{where} has no database {address.database}",
            "check database.dbname",
            key="database.dbname",
            reason=reason,
        )
    if "starting up" in text or "shutting down" in text or "too many" in text or "remaining connection slots" in text:
        return ConnectionLostError(f"{where} temporarily accepts no connections: {reason}")
    if "ssl" in text or "certificate" in text:
        return ServerSetupError(
            "no-tls-connection",
            f"no TLS connection to {where}",
            "check database.sslmode and its files",
            key="database.sslmode",
            reason=reason,
        )
    return UnreachableError(
        f"cannot reach {where}: {reason}; check database.hostname, database.port, and that the server is running"
    )


def may_not_replicate(user: str, where: str, reason: str = "") -> ServerSetupError:
    """The error for a user without the privilege to replicate."""
    return ServerSetupError(
        "no-replication-privilege",
        f"user {user} may not replicate from {where}",
        f"ALTER ROLE {user} REPLICATION (on Amazon RDS: GRANT rds_replication TO {user})",
        key="database.user",
        reason=reason,
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
