"""Drives a dialect over a database in a file, as the source and the sink do: for SQLite and DuckDB."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from connect.converters.json.converter import JsonConverter
from connect.data.logical import FarInstant
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connectors.jdbc.catalog import JdbcTable
from connectors.jdbc.database import ConnectionSettings, Database, Session
from connectors.jdbc.dialects.dialect import Dialect, RowReader, RowWriter
from connectors.jdbc.options import InsertMode, ReadOptions, SinkField, WriteOptions
from connectors.jdbc.sql import Sql
from connectors.jdbc.table_name import TableName
from connectors.jdbc.urls.connection_url import parse_connection_url

Row = Sequence[Any]


class Desk:
    """One database in a file, with a session."""

    def __init__(self, kind: str, path: Path | str, **settings: Any) -> None:
        self.kind, self.path = kind, path
        self.database = open_database(kind, path, **settings)
        self.session = self.database.session()

    @property
    def dialect(self) -> Dialect:
        return self.database.dialect

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs and commits statements of the test's own; the rows of the last."""
        rows: list[tuple[Any, ...]] = []
        for statement in statements:
            if statement.lstrip().upper().startswith(("SELECT", "PRAGMA", "DESCRIBE")):
                rows = self.session.query(Sql(statement), "testing")
            else:
                self.session.execute(Sql(statement), "testing")
        self.session.commit()
        return rows

    def table(self, name: str) -> JdbcTable:
        return self.dialect.find(self.session, TableName(name))

    def reader(self, name: str, options: ReadOptions | None = None, order: str = "") -> RowReader:
        table = self.table(name)
        query = Sql(f"SELECT * FROM {self.dialect.table_ref(table.name)}{order}")
        return self.dialect.reader(self.session, query, options or ReadOptions(), table)

    def read(
        self, name: str, options: ReadOptions | None = None, order: str = ""
    ) -> tuple[Sequence[tuple[str, Schema]], list[list[Any]]]:
        """Fields and all rows of a table."""
        return finish(self.reader(name, options, order))

    def query(self, text: str, options: ReadOptions | None = None) -> tuple[Sequence[tuple[str, Schema]], list[list[Any]]]:
        return finish(self.dialect.reader(self.session, Sql(text), options or ReadOptions()))

    def writer(
        self, name: str, fields: Sequence[SinkField], mode: InsertMode = InsertMode.INSERT, options: WriteOptions | None = None
    ) -> RowWriter:
        return self.dialect.writer(self.table(name), fields, mode, options or WriteOptions())

    def write(
        self,
        name: str,
        fields: Sequence[SinkField],
        rows: Sequence[Row],
        mode: InsertMode = InsertMode.INSERT,
        options: WriteOptions | None = None,
    ) -> None:
        self.writer(name, fields, mode, options).write(self.session, rows)
        self.session.commit()

    def close(self) -> None:
        self.session.close()
        self.database.close()


def open_database(kind: str, path: Path | str, **settings: Any) -> Database:
    target = parse_connection_url(f"jdbc:{kind}:{path}", None, None, {})
    return Database(ConnectionSettings(target, **{"attempts": 1, "pool_size": 4, **settings}))


@contextmanager
def session_of(database: Database) -> Iterator[Session]:
    session = database.session()
    try:
        yield session
    finally:
        session.close()
        database.close()


def finish(reader: RowReader) -> tuple[Sequence[tuple[str, Schema]], list[list[Any]]]:
    rows: list[list[Any]] = []
    try:
        while part := reader.read(1000).values:
            rows += part
    finally:
        reader.close()
    return reader.fields, rows


def sink_fields(fields: Sequence[tuple[str, Schema]], keys: Sequence[str] = ()) -> list[SinkField]:
    return [SinkField(name, schema, name in keys) for name, schema in fields]


def through_json(fields: Sequence[tuple[str, Schema]], rows: Sequence[Row]) -> list[list[Any]]:
    """The rows after they were records of a topic, as JSON; values that JSON or Python cannot hold stay as they are."""
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, False)
    found: list[list[Any]] = []
    for row in rows:
        kept = [i for i, value in enumerate(row) if not _has_no_json(value)]
        schema = Schema(Type.STRUCT, name="row", fields=[fields[i] for i in kept])
        record = converter.from_connect_data("t", schema, Struct(schema, [row[i] for i in kept]))
        back = list(row)
        for i, value in zip(kept, converter.to_connect_data("t", record).value.values, strict=True):
            back[i] = value
        found.append(back)
    return found


def _has_no_json(value: Any) -> bool:
    return isinstance(value, FarInstant) or (isinstance(value, float) and not math.isfinite(value))
