"""Character sets, compared with the server's conversion of every byte and of pairs of bytes."""

from __future__ import annotations

import pytest

from connect.errors import DataError
from connectors.mysql.types.charsets import find_charset
from sluice.embedded.mariadb import EmbeddedMariaDB

_PAIRS = frozenset({"big5", "cp932", "euckr", "gb2312", "gbk", "sjis", "ujis"})
DIFFERENCES = {
    "big5": {b"\xa1\x5a", b"\xa1\xc3", b"\xa1\xc5", b"\xa1\xfe", b"\xa2\x40", b"\xa2\xcc", b"\xa2\xce"},  # � on the server
    "cp866": {b"\xfc", b"\xfd"},
    "cp932": {b"\x80", b"\xa0", b"\xfd", b"\xfe", b"\xff"},  # not on the server
    "cp1256": {b"\x8a", b"\x8f", b"\x98", b"\x9a", b"\x9f", b"\xaa", b"\xc0", b"\xff"},  # not on the server
    "greek": {b"\xa1", b"\xa2", b"\xa4", b"\xa5", b"\xaa"},
    "hebrew": {b"\xaf"},
    "koi8u": {b"\x95"},
    "sjis": {b"\x81\x5f"},  # a backslash on the server, full width here and in Java
    "ujis": {b"\xa1\xc0"},
}
"""Bytes that Python decodes to something else than MariaDB. Bytes that only one of them knows are not compared."""


def test_characters_are_those_of_the_server(mariadb: EmbeddedMariaDB, mariadb_database: str) -> None:
    values = [bytes([i]) for i in range(256)] + [bytes([i, j]) for i in range(0x80, 256, 3) for j in range(0x40, 256)]
    found: dict[str, set[bytes]] = {}
    with mariadb.connect(mariadb_database, charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute("SHOW CHARACTER SET")
        names = {str(row[0]) for row in cursor.fetchall()}
        cursor.execute("CREATE TABLE b (v VARBINARY(2) PRIMARY KEY)")
        cursor.execute(f"INSERT INTO b VALUES {','.join(f'(x{value.hex()!r})' for value in values)}")
        for name in sorted(names - {"binary", "ucs2", "utf16", "utf16le", "utf32", "utf8mb3", "utf8mb4"}):
            try:
                charset = find_charset(name)
            except DataError:
                found[name] = {b"refused"}
                continue
            limit = 2 if name in _PAIRS else 1
            cursor.execute(
                f"SELECT v, HEX(CONVERT(CAST(v AS CHAR CHARACTER SET {name}) USING utf8mb4)) FROM b WHERE LENGTH(v) <= {limit}"
            )
            for data, converted in cursor.fetchall():
                text = None if converted is None else bytes.fromhex(converted).decode()
                if text is None or len(text) != 1 or (text in "?�" and data != b"?"):
                    continue  # no character of the server
                try:
                    if charset.decode(data) != text:
                        found.setdefault(name, set()).add(data)
                except UnicodeDecodeError:
                    found.setdefault(name, set()).add(b"undefined")
    refused = {name for name, different in found.items() if different == {b"refused"}}
    assert refused == {"armscii8", "dec8", "eucjpms", "geostd8", "keybcs2", "swe7"}
    for name in names - refused:
        assert found.get(name, set()) - {b"undefined"} <= DIFFERENCES.get(name, set()), name
    undefined = {name for name, different in found.items() if b"undefined" in different}
    assert undefined <= {"big5", "cp932", "euckr", "gb2312", "gbk", "sjis", "ujis"}


@pytest.mark.parametrize("name", ["utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32"])
def test_unicode(mariadb: EmbeddedMariaDB, name: str) -> None:
    text = "aé産" + ("" if name in ("utf8mb3", "ucs2") else "𝄞")
    with mariadb.connect(charset="utf8mb4") as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT CAST(CONVERT(%s USING {name}) AS BINARY)", (text,))
        row = cursor.fetchone()
    assert row is not None
    assert find_charset(name).decode(row[0]) == text
