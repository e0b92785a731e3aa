"""What a driver's error is about, by SQLSTATE where the driver tells it and by the classes of PEP 249 where not."""

from __future__ import annotations

import re

from connectors.jdbc.errors import Blame

_SQLSTATE = re.compile(r"[0-9A-Z]{5}")

_BY_STATE = {
    "42S02": Blame.TABLE,
    "42S22": Blame.TABLE,
    "42P01": Blame.TABLE,
    "42703": Blame.TABLE,
    "42704": Blame.TABLE,
    "HYT00": Blame.MOMENT,
    "HYT01": Blame.CONNECTION,
    "HY008": Blame.TIMEOUT,
    "57014": Blame.TIMEOUT,
    "55P03": Blame.MOMENT,
}
_BY_CLASS = {
    "08": Blame.CONNECTION,
    "22": Blame.ROW,
    "23": Blame.ROW,
    "28": Blame.LOGIN,
    "40": Blame.MOMENT,
    "53": Blame.MOMENT,
}


def sqlstate(error: BaseException) -> str | None:
    """Of psycopg's, mysqlclient's and pyodbc's errors alike: an attribute, or the first argument."""
    for name in ("sqlstate", "pgcode"):
        found = getattr(error, name, None)
        if isinstance(found, str) and found:
            return found
    first = error.args[0] if error.args else None
    return first if isinstance(first, str) and _SQLSTATE.fullmatch(first) else None


def blame_of(error: BaseException) -> Blame:
    state = sqlstate(error)
    if state is not None:
        found = _BY_STATE.get(state) or _BY_CLASS.get(state[:2])
        if found is not None:
            return found
    names = {cls.__name__ for cls in type(error).__mro__}
    if names & {"IntegrityError", "DataError", "OverflowError", "UnicodeError"}:
        return Blame.ROW
    if "InterfaceError" in names:
        return Blame.CONNECTION
    return Blame.STATEMENT
