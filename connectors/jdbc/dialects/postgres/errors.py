"""What PostgreSQL's errors are about, by SQLSTATE."""

from __future__ import annotations

import psycopg

from connectors.jdbc.dialects.error_hints import FULL, LOCKED, NO_UNIQUE_KEY, READ_ONLY, TOO_MANY, TOO_WIDE, with_cure
from connectors.jdbc.errors import Blame

# The longest prefix counts.
_STATES: dict[str, Blame] = {
    "08": Blame.CONNECTION,
    "57P01": Blame.CONNECTION,  # admin_shutdown: a restart, pg_terminate_backend
    "57P02": Blame.CONNECTION,  # crash_shutdown
    "57P03": Blame.CONNECTION,  # cannot_connect_now: it is starting or stopping
    "57P04": Blame.CONNECTION,  # database_dropped
    "57P05": Blame.CONNECTION,  # idle_session_timeout
    "25P03": Blame.CONNECTION,  # idle_in_transaction_session_timeout
    "25P04": Blame.CONNECTION,  # transaction_timeout
    "40": Blame.MOMENT,  # deadlock, serialization failure
    "40002": Blame.ROW,  # transaction_integrity_constraint_violation
    "55P03": Blame.MOMENT,  # lock_not_available
    "55006": Blame.MOMENT,  # object_in_use
    "53": Blame.MOMENT,  # too many connections, disk full, out of memory
    "25006": Blame.MOMENT,  # read_only_sql_transaction: a standby, until the fail-over is through
    "72000": Blame.MOMENT,  # snapshot_too_old
    "57014": Blame.TIMEOUT,  # query_canceled
    "28": Blame.LOGIN,
    "3D000": Blame.LOGIN,  # invalid_catalog_name: there is no such database
    "21000": Blame.ROW,  # cardinality_violation: ON CONFLICT met a row twice
    "22": Blame.ROW,  # data exceptions
    "23": Blame.ROW,  # constraints
    "44": Blame.ROW,  # WITH CHECK OPTION
    "54": Blame.ROW,  # limits: a value too large for an index
    "P0": Blame.ROW,  # raised by a trigger
    "3F000": Blame.TABLE,  # invalid_schema_name
    "42P01": Blame.TABLE,  # undefined_table
    "42703": Blame.TABLE,  # undefined_column
    "42P07": Blame.TABLE,  # duplicate_table: another task was faster
    "42701": Blame.TABLE,  # duplicate_column
}

_CURES = {"25006": READ_ONLY, "53100": FULL, "53300": TOO_MANY, "54011": TOO_WIDE, "55P03": LOCKED}
_LOGIN_WORDS = ("password", "authentication failed", "no pg_hba.conf entry", "does not exist", "not permitted to log in")
_BUSY_WORDS = ("too many clients", "too many connections", "remaining connection slots")


def blame_of(error: BaseException) -> Blame:
    """What an error of psycopg is about."""
    if not isinstance(error, psycopg.Error):
        return Blame.CONNECTION if isinstance(error, OSError) else Blame.STATEMENT
    state = error.sqlstate
    if state is None:
        return _without_state(error)
    if state == "0A000" and error.diag.source_function == "RevalidateCachedQuery":
        return Blame.TABLE  # "cached plan must not change result type"
    for length in (5, 2):
        found = _STATES.get(state[:length])
        if found is not None:
            return found
    return Blame.STATEMENT


def _without_state(error: psycopg.Error) -> Blame:
    if isinstance(error, psycopg.DataError):
        return Blame.ROW  # psycopg found a value that cannot be sent (NUL in a text)
    if isinstance(error, psycopg.OperationalError):
        # libpq does not tell the SQLSTATE of a login that failed, so its text must do.
        text = str(error).lower()
        if any(words in text for words in _BUSY_WORDS):
            return Blame.MOMENT
        if "no password supplied" in text or ("fatal:" in text and any(words in text for words in _LOGIN_WORDS)):
            return Blame.LOGIN
        return Blame.CONNECTION
    return Blame.CONNECTION if isinstance(error, psycopg.InterfaceError) else Blame.STATEMENT


def words_of(error: BaseException) -> str:
    """The server's message, detail and hint in one line; for a value in a COPY also where it stood."""
    diag = error.diag if isinstance(error, psycopg.Error) else None
    if diag is None or not diag.message_primary:
        text = " ".join(str(error).split()) or type(error).__name__
        return with_cure(text, TOO_MANY if any(words in text.lower() for words in _BUSY_WORDS) else None)
    context = (diag.context or "").split("\n", 1)[0]
    parts = [
        diag.message_primary,
        diag.message_detail,
        diag.message_hint and f"hint: {diag.message_hint}",
        context if context.startswith("COPY ") else None,
    ]
    text = f"{'; '.join(' '.join(part.split()) for part in parts if part)} (SQLSTATE {diag.sqlstate})"
    cure = NO_UNIQUE_KEY if diag.sqlstate == "42P10" and "ON CONFLICT" in diag.message_primary else None
    return with_cure(text, cure or _CURES.get(diag.sqlstate or ""))
