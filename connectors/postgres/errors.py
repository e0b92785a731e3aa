"""What can go wrong with the database, as errors that say what, where and what to do.

Whether a try may help is the class: ConnectionLostError and SlotInUseError pass, the others stay.
"""

from __future__ import annotations

from connect.errors import ConfigError, ConnectError, RetriableError, UnreachableError
from connectors.postgres.config import Address


class Interrupted(Exception):
    """A wait ended because the task is asked to stop. Never leaves the package."""


class ConnectionLostError(RetriableError):
    """The server closed the connection, was shut down, or does not take connections for the moment."""


class SlotInUseError(RetriableError):
    """Another session streams from the slot."""


class PositionGoneError(ConnectError):
    """The slot, or the changes it should have kept, are not there any more. A new snapshot is the only cure."""


class ServerError(ConnectError):
    """An SQL error; ``sqlstate`` has its five characters."""

    def __init__(self, message: str, sqlstate: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate


_PASSING = ("57P01", "57P02", "57P03", "53300", "08")


def connect_failure(address: Address, reason: str) -> ConnectError:
    """The error for a connection that could not be opened. libpq gives no SQLSTATE here, so its text must do."""
    text = reason.lower()
    where = f"PostgreSQL at {address.host}:{address.port}"
    if "replication" in text and ("must be" in text or "permission denied" in text):
        return ConfigError(
            f"user {address.user} may not replicate from {where}: ALTER ROLE {address.user} REPLICATION "
            f"(on Amazon RDS: GRANT rds_replication TO {address.user}). {reason}",
            key="database.user",
        )
    if "no pg_hba.conf entry" in text:
        return ConfigError(
            f"{where} refuses connections of user {address.user} to database {address.database} from here: add a line to "
            "pg_hba.conf "
            f"(pg_hba.conf also decides whether TLS is needed: database.sslmode). {reason}",
            key="database.user",
        )
    if "password" in text or "authentication" in text:
        return ConfigError(
            f"{where} does not accept the password of user {address.user}: check database.user and database.password. {reason}",
            key="database.password",
        )
    if "does not exist" in text and "role" in text:
        return ConfigError(f"{where} has no user {address.user}: check database.user. {reason}", key="database.user")
    if "does not exist" in text:
        return ConfigError(f"{where} has no database {address.database}: check database.dbname. {reason}", key="database.dbname")
    if "starting up" in text or "shutting down" in text or "too many" in text or "remaining connection slots" in text:
        return ConnectionLostError(f"{where} takes no connections for the moment: {reason}")
    if "ssl" in text or "certificate" in text:
        return ConfigError(
            f"no TLS connection to {where}: check database.sslmode and its files. {reason}", key="database.sslmode"
        )
    return UnreachableError(f"cannot reach {where}: {reason}; check database.hostname, database.port, and that the server runs")


def server_failure(address: Address, sqlstate: str, message: str, detail: str, sql: str) -> ConnectError:
    """The error for a statement that the server refused."""
    reason = f"{message}{'; ' + detail if detail else ''} (SQLSTATE {sqlstate})"
    if sqlstate.startswith(_PASSING):
        return ConnectionLostError(f"PostgreSQL at {address} ended the session: {reason}")
    if sqlstate == "55006":
        return SlotInUseError(f"{reason}; give each connector a slot.name of its own, or stop the other reader")
    return ServerError(f"PostgreSQL at {address} refused {_first_words(sql)}: {reason}", sqlstate)


def _first_words(sql: str) -> str:
    text = " ".join(sql.split())
    return text if len(text) <= 80 else text[:77] + "..."
