"""Tables with odd names on a real server: DDL, the schema history, and events name them as the server does."""

from __future__ import annotations

import pytest

from connectors.mysql.connection import quote_identifier
from connectors.mysql.history_keys import HistorySettings
from connectors.mysql.schema.ddl import apply, apply_changes
from connectors.mysql.schema.history.history import SchemaHistory
from connectors.mysql.schema.history.store import MemoryHistoryStore
from connectors.mysql.schema.model import MySqlTable, TableId
from tests.integration.mysql.schema.conftest import ModeledDatabase
from tests.support.cases import first_fast

NAMES = (
    "a`b",
    "a.b",
    "a b",
    'a"b',
    '"q"',
    '"q',
    'q"',
    "'",
    "a'b",
    "é漢字",
    "1a",
    "2024",
    "a\\b",
    "--x",
    "/*x*/",
    "a;b",
    "#a",
    "select",
)


@pytest.mark.parametrize("name", first_fast(NAMES, 3))
def test_odd_names_are_understood_and_recovered(modeled: ModeledDatabase, name: str) -> None:
    table, other = quote_identifier(name), quote_identifier(name + "_")
    modeled.execute(f"CREATE TABLE {table} ({table} INT, UNIQUE KEY {table} ({table}))")
    modeled.execute(f"ALTER TABLE {quote_identifier(modeled.name)}.{table} ADD {other} TEXT COMMENT 'x' FIRST")
    modeled.execute(f"RENAME TABLE {table} TO {other}")
    assert set(modeled.tables) == {TableId(modeled.name, name + "_")}
    modeled.assert_equal(name + "_")

    settings = HistorySettings()
    history, tables = SchemaHistory(MemoryHistoryStore(), {"server": "s"}, settings), dict[TableId, MySqlTable]()
    for number, statement in enumerate((f"CREATE TABLE {table} (a INT PRIMARY KEY)", f"RENAME TABLE {table} TO {other}"), 1):
        changes = apply(tables, statement, "d", modeled.context)
        history.record({"file": "b.000001", "pos": number}, "d", statement, changes, ts_ms=1)
        apply_changes(changes, tables, {})
    assert history.recover({"file": "b.000001", "pos": 2}, modeled.context).tables == tables


def test_names_of_digits_follow_a_dot(modeled: ModeledDatabase) -> None:
    for name in ("2024", "1e5", "0x1", "1a"):
        modeled.execute(f"CREATE TABLE {modeled.name}.{name} (a INT)")
        modeled.assert_equal(name)
