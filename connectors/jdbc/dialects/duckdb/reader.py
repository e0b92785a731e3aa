"""Reads rows of DuckDB as Arrow record batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from connect.data.schema import Schema
from connect.errors import DataError
from connectors.jdbc.catalog import JdbcTable
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.dialect import Rows
from connectors.jdbc.dialects.duckdb.statement_timeout import DuckDbStatementTimer
from connectors.jdbc.dialects.duckdb.temporal import exact_instants
from connectors.jdbc.dialects.duckdb.types import DuckDbColumnDecoder, column_decoder, describe_type, quoted
from connectors.jdbc.options import ReadOptions
from connectors.jdbc.sql import Sql

_ROWS_AHEAD = 8192
"""Rows of one record batch: a few of DuckDB's vectors."""


class DuckDbReader:
    """A running query on a connection of its own, because one with an open result can do nothing else. It sees only committed
    rows."""

    def __init__(
        self,
        session: DriverSession,
        query: Sql,
        options: ReadOptions,
        table: JdbcTable | None,
        opened: Callable[[Any], None],
        timer: DuckDbStatementTimer,
    ) -> None:
        self._session, self._timer = session, timer
        self._doing = f"reading {table.name}" if table is not None else "running the query"
        self._connection: Any = None
        text, values = query.render("qmark")
        with session.guarded(self._doing):
            self._connection = session.driver.duplicate()
            opened(self._connection)
            relation = self._connection.sql(text, params=list(values or ()))
            names, types = relation.columns, [describe_type(type_) for type_ in relation.types]
        try:
            self._decoders = self._column_decoders(names, types, options, table)
            self.fields: Sequence[tuple[str, Schema]] = tuple(
                (name, decoder.schema) for name, decoder in zip(names, self._decoders, strict=True)
            )
            self._exact = [self._exact_converter(name, names, types, options) for name in options.exact]
            with session.guarded(self._doing), timer.running(self._connection):
                self._batches: Any = self._projected(relation).to_arrow_reader(max(options.batch_rows, _ROWS_AHEAD))
        except BaseException:
            self.close()
            raise
        self._batch: Any = None
        self._at = 0

    def _column_decoders(
        self, names: list[str], types: list[Any], options: ReadOptions, table: JdbcTable | None
    ) -> list[DuckDbColumnDecoder]:
        found: list[DuckDbColumnDecoder] = []
        for name, type_ in zip(names, types, strict=True):
            if names.count(name) > 1:
                raise DataError(f"The query has {names.count(name)} columns named {name}; rename them with AS")
            column = table.by_name.get(name) if table is not None else None
            found.append(column_decoder(type_, name, options, optional=column is None or column.nullable))
        return found

    def _projected(self, relation: Any) -> Any:
        """Casts columns that Arrow has no type for."""
        if not any(decoder.cast for decoder in self._decoders):
            return relation
        parts = [
            f"CAST(#{i} AS {decoder.type}) AS {quoted(f'c{i}')}" if decoder.cast else f"#{i} AS {quoted(f'c{i}')}"
            for i, decoder in enumerate(self._decoders, 1)
        ]
        return relation.project(", ".join(parts))

    def _exact_converter(self, name: str, names: list[str], types: list[Any], options: ReadOptions) -> tuple[int, Any]:
        if name not in names:
            raise DataError(f"The result has no column {name}; it has {', '.join(names)}")
        index = names.index(name)
        if types[index].id == "date" or types[index].id.startswith("timestamp"):
            return index, exact_instants(options)
        decoder, fields = self._decoders[index], self.fields[index]

        def integers(column: Any) -> list[Any]:
            return [None if v is None else _whole(v, fields[0]) for v in decoder.values(column)]

        return index, integers

    def read(self, most: int) -> Rows:
        batch = self._next(most)
        if batch is None:
            return Rows([], [] if self._exact else None)
        columns = [decoder.values(column) for decoder, column in zip(self._decoders, batch.columns, strict=True)]
        exact = None
        if self._exact:
            exact = list(zip(*(convert(batch.columns[i]) for i, convert in self._exact), strict=True))
        return Rows(list(map(list, zip(*columns, strict=True))), exact)

    def _next(self, most: int) -> Any:
        while self._batch is None or self._at >= self._batch.num_rows:
            with self._session.guarded(self._doing), self._timer.running(self._connection):
                try:
                    self._batch = self._batches.read_next_batch()
                except StopIteration:
                    return None
                except pa.ArrowException as e:
                    # If the query fails while running, Arrow's exception has DuckDB's message.
                    raise RuntimeError(str(e)) from e
            self._at = 0
        part = self._batch.slice(self._at, most)
        self._at += part.num_rows
        return part

    def close(self) -> None:
        connection, self._connection = self._connection, None
        # An unread result would keep the file open as long as something, such as a traceback, references this reader.
        self._batches = self._batch = None
        if connection is not None:
            connection.close()


def _whole(value: Any, name: str) -> int:
    number = int(value)
    if number != value:
        raise DataError(f"Column {name}: {value} is not a whole number")
    return number
