"""Writes a batch with one statement, whatever its size.

Upserts, updates, and deletes send each column as one array and join the rows that ``unnest`` returns; plain inserts of many rows
are a COPY into the table. The arrays have the types of the columns, so the server parses each value as in a COPY.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from connect.errors import DataError, UnsupportedError
from connectors.jdbc.catalog import JdbcColumn, JdbcTable
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.logical_types import logical_type
from connectors.jdbc.dialects.postgres import libpq
from connectors.jdbc.dialects.postgres.catalog import PostgresColumnDetails
from connectors.jdbc.dialects.postgres.copy_text import Texts, array_parameter, copy_lines
from connectors.jdbc.dialects.postgres.value_encoder import ColumnEncoder, TextStyle, build_encoder
from connectors.jdbc.options import SinkField, WriteOptions

_MOST_ROWS = 20_000
_COPY_FROM_ROWS = 20
"""From this number of rows on, COPY, with two round trips, is faster than a statement, with one."""


@dataclass(frozen=True, slots=True)
class WrittenField:
    """A field and the column it is written to."""

    name: str
    column: JdbcColumn
    encoder: ColumnEncoder
    null: str | None
    """The text of a null: the schema's default, or None for null."""
    is_key: bool

    @property
    def native(self) -> PostgresColumnDetails:
        native: PostgresColumnDetails = self.column.native
        return native


def written_fields(table: JdbcTable, fields: Sequence[SinkField], options: WriteOptions) -> list[WrittenField]:
    """Matches fields with columns. Raises DataError for a field without a column, or that is generated or does not fit."""
    found: list[WrittenField] = []
    for field in fields:
        column = table.column(field.name)
        what = f"Field {field.name}"
        if column is None:
            raise DataError(f"{what} has no column in {table.name}, which has {', '.join(c.name for c in table.columns)}")
        if column.generated:
            raise DataError(f"{what} cannot be written: column {column.name} of {table.name} is computed (GENERATED ALWAYS AS)")
        native: PostgresColumnDetails = column.native
        encoder = build_encoder(logical_type(field.schema, options, field.name), native.type, native.typmod, options, what)
        default = field.schema.default if options.null_as_default else None
        null = None if default is None else encoder.one(default)
        found.append(WrittenField(field.name, column, encoder, null, field.is_key))
    return found


def select_from_arrays(fields: Sequence[WrittenField]) -> tuple[str, str]:
    """Returns the select list and FROM clause of the rows: columns ``c0``, ``c1``, ... of ``r``, from one array parameter
    each."""
    arrays: list[str] = []
    values: list[str] = []
    for i, field in enumerate(fields):
        type = field.native.type
        # unnest would flatten composite types and nested arrays.
        if type.element is None and type.delimiter == "," and type.kind != "c":
            arrays.append(f"${i + 1}::{type.sql}[]")
            values.append(f"r.c{i}")
        else:
            arrays.append(f"${i + 1}::text[]")
            values.append(f"r.c{i}::{type.sql} AS c{i}")
    names = ", ".join(f"c{i}" for i in range(len(fields)))
    return ", ".join(values), f"unnest({', '.join(arrays)}) AS r({names})"


class StatementWriter:
    """Writes with one statement whose parameters are the columns."""

    def __init__(self, statement: str, fields: Sequence[WrittenField], doing: str, *, last_of_key: bool = False) -> None:
        """``last_of_key``: send only the last of several rows with the same key."""
        self._statement = statement.encode()
        self._fields = tuple(fields)
        self._doing = doing
        self._last_of_key = last_of_key

    def write(self, session: DriverSession, rows: Sequence[Sequence[Any]]) -> None:
        for at in range(0, len(rows), _MOST_ROWS):
            self._write(session, rows[at : at + _MOST_ROWS])

    def _write(self, session: DriverSession, rows: Sequence[Sequence[Any]]) -> None:
        columns = encode_columns(self._fields, rows)
        if self._last_of_key:
            columns = _last_of_each_key(columns, self._fields)
        parameters = [array_parameter(*column) for column in columns]
        with session.guarded(self._doing):
            _reject_redshift(session)
            libpq.begin(session)
            with psycopg.RawCursor(session.driver) as cursor:
                cursor.execute(self._statement, parameters, prepare=False)


class CopyWriter:
    """Inserts with COPY, or with a statement if there are few rows."""

    def __init__(self, target: str, few: StatementWriter, fields: Sequence[WrittenField], doing: str) -> None:
        self._copy = f"COPY {target} FROM STDIN"
        self._few = few
        self._fields = tuple(fields)
        self._doing = doing

    def write(self, session: DriverSession, rows: Sequence[Sequence[Any]]) -> None:
        if len(rows) < _COPY_FROM_ROWS:
            self._few.write(session, rows)
            return
        for at in range(0, len(rows), _MOST_ROWS):
            block = copy_lines(encode_columns(self._fields, rows[at : at + _MOST_ROWS]))
            with session.guarded(self._doing):
                _reject_redshift(session)
                pgconn = libpq.begin(session)
                libpq.start_copy(pgconn, self._copy)
                libpq.send_copy(pgconn, block)


def encode_columns(fields: Sequence[WrittenField], rows: Sequence[Sequence[Any]]) -> list[tuple[str, Texts, TextStyle]]:
    """Returns the encoded rows by column."""
    columns = zip(*rows, strict=True)
    return [
        (field.name, field.encoder.column(values, field.null), field.encoder.style)
        for field, values in zip(fields, columns, strict=True)
    ]


def _last_of_each_key(
    columns: list[tuple[str, Texts, TextStyle]], fields: Sequence[WrittenField]
) -> list[tuple[str, Texts, TextStyle]]:
    keys = list(zip(*(column[1] for column, field in zip(columns, fields, strict=True) if field.is_key), strict=True))
    last = {key: i for i, key in enumerate(keys)}
    if len(last) == len(keys):
        return columns
    return [(name, [texts[i] for i in last.values()], style) for name, texts, style in columns]


def _reject_redshift(session: DriverSession) -> None:
    if libpq.server_kind(session) is libpq.ServerKind.REDSHIFT:
        raise UnsupportedError(f"{session.label} is Redshift, which does not support this sink's statements")
