"""Classifies PostgreSQL's errors by SQLSTATE."""

from __future__ import annotations

import psycopg

from connectors.jdbc.errors import FULL, LOCKED, NO_UNIQUE_KEY, READ_ONLY, TOO_MANY, TOO_WIDE, ErrorKind, with_hint

# The longest matching prefix wins.
_STATES: dict[str, ErrorKind] = {
    "08": ErrorKind.CONNECTION,
    "57P01": ErrorKind.CONNECTION,  # admin_shutdown: a restart, pg_terminate_backend
    "57P02": ErrorKind.CONNECTION,  # crash_shutdown
    "57P03": ErrorKind.CONNECTION,  # cannot_connect_now: it is starting or stopping
    "57P04": ErrorKind.CONNECTION,  # database_dropped
    "57P05": ErrorKind.CONNECTION,  # idle_session_timeout
    "25P03": ErrorKind.CONNECTION,  # idle_in_transaction_session_timeout
    "25P04": ErrorKind.CONNECTION,  # transaction_timeout
    "40": ErrorKind.TRANSIENT,  # deadlock, serialization failure
    "40002": ErrorKind.ROW,  # transaction_integrity_constraint_violation
    "55P03": ErrorKind.TRANSIENT,  # lock_not_available
    "55006": ErrorKind.TRANSIENT,  # object_in_use
    "53": ErrorKind.TRANSIENT,  # too many connections, disk full, out of memory
    "25006": ErrorKind.TRANSIENT,  # read_only_sql_transaction: a standby, until the failover completes
    "72000": ErrorKind.TRANSIENT,  # snapshot_too_old
    "57014": ErrorKind.TIMEOUT,  # query_canceled
    "28": ErrorKind.AUTHENTICATION,
    "3D000": ErrorKind.AUTHENTICATION,  # invalid_catalog_name: unknown database
    "21000": ErrorKind.ROW,  # cardinality_violation: ON CONFLICT affected a row twice
    "22": ErrorKind.ROW,  # data exceptions
    "23": ErrorKind.ROW,  # constraints
    "44": ErrorKind.ROW,  # WITH CHECK OPTION
    "54": ErrorKind.ROW,  # limits: a value too large for an index
    "P0": ErrorKind.ROW,  # raised by a trigger
    "3F000": ErrorKind.TABLE,  # invalid_schema_name
    "42P01": ErrorKind.TABLE,  # undefined_table
    "42703": ErrorKind.TABLE,  # undefined_column
    "42P07": ErrorKind.TABLE,  # duplicate_table: another task was faster
    "42701": ErrorKind.TABLE,  # duplicate_column
}

_HINTS = {"25006": READ_ONLY, "53100": FULL, "53300": TOO_MANY, "54011": TOO_WIDE, "55P03": LOCKED}
_AUTHENTICATION_WORDS = ("password", "authentication failed", "no pg_hba.conf entry", "does not exist", "not permitted to log in")
_BUSY_WORDS = ("too many clients", "too many connections", "remaining connection slots")


def classify_error(error: BaseException) -> ErrorKind:
    """Returns the cause of an error of psycopg."""
    if not isinstance(error, psycopg.Error):
        return ErrorKind.CONNECTION if isinstance(error, OSError) else ErrorKind.STATEMENT
    state = error.sqlstate
    if state is None:
        return _without_state(error)
    if state == "0A000" and error.diag.source_function == "RevalidateCachedQuery":
        return ErrorKind.TABLE  # "cached plan must not change result type"
    for length in (5, 2):
        found = _STATES.get(state[:length])
        if found is not None:
            return found
    return ErrorKind.STATEMENT


def _without_state(error: psycopg.Error) -> ErrorKind:
    if isinstance(error, psycopg.DataError):
        return ErrorKind.ROW  # psycopg cannot send a value (NUL in a text)
    if isinstance(error, psycopg.OperationalError):
        # libpq has no SQLSTATE for failed authentication, only a message.
        text = str(error).lower()
        if any(words in text for words in _BUSY_WORDS):
            return ErrorKind.TRANSIENT
        if "no password supplied" in text or ("fatal:" in text and any(words in text for words in _AUTHENTICATION_WORDS)):
            return ErrorKind.AUTHENTICATION
        return ErrorKind.CONNECTION
    return ErrorKind.CONNECTION if isinstance(error, psycopg.InterfaceError) else ErrorKind.STATEMENT


def error_message(error: BaseException) -> str:
    """Returns the server's message, detail, and hint in one line, with the line and column of a bad value in a COPY."""
    diag = error.diag if isinstance(error, psycopg.Error) else None
    if diag is None or not diag.message_primary:
        text = " ".join(str(error).split()) or type(error).__name__
        return with_hint(text, TOO_MANY if any(words in text.lower() for words in _BUSY_WORDS) else None)
    context = (diag.context or "").split("\n", 1)[0]
    parts = [
        diag.message_primary,
        diag.message_detail,
        diag.message_hint and f"hint: {diag.message_hint}",
        context if context.startswith("COPY ") else None,
    ]
    text = f"{'; '.join(' '.join(part.split()) for part in parts if part)} (SQLSTATE {diag.sqlstate})"
    hint = NO_UNIQUE_KEY if diag.sqlstate == "42P10" and "ON CONFLICT" in diag.message_primary else None
    return with_hint(text, hint or _HINTS.get(diag.sqlstate or ""))
