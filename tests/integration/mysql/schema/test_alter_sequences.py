"""Random DDL on a real server: the model stays equal to SHOW CREATE TABLE.

``SLUICE_STATEMENTS`` is the number of statements.
"""

from __future__ import annotations

import pymysql
import pytest

from tests.integration.mysql.schema.conftest import ModeledDatabase
from tests.support import randomness

_STATEMENTS = randomness.size("SLUICE_STATEMENTS", 80)

_TYPES = (
    "INT", "INT(5) UNSIGNED", "INTEGER UNSIGNED ZEROFILL", "TINYINT(1)", "BOOL", "SMALLINT", "MEDIUMINT UNSIGNED",
    "BIGINT SIGNED",
    "DECIMAL(10,2)", "DEC(5)", "NUMERIC", "FLOAT", "FLOAT(7,3)", "DOUBLE", "DOUBLE PRECISION", "REAL", "BIT", "BIT(12)",
    "CHAR(10)", "CHAR", "VARCHAR(40)", "CHARACTER VARYING(10)", "VARCHAR(20) CHARACTER SET latin1",
    "NATIONAL VARCHAR(8)", "NCHAR(4)",
    "VARCHAR(12) COLLATE latin2_general_ci", "VARCHAR(9) BINARY", "TINYTEXT", "TEXT", "MEDIUMTEXT CHARSET latin1", "LONGTEXT",
    "BINARY(8)", "VARBINARY(30)", "BLOB", "LONGBLOB", "VARCHAR(10) CHARACTER SET binary", "DATE", "TIME(3)", "DATETIME",
    "DATETIME(6)", "TIMESTAMP NULL", "YEAR", "ENUM('a','it''s','b,c')", "SET('x','y','z')", "ENUM('é') CHARACTER SET latin1",
    "UUID", "INET6", "JSON", "POINT", "GEOMETRY",
)  # fmt: skip
_DEFAULTS = {
    "INT": ("0", "-5", "NULL", "17"), "TINYINT(1)": ("1",),
    "VARCHAR(40)": ("''", "'it''s'", "'a\\\\b'", "(concat('a','b'))", "NULL"),
    "CHAR(10)": ("'x'",), "DATETIME": ("CURRENT_TIMESTAMP", "now() ON UPDATE now()", "'2020-01-02 03:04:05'"),
    "DATETIME(6)": ("CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)",), "DATE": ("'2001-01-01'", "(curdate())"),
    "BIT(12)": ("b'101'", "10", "2", "0x0F", "'1'", "(101)"),
    "ENUM('a','it''s','b,c')": ("'it''s'",), "DECIMAL(10,2)": ("1.50", "-0.25"), "UUID": ("uuid()",),
}  # fmt: skip


class _Statements:
    """Chooses statements. Many are refused by the server, which is no loss."""

    def __init__(self) -> None:
        self._random = randomness.chance("alterations")

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def definition(self) -> str:
        choose = self._random.choice
        kind = choose(list(_DEFAULTS)) if self._chance(0.5) else choose(_TYPES)
        parts = [kind]
        if self._chance(0.5):
            parts.append(choose(("NOT NULL", "NOT NULL", "NULL")))
        if kind in _DEFAULTS and self._chance(0.6):
            parts.append(f"DEFAULT {choose(_DEFAULTS[kind])}")
        if self._chance(0.12):
            parts.append(choose(("UNIQUE", "UNIQUE KEY", "COMMENT 'a; b'", "COMMENT 'it''s `x`'", "INVISIBLE", "CHECK (1 = 1)")))
        return " ".join(parts)

    def column(self) -> str:
        return self._random.choice(("a", "b", "c", "d", "e", "F", "g h", "order", "é"))

    def quoted(self) -> str:
        name = self.column()
        if name.isascii() and name.isalpha() and name != "order" and self._chance(0.5):
            return name.upper() if self._chance(0.3) else name
        return f"`{name}`"

    def columns(self) -> str:
        names = list(dict.fromkeys(self.column() for _ in range(self._random.randint(1, 3))))
        return ", ".join(f"`{name}`" for name in names)

    def place(self) -> str:
        return self._random.choice(("", "", "", " FIRST", f" AFTER {self.quoted()}"))

    def create(self, table: str) -> str:
        names = self._random.sample(("a", "b", "c", "d", "e", "F"), self._random.randint(1, 5))
        elements = [f"`{name}` {self.definition()}" for name in names]
        if self._chance(0.5):
            elements.append(f"PRIMARY KEY (`{names[0]}`)")
        if self._chance(0.4):
            elements.append(
                f"UNIQUE {self._random.choice(('', 'KEY', 'KEY u1', 'INDEX `u 2`'))} (`{self._random.choice(names)}`)"
            )
        options = self._random.choice(
            (
                "",
                "",
                "DEFAULT CHARSET=latin1",
                "COLLATE utf8mb3_bin",
                "ENGINE=InnoDB COMMENT='t; c' CHARACTER SET ascii ROW_FORMAT=DYNAMIC",
            )
        )
        return f"CREATE OR REPLACE TABLE {table} ({', '.join(elements)}) {options}"

    def _one(self, *choices: str) -> str:
        return self._random.choice(choices)

    def action(self) -> str:
        column, other, definition, place = self.quoted(), self.quoted(), self.definition(), self.place()
        default = self._one("5", "''", "NULL", "(1)")
        index = self._one("UNIQUE", "UNIQUE KEY uk", "CONSTRAINT c1 UNIQUE", "INDEX", "KEY k1")
        return self._one(
            f"ADD {self._one('', 'COLUMN', 'COLUMN IF NOT EXISTS')} {column} {definition}{place}",
            f"ADD COLUMN {column} {definition}{place}",
            f"ADD (`x` {definition}, `y` {self.definition()}), DROP COLUMN IF EXISTS x, DROP IF EXISTS `y`",
            f"DROP {self._one('', 'COLUMN', 'COLUMN IF EXISTS')} {column}",
            f"MODIFY {self._one('', 'COLUMN', 'COLUMN IF EXISTS')} {column} {definition}{place}",
            f"CHANGE {column} {other} {definition}{place}",
            f"RENAME COLUMN {column} TO {other}",
            f"ALTER {self._one('', 'COLUMN')} {column} SET DEFAULT {default}",
            f"ALTER {column} DROP DEFAULT",
            f"ADD PRIMARY KEY ({self.columns()})",
            "DROP PRIMARY KEY",
            f"ADD {index} ({self.columns()})",
            f"DROP INDEX {self._one('uk', 'c1', 'k1', 'u1', '`u 2`', 'a', 'b', 'c', 'd')}",
            "RENAME INDEX uk TO u1",
            f"CONVERT TO CHARACTER SET {self._one('latin1', 'utf8mb4', 'utf8mb4 COLLATE utf8mb4_bin')}",
            self._one("DEFAULT CHARACTER SET latin1", "COLLATE=utf8mb4_bin", "COMMENT 'new'", "ENGINE=Aria", "FORCE"),
        )

    def next(self, known: set[str]) -> str:
        table = self._random.choice(("t", "u", "`v w`"))
        plain = table.strip("`")
        if plain not in known or self._chance(0.08):
            return self.create(table)
        if self._chance(0.06):
            other = self._random.choice(("t", "u", "`v w`"))
            return self._random.choice(
                (
                    f"RENAME TABLE {table} TO spare, {other} TO {table}, spare TO {other}",
                    f"ALTER TABLE {table} RENAME {other}, ADD COLUMN z INT",
                    f"DROP TABLE IF EXISTS {table}",
                    f"CREATE OR REPLACE TABLE {other} LIKE {table}",
                    f"CREATE OR REPLACE TABLE {other} AS SELECT * FROM {table}",
                    f"CREATE UNIQUE INDEX uk ON {table} ({self.columns()})",
                    f"DROP INDEX uk ON {table}",
                    f"TRUNCATE {table}",
                )
            )
        return f"ALTER TABLE {table} " + ", ".join(self.action() for _ in range(self._random.choice((1, 1, 1, 2, 3))))


@pytest.mark.timeout(1200)
@pytest.mark.long
def test_model_stays_equal_to_the_server_through_random_alterations(modeled: ModeledDatabase) -> None:
    modeled.query("SET SESSION sql_mode = 'STRICT_ALL_TABLES', SESSION foreign_key_checks = 0")
    statements = _Statements()
    executed: list[str] = []
    for _ in range(_STATEMENTS * 20):
        if len(executed) == _STATEMENTS:
            break
        statement = statements.next({id.name for id in modeled.tables})
        try:
            modeled.execute(statement)
        except pymysql.err.MySQLError:
            continue
        executed.append(statement)
        names = {name for (name,) in modeled.query("SHOW TABLES")}
        assert names == {id.name for id in modeled.tables}, executed[-5:]
        for name in names:
            if f"{name}" in statement:
                try:
                    modeled.assert_equal(name)
                except AssertionError as e:
                    raise AssertionError(f"after {executed[-8:]}: {e}") from e
    assert len(executed) == _STATEMENTS


@pytest.mark.parametrize(
    "indexed",
    [
        "VARCHAR(9)", "CHARACTER VARYING(9)", "NATIONAL VARCHAR(9)", "NCHAR VARYING(9)", "VARCHAR(9) BINARY", "VARBINARY(9)",
        "CHAR(9)", "VARCHAR(40)", "BINARY(40)", "TEXT", "BLOB",
    ],
)  # fmt: skip
def test_an_index_of_a_prefix_follows_those_of_whole_columns(modeled: ModeledDatabase, indexed: str) -> None:
    modeled.execute(f"CREATE TABLE t (a {indexed} NOT NULL, i INT NOT NULL, UNIQUE (a(9)), UNIQUE (i))")
    modeled.assert_equal("t")
