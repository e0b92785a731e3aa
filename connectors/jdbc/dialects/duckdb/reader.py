"""Reads rows of DuckDB as record batches of Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from connect.data.schema import Schema
from connect.errors import DataError
from connectors.jdbc.catalog import Table
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.dialect import Rows
from connectors.jdbc.dialects.duckdb.statement_timeout import Clock
from connectors.jdbc.dialects.duckdb.temporal import exact_instants
from connectors.jdbc.dialects.duckdb.type_description import described
from connectors.jdbc.dialects.duckdb.types import Node, node_of, quoted
from connectors.jdbc.options import ReadOptions
from connectors.jdbc.sql import Sql

_ROWS_AHEAD = 8192
"""Rows of one record batch: a few of the parts that DuckDB works in."""


class DuckDbReader:
    """A query that runs on a connection of its own: one with an open result can do nothing else. So it sees what is committed."""

    def __init__(
        self,
        session: DriverSession,
        query: Sql,
        options: ReadOptions,
        table: Table | None,
        opened: Callable[[Any], None],
        clock: Clock,
    ) -> None:
        self._session, self._clock = session, clock
        self._doing = f"reading {table.name}" if table is not None else "running the query"
        self._connection: Any = None
        text, values = query.render("qmark")
        with session.guarded(self._doing):
            self._connection = session.driver.duplicate()
            opened(self._connection)
            relation = self._connection.sql(text, params=list(values or ()))
            names, types = relation.columns, [described(type_) for type_ in relation.types]
        try:
            self._nodes = self._chosen(names, types, options, table)
            self.fields: Sequence[tuple[str, Schema]] = tuple(
                (name, node.schema) for name, node in zip(names, self._nodes, strict=True)
            )
            self._exact = [self._exact_of(name, names, types, options) for name in options.exact]
            with session.guarded(self._doing), clock.running(self._connection):
                self._batches: Any = self._projected(relation).to_arrow_reader(max(options.batch_rows, _ROWS_AHEAD))
        except BaseException:
            self.close()
            raise
        self._batch: Any = None
        self._at = 0

    def _chosen(self, names: list[str], types: list[Any], options: ReadOptions, table: Table | None) -> list[Node]:
        found: list[Node] = []
        for name, type_ in zip(names, types, strict=True):
            if names.count(name) > 1:
                raise DataError(f"The query gives {names.count(name)} columns the name {name}; name each differently with AS")
            column = table.by_name.get(name) if table is not None else None
            found.append(node_of(type_, name, options, optional=column is None or column.nullable))
        return found

    def _projected(self, relation: Any) -> Any:
        """What Arrow has no type for is cast to what it has."""
        if not any(node.cast for node in self._nodes):
            return relation
        parts = [
            f"CAST(#{i} AS {node.type}) AS {quoted(f'c{i}')}" if node.cast else f"#{i} AS {quoted(f'c{i}')}"
            for i, node in enumerate(self._nodes, 1)
        ]
        return relation.project(", ".join(parts))

    def _exact_of(self, name: str, names: list[str], types: list[Any], options: ReadOptions) -> tuple[int, Any]:
        if name not in names:
            raise DataError(f"The result has no column {name}; it has {', '.join(names)}")
        index = names.index(name)
        if types[index].id == "date" or types[index].id.startswith("timestamp"):
            return index, exact_instants(options)
        node, fields = self._nodes[index], self.fields[index]

        def integers(column: Any) -> list[Any]:
            return [None if v is None else _whole(v, fields[0]) for v in node.values(column)]

        return index, integers

    def read(self, most: int) -> Rows:
        batch = self._next(most)
        if batch is None:
            return Rows([], [] if self._exact else None)
        columns = [node.values(column) for node, column in zip(self._nodes, batch.columns, strict=True)]
        exact = None
        if self._exact:
            exact = list(zip(*(convert(batch.columns[i]) for i, convert in self._exact), strict=True))
        return Rows(list(map(list, zip(*columns, strict=True))), exact)

    def _next(self, most: int) -> Any:
        while self._batch is None or self._at >= self._batch.num_rows:
            with self._session.guarded(self._doing), self._clock.running(self._connection):
                try:
                    self._batch = self._batches.read_next_batch()
                except StopIteration:
                    return None
                except pa.ArrowException as e:
                    # Where the query fails on its way, Arrow has DuckDB's words.
                    raise RuntimeError(str(e)) from e
            self._at = 0
        part = self._batch.slice(self._at, most)
        self._at += part.num_rows
        return part

    def close(self) -> None:
        connection, self._connection = self._connection, None
        # What is left of a result keeps the file open for as long as anything, a traceback for one, has this reader.
        self._batches = self._batch = None
        if connection is not None:
            connection.close()


def _whole(value: Any, name: str) -> int:
    number = int(value)
    if number != value:
        raise DataError(f"Column {name}: {value} is no whole number")
    return number
