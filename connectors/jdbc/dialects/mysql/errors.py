"""Classifies errors of MySQL and MariaDB by error number."""

from __future__ import annotations

import pymysql

from connectors.jdbc.errors import FULL, LOCKED, READ_ONLY, TOO_MANY, TOO_WIDE, ErrorKind, with_hint

_NUMBERS: dict[ErrorKind, str] = {
    # 1927 and 3169: KILL; 1053: shutdown; 4031: idle too long; 1047: a Galera node that is not ready.
    ErrorKind.CONNECTION: (
        "1042 1043 1053 1077 1080 1152 1154 1155 1156 1157 1158 1159 1160 1161 1184 1927 2001 2002 2003 2004 2005 2006 "
        "2012 2013 2014 2026 2027 2055 3169 3546 4031"
    ),
    # 1205 and 1213: locks; 1040, 1203, 1226: too many; 1290 and 1836: read-only, until the failover completes; 1412, 1615:
    # changed between two statements of a transaction; 1020: changed since it was read; 1021, 1114: full.
    ErrorKind.TRANSIENT: (
        "1020 1021 1037 1038 1040 1041 1047 1114 1180 1203 1205 1206 1213 1226 1290 1412 1613 1614 1615 1637 1836 3058 "
        "3101 3572 3573 4117 12000"
    ),
    ErrorKind.AUTHENTICATION: (
        "1044 1045 1049 1129 1130 1131 1132 1133 1251 1275 1524 1698 1820 1862 1873 2054 2058 2059 2061 3118 3159 3955 4151"
    ),
    ErrorKind.ROW: (
        "1048 1062 1118 1138 1153 1171 1210 1216 1217 1263 1264 1265 1292 1300 1301 1364 1365 1366 1367 1369 1406 1411 "
        "1416 1425 1426 1427 1439 1441 1451 1452 1526 1557 1586 1644 1648 1690 1748 1751 1761 1762 1859 1903 1906 1918 "
        "1977 3037 3105 3140 3141 3144 3146 3156 3157 3516 3616 3617 3618 3643 3819 3854 3903 3988 4025 4078 4161 6138 "
        "6139"
    ),
    ErrorKind.TIMEOUT: ("1317 1907 1969 3024"),
    # 1050 and 1060: another task was faster.
    ErrorKind.TABLE: ("1050 1051 1054 1060 1091 1109 1136 1146"),
}
_KINDS_BY_NUMBER = {int(number): classify for classify, numbers in _NUMBERS.items() for number in numbers.split()}

_HINTS = {
    1021: FULL, 1114: FULL, 1040: TOO_MANY, 1203: TOO_MANY, 1226: TOO_MANY, 1117: TOO_WIDE, 1118: TOO_WIDE, 1205: LOCKED,
    1836: READ_ONLY,
}  # fmt: skip

_STATES = {
    "08": ErrorKind.CONNECTION,
    "21": ErrorKind.ROW,
    "22": ErrorKind.ROW,
    "23": ErrorKind.ROW,
    "28": ErrorKind.AUTHENTICATION,
    "40": ErrorKind.TRANSIENT,
    "44": ErrorKind.ROW,
    "45": ErrorKind.ROW,  # SIGNAL
}


def classify_error(error: BaseException) -> ErrorKind:
    """Returns the cause of an error of PyMySQL."""
    if not isinstance(error, pymysql.err.MySQLError):
        if isinstance(error, RuntimeError) and "cryptography" in str(error):
            return ErrorKind.AUTHENTICATION  # PyMySQL lacks a package that the user's authentication plugin needs
        return ErrorKind.CONNECTION if isinstance(error, OSError) else ErrorKind.STATEMENT
    number = error_number(error)
    if number in _KINDS_BY_NUMBER:
        return _KINDS_BY_NUMBER[number]
    if number is None or number == 0:
        # PyMySQL's own errors ("Already closed", a packet out of order): the connection cannot be used.
        return ErrorKind.CONNECTION
    # Unknown numbers: newer servers, and numbers that users pass to SIGNAL.
    return _STATES.get((getattr(error, "sqlstate", None) or "")[:2], ErrorKind.STATEMENT)


def error_number(error: BaseException) -> int | None:
    """Returns the error's number, if it has one."""
    first = error.args[0] if error.args else None
    return first if isinstance(first, int) else None


def error_message(error: BaseException) -> str:
    """Returns the server's message with its number, in one line."""
    number = error_number(error)
    text = " ".join(str(error.args[1] if number is not None and len(error.args) > 1 else error).split())
    if number == 0 and not text:
        text = "the connection is closed"
    if not text:
        text = type(error).__name__
    return with_hint(f"{text} (error {number})", _HINTS.get(number)) if number else text
