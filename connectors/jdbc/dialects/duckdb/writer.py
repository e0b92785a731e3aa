"""Writes rows into DuckDB: a batch is a table of Arrow that one statement takes over."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from connect.errors import DataError
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.duckdb.arrow_staging import Stage
from connectors.jdbc.dialects.duckdb.statement_timeout import Clock
from connectors.jdbc.options import SinkField, WriteOptions


class DuckDbWriter:
    """One statement that reads the rows from a view ``rows``, whose columns are c0, c1, ..."""

    def __init__(
        self,
        text: str,
        rows: str,
        fields: Sequence[SinkField],
        stages: Sequence[Stage],
        options: WriteOptions,
        doing: str,
        clock: Clock,
    ) -> None:
        self._text, self._rows, self._doing, self._clock = text, rows, doing, clock
        self._fields, self._stages = fields, stages
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
                with self._clock.running(driver):
                    driver.execute(self._text)
            finally:
                with contextlib.suppress(Exception):
                    driver.unregister(self._rows)

    def _table(self, rows: Sequence[Sequence[Any]]) -> Any:
        columns = list(zip(*rows, strict=True))
        arrays = []
        for values, stage, default, field in zip(columns, self._stages, self._defaults, self._fields, strict=True):
            if default is not None:
                values = tuple(default if value is None else value for value in values)
            try:
                arrays.append(stage.array(values))
            except (TypeError, AttributeError, ValueError, ArithmeticError, pa.ArrowException) as e:
                raise DataError(f"Field {field.name}: a value is none of {field.schema!r} ({e})") from e
        return pa.Table.from_arrays(arrays, [f"c{i}" for i in range(len(arrays))])
