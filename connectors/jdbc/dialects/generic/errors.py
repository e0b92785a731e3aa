"""Classifies driver errors by SQLSTATE or, if the driver has none, by the exception classes of PEP 249."""

from __future__ import annotations

import re

from connectors.jdbc.errors import ErrorKind

_SQLSTATE = re.compile(r"[0-9A-Z]{5}")

_BY_STATE = {
    "42S02": ErrorKind.TABLE,
    "42S22": ErrorKind.TABLE,
    "42P01": ErrorKind.TABLE,
    "42703": ErrorKind.TABLE,
    "42704": ErrorKind.TABLE,
    "HYT00": ErrorKind.TRANSIENT,
    "HYT01": ErrorKind.CONNECTION,
    "HY008": ErrorKind.TIMEOUT,
    "57014": ErrorKind.TIMEOUT,
    "55P03": ErrorKind.TRANSIENT,
}
_BY_CLASS = {
    "08": ErrorKind.CONNECTION,
    "22": ErrorKind.ROW,
    "23": ErrorKind.ROW,
    "28": ErrorKind.AUTHENTICATION,
    "40": ErrorKind.TRANSIENT,
    "53": ErrorKind.TRANSIENT,
}


def sqlstate(error: BaseException) -> str | None:
    """Returns the SQLSTATE of an error of psycopg, mysqlclient, or pyodbc: an attribute or the first argument."""
    for name in ("sqlstate", "pgcode"):
        found = getattr(error, name, None)
        if isinstance(found, str) and found:
            return found
    first = error.args[0] if error.args else None
    return first if isinstance(first, str) and _SQLSTATE.fullmatch(first) else None


def classify_error(error: BaseException) -> ErrorKind:
    state = sqlstate(error)
    if state is not None:
        found = _BY_STATE.get(state) or _BY_CLASS.get(state[:2])
        if found is not None:
            return found
    names = {cls.__name__ for cls in type(error).__mro__}
    if names & {"IntegrityError", "DataError", "OverflowError", "UnicodeError"}:
        return ErrorKind.ROW
    if "InterfaceError" in names:
        return ErrorKind.CONNECTION
    return ErrorKind.STATEMENT
