"""What a DDL statement means depends on: the server, the session, and the character sets of databases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_REAL_AS_FLOAT: Final = 1 << 0
_ANSI_QUOTES: Final = 1 << 2
_ORACLE: Final = 1 << 9
_NO_BACKSLASH_ESCAPES: Final = 1 << 20
"""Bits of sql_mode as QUERY events have them."""

_FLAGS: Final = {
    "REAL_AS_FLOAT": _REAL_AS_FLOAT,
    "ANSI_QUOTES": _ANSI_QUOTES,
    "ANSI": _ANSI_QUOTES | _REAL_AS_FLOAT,
    "ORACLE": _ORACLE,
    "NO_BACKSLASH_ESCAPES": _NO_BACKSLASH_ESCAPES,
}


def sql_mode_flags(text: str) -> int:
    """Returns the bits of @@sql_mode that matter to DDL, from its text."""
    flags = 0
    for name in text.upper().split(","):
        flags |= _FLAGS.get(name.strip(), 0)
    return flags


@dataclass(frozen=True, slots=True)
class DdlContext:
    """The defaults are those of a server of which nothing is known. ``sql_mode`` has the bits of a QUERY event."""

    is_mariadb: bool = False
    server_version: int | None = None
    """As in executable comments: 80036 for 8.0.36, 110402 for 11.4.2. None executes all that the flavor may execute."""
    sql_mode: int = 0
    server_charset: str | None = None
    """The default of databases that name none."""
    database_charsets: Mapping[str, str] = field(default_factory=dict)
    """The default of tables, by database."""
    explicit_defaults_for_timestamp: bool | None = None
    """False makes TIMESTAMP columns NOT NULL unless they say NULL. None, if unknown, is like True."""
    lower_case_table_names: int = 0
    """Unless it is 0, names of databases and tables are in lower case."""

    @property
    def has_ansi_quotes(self) -> bool:
        return bool(self.sql_mode & _ANSI_QUOTES)

    @property
    def has_plain_backslashes(self) -> bool:
        return bool(self.sql_mode & _NO_BACKSLASH_ESCAPES)

    @property
    def is_oracle(self) -> bool:
        """MariaDB's sql_mode=ORACLE, in which types have other meanings."""
        return self.is_mariadb and bool(self.sql_mode & _ORACLE)

    @property
    def has_real_as_float(self) -> bool:
        return bool(self.sql_mode & _REAL_AS_FLOAT)

    def folded(self, name: str) -> str:
        """Returns the name of a database or table as it is stored."""
        return name.lower() if self.lower_case_table_names else name

    def charset_of(self, database: str) -> str | None:
        """Returns the default character set of tables of a database, None if unknown."""
        return self.database_charsets.get(database, self.server_charset)

    def executes(self, version: int | None, *, is_mariadb_comment: bool) -> bool:
        """Returns whether the server executes the content of an executable comment."""
        if is_mariadb_comment and not self.is_mariadb:
            return False
        if version is None:
            return True
        if self.is_mariadb and not is_mariadb_comment and 50700 <= version <= 99999:
            return False  # MariaDB does not have the features of these versions of MySQL
        return self.server_version is None or version <= self.server_version
