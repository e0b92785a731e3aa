"""Declared types and defaults."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from connectors.sqlite.types import column_type, parse_declared_type
from connectors.sqlite.types.config import SqliteTypeSettings
from connectors.sqlite.types.declared import TypeAffinity
from connectors.sqlite.types.defaults import parse_default

DECLARED = (
    "INT",
    "INTEGER",
    "TINYINT",
    "BIGINT",
    "UNSIGNED BIG INT",
    "INT8",
    "CHARACTER(20)",
    "VARCHAR(255)",
    "NATIVE CHARACTER(70)",
    "TEXT",
    "CLOB",
    "BLOB",
    "",
    "REAL",
    "DOUBLE",
    "DOUBLE PRECISION",
    "FLOAT",
    "NUMERIC",
    "DECIMAL(10,5)",
    "BOOLEAN",
    "DATE",
    "DATETIME",
    "STRING",
    "FLOATING POINT",
    "CHARINT",
    "Any",
    "decimal ( 4 , 2 )",
    "json",
)
_OF_TEXT = {
    "integer": {TypeAffinity.INTEGER, TypeAffinity.NUMERIC},
    "text": {TypeAffinity.TEXT, TypeAffinity.BLOB},
    "real": {TypeAffinity.REAL},
}


@pytest.mark.parametrize("declared", DECLARED)
def test_affinity_is_that_of_sqlite(declared: str) -> None:
    """SQLite shows the affinity by what becomes of values."""
    db = sqlite3.connect(":memory:")
    db.execute(f"CREATE TABLE t(v {declared})")
    db.execute("INSERT INTO t VALUES ('7'), (8)")
    of_text, of_number = [row[0] for row in db.execute("SELECT typeof(v) FROM t")]
    db.close()
    affinity = parse_declared_type(declared).affinity
    assert affinity in _OF_TEXT[of_text]
    assert (affinity is TypeAffinity.TEXT) == (of_number == "text")


def test_length_and_scale() -> None:
    found = parse_declared_type(" decimal ( 4 , 2 ) ")
    assert (found.name, found.length, found.scale) == ("DECIMAL", 4, 2)
    assert parse_declared_type("VARCHAR(9)").length == 9
    assert parse_declared_type("odd(a)").length is None


@pytest.mark.parametrize(
    ("declared", "sql", "expected"),
    [
        ("INT", "5", 5),
        ("INT", "-5", -5),
        ("INT", "'5'", None),
        ("INT", "NULL", None),
        ("INT", "(1 + 1)", None),
        ("REAL", "1e3", 1000.0),
        ("TEXT", "'a''b'", "a'b"),
        ("TEXT", "CURRENT_TIMESTAMP", ""),
        ("BLOB", "x'0A'", b"\n"),
        ("BOOLEAN", "true", True),
        ("", "5", None),
        ("INT", None, None),
    ],
)
def test_defaults(declared: str, sql: str | None, expected: Any) -> None:
    mapped = column_type(parse_declared_type(declared), SqliteTypeSettings())
    assert parse_default(sql, mapped) == expected
