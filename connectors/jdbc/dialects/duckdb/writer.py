"""Writes rows into DuckDB: a batch is an Arrow table that one statement reads."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from connect.errors import DataError
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.duckdb.arrow_staging import ArrowColumn
from connectors.jdbc.dialects.duckdb.statement_timeout import DuckDbStatementTimer
from connectors.jdbc.options import SinkField, WriteOptions


class DuckDbWriter:
    """Runs one statement that reads the rows from a view with columns c0, c1, ..."""

    def __init__(
        self,
        text: str,
        rows: str,
        fields: Sequence[SinkField],
        arrow_columns: Sequence[ArrowColumn],
        options: WriteOptions,
        doing: str,
        timer: DuckDbStatementTimer,
    ) -> None:
        self._text, self._rows, self._doing, self._timer = text, rows, doing, timer
        self._fields, self._stages = fields, arrow_columns
        self._defaults = [field.schema.default if options.null_as_default else None for field in fields]

    def write(self, session: DriverSession, rows: Sequence[Sequence[Any]]) -> None:
        if not rows:
            return
        table = self._table(rows)
        session.begin()
        with session.guarded(self._doing):
            driver = session.driver
            driver.register(self._rows, table)
            try:
                with self._timer.running(driver):
                    driver.execute(self._text)
            finally:
                with contextlib.suppress(Exception):
                    driver.unregister(self._rows)

    def _table(self, rows: Sequence[Sequence[Any]]) -> Any:
        columns = list(zip(*rows, strict=True))
        arrays = []
        for values, arrow, default, field in zip(columns, self._stages, self._defaults, self._fields, strict=True):
            if default is not None:
                values = tuple(default if value is None else value for value in values)
            try:
                arrays.append(arrow.array(values))
            except (TypeError, AttributeError, ValueError, ArithmeticError, pa.ArrowException) as e:
                raise DataError(f"Field {field.name}: a value does not match {field.schema!r} ({e})") from e
        return pa.Table.from_arrays(arrays, [f"c{i}" for i in range(len(arrays))])
