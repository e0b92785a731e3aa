"""Reads rows of tables in chunks, in the order of their identities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from connect.errors import ConfigError, ConnectError, RetriableError
from connectors.sqlite.connection import SqliteConnection, quote_identifier
from connectors.sqlite.schema.catalog import SqliteTable, TableCapture
from connectors.sqlite.snapshot.jobs import TableJob


class RowChunk(NamedTuple):
    """Rows with their identities first, and whether they are the last ones of the table."""

    rows: Sequence[Sequence[Any]]
    identity_width: int
    is_last: bool

    def identity(self, index: int) -> tuple[Any, ...]:
        return tuple(self.rows[index][: self.identity_width])


def read_chunk(
    connection: SqliteConnection, capture: TableCapture, job: TableJob, size: int, max_bytes: int, override: str | None
) -> RowChunk:
    """Reads the next rows, until they have about ``max_bytes``. ``override`` is a SELECT that replaces the table, with all of its
    columns."""
    table = capture.table
    # Qualified: SQLite reads an unknown name in quotes as a text.
    identity = [f"source.{quote_identifier(name)}" for name in table.identity]
    columns = [*identity, *(f"source.{quote_identifier(name)}" for name in capture.stored)]
    table_text = quote_identifier(table.name) if override is None else f"({override.strip().rstrip(';')})"
    conditions = [f"({job.condition})"] if job.condition else []
    parameters: list[Any] = []
    if job.after is not None:
        conditions.append(f"({', '.join(identity)}) > ({', '.join('?' * len(identity))})")
        parameters += job.after
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    order = ", ".join(str(i + 1) for i in range(len(identity)))
    sql = f"SELECT {', '.join(columns)} FROM {table_text} AS source{where} ORDER BY {order} LIMIT ?"
    try:
        rows, is_end = connection.query_part(sql, [*parameters, size + 1], max_bytes, what=f"read table {table}")
    except RetriableError:
        raise
    except ConnectError as e:
        if override is None:
            raise
        raise _incomplete(table, e.message) from e
    if override is not None and rows and None in rows[0][: len(identity)]:  # SQLite has no rowid of a subquery without one
        raise _incomplete(table, f"the rows of table {table} lack {', '.join(table.identity)}")
    return RowChunk(rows[:size], len(identity), is_end and len(rows) <= size)


def _incomplete(table: SqliteTable, problem: str) -> ConfigError:
    return ConfigError(
        f"{problem}; the statement must select all columns of the table, and rowid unless it has an INTEGER PRIMARY KEY or is "
        "WITHOUT ROWID",
        key=f"snapshot.select.statement.overrides.{table}",
    )


def has_rows(connection: SqliteConnection, capture: TableCapture) -> bool:
    """Whether a table has any row."""
    return bool(connection.query(f"SELECT 1 FROM {quote_identifier(capture.table.name)} LIMIT 1"))
