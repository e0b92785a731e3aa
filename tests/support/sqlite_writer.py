"""Writes random transactions to a SQLite database until it is killed: ``python -m tests.support.sqlite_writer FILE SEED``."""

from __future__ import annotations

import random
import sqlite3
import sys
import threading

from tests.support.waiting import WAIT_S

TABLES = (
    "CREATE TABLE keyed(id INTEGER PRIMARY KEY, a TEXT UNIQUE, b TEXT COLLATE NOCASE UNIQUE, n INT)",
    "CREATE TABLE pairs(x TEXT, y INT, n REAL, PRIMARY KEY (x, y)) WITHOUT ROWID",
    "CREATE TABLE named(name TEXT PRIMARY KEY, data BLOB)",
    "CREATE TABLE plain(n INT, t TEXT)",
    # Triggers and constraints of the application, which change more rows.
    "CREATE TABLE children(id INTEGER PRIMARY KEY, parent INT REFERENCES keyed(id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "CREATE TRIGGER count AFTER UPDATE OF n ON pairs BEGIN UPDATE keyed SET n = coalesce(n, 0) + 1 WHERE id = NEW.y; END",
)
KEYS = {"keyed": ("id",), "pairs": ("x", "y"), "named": ("name",), "plain": (), "children": ("id",)}
_CONFLICTS = ("", "OR REPLACE", "OR IGNORE")


def create_tables(connection: sqlite3.Connection) -> None:
    for sql in TABLES:
        connection.execute(sql)


def write_change(connection: sqlite3.Connection, choice: random.Random) -> None:
    """Runs one statement. Raises IntegrityError for a conflict that is not resolved."""
    conflict, k, n = choice.choice(_CONFLICTS), choice.randrange(25), choice.randrange(1000)
    letter = choice.choice("abcABC") + str(choice.randrange(6))
    statements: list[tuple[str, tuple[object, ...]]] = [
        (f"INSERT {conflict} INTO keyed VALUES (?, ?, ?, ?)", (choice.choice((k, None)), f"a{n % 30}", letter, n)),
        ("INSERT INTO keyed VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET n = excluded.n + 1", (k, f"a{n % 30}", letter, n)),
        (f"UPDATE {conflict} keyed SET b = ?, id = id + ? WHERE id = ?", (letter, choice.choice((0, 0, 100)), k)),
        ("DELETE FROM keyed WHERE id % 25 = ?", (k,)),
        (f"INSERT {conflict} INTO pairs VALUES (?, ?, ?)", (letter, k % 5, n / 8)),
        ("UPDATE pairs SET n = n * 1.1 WHERE y = ?", (k % 5,)),
        (f"UPDATE {conflict} pairs SET x = ? WHERE y = ?", (letter, k % 5)),
        ("DELETE FROM pairs WHERE x = ?", (letter,)),
        (f"INSERT {conflict} INTO named VALUES (?, ?)", (letter, choice.randbytes(choice.choice((3, 3000))))),
        ("DELETE FROM named WHERE name = ?", (letter,)),
        ("INSERT INTO plain VALUES (?, ?)", (n, letter)),
        ("UPDATE plain SET t = ? WHERE n % 7 = ?", (letter, k % 7)),
        ("DELETE FROM plain WHERE n % 11 = ?", (k % 11,)),
        ("INSERT OR IGNORE INTO children SELECT ?, id FROM keyed WHERE id = ?", (n, k)),
    ]
    connection.execute(*choice.choice(statements))


def write_transaction(connection: sqlite3.Connection, choice: random.Random) -> None:
    """Commits a few changes, or rolls them back."""
    connection.execute("BEGIN IMMEDIATE")
    for _ in range(choice.choice((1, 2, 5, 40))):
        try:
            write_change(connection, choice)
        except sqlite3.IntegrityError:
            continue
    connection.execute("ROLLBACK" if choice.random() < 0.1 else "COMMIT")


def open_database(path: str, choice: random.Random) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, timeout=WAIT_S)
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute(f"PRAGMA recursive_triggers={choice.choice(('ON', 'OFF'))}")
    return connection


def main() -> None:
    path, seed = sys.argv[1:]
    choice = random.Random(seed)
    connection = open_database(path, choice)
    pause = threading.Event()
    while not pause.wait(0.003):  # slower than the task reads
        write_transaction(connection, choice)


if __name__ == "__main__":
    main()
