"""Reads rows through SQLAlchemy's cursor, with any driver."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from connect.data.schema import Schema
from connect.errors import DataError
from connectors.jdbc.catalog import JdbcColumn, JdbcTable
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.dialect import Rows, unsupported_type
from connectors.jdbc.dialects.generic.types import GenericColumnDecoder, column_decoder, exact_converter, infer_type
from connectors.jdbc.options import ReadOptions
from connectors.jdbc.sql import Sql

log = logging.getLogger(__name__)


class GenericReader:
    """A running query. Types that are known only from the values are inferred from the first batch."""

    def __init__(self, session: DriverSession, query: Sql, options: ReadOptions, table: JdbcTable | None) -> None:
        self._session = session
        self._doing = f"reading {table.name}" if table is not None else "running the query"
        text, values = query.render(session.dialect.paramstyle)
        with session.guarded(self._doing):
            self._result: Any = session.connection.exec_driver_sql(text, values)
            names = [str(entry[0]) for entry in self._result.cursor.description]
        self._ahead: list[Any] | None = None
        columns = [self._column(name, i, table, options) for i, name in enumerate(names)]
        self._selected: list[tuple[int, GenericColumnDecoder]] = []
        fields: list[tuple[str, Schema]] = []
        for i, column in enumerate(columns):
            decoder = column_decoder(column, options)
            if decoder is None:
                error = unsupported_type(table.name if table is not None else None, column)
                if not options.skip_unsupported:
                    self.close()
                    raise error
                log.warning("%s; omitting it", error.message)
                continue
            self._selected.append((i, decoder))
            fields.append((column.name, decoder.schema))
        self.fields: Sequence[tuple[str, Schema]] = tuple(fields)
        missing = [name for name in options.exact if name not in names]
        if missing:
            self.close()
            raise DataError(f"The result has no column {missing[0]}; it has {', '.join(names)}")
        self._exact = [(names.index(name), exact_converter(columns[names.index(name)], options)) for name in options.exact]

    def _column(self, name: str, index: int, table: JdbcTable | None, options: ReadOptions) -> JdbcColumn:
        if table is not None and (known := table.column(name)) is not None:
            return known
        if self._ahead is None:
            with self._session.guarded(self._doing):
                self._ahead = self._result.fetchmany(options.batch_rows)
        native = infer_type(name, [row[index] for row in self._ahead])
        return JdbcColumn(name, type(native).__name__, native=native)

    def read(self, most: int) -> Rows:
        rows = self._next(most)
        if not rows:
            return Rows([], [] if self._exact else None)
        columns = list(zip(*rows, strict=True))
        exact = None
        if self._exact:
            exact = list(zip(*([convert(value) for value in columns[i]] for i, convert in self._exact), strict=True))
        read = [_converted(columns[i], decoder) for i, decoder in self._selected]
        return Rows([list(row) for row in zip(*read, strict=True)], exact)

    def _next(self, most: int) -> list[Any]:
        if self._ahead:
            rows, self._ahead = self._ahead[:most], self._ahead[most:]
            return rows
        with self._session.guarded(self._doing):
            return list(self._result.fetchmany(most))

    def close(self) -> None:
        self._ahead = []
        self._result.close()


def _converted(values: Sequence[Any], decoder: GenericColumnDecoder) -> Sequence[Any]:
    if decoder.plain is not None and {decoder.plain, type(None)}.issuperset(map(type, values)):
        return values
    convert = decoder.convert
    return [None if value is None else convert(value) for value in values]
