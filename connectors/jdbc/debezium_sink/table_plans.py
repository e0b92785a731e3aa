"""What becomes of the records of one kind and one table: shapes for their rows, and the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter

from connect.data.schema import Schema
from connect.record import SinkRecord
from connectors.jdbc.debezium_sink.naming import Folding
from connectors.jdbc.debezium_sink.rows import Column, Kind, RowsOf, compiled, key_columns, write_columns
from connectors.jdbc.debezium_sink.rules import Rules
from connectors.jdbc.debezium_sink.types import cut_to_micros, rounds_to_micros, sink_field
from connectors.jdbc.debezium_sink.unavailable_values import Unavailable
from connectors.jdbc.options import InsertMode, SinkField
from connectors.jdbc.sink.row_changes import Changes, Operation, Row, Shape
from connectors.jdbc.table_name import TableName


@dataclass(frozen=True, slots=True)
class Target:
    """The database as far as plans have to know it."""

    backend: str
    """SQLAlchemy's name."""
    folding: Folding


@dataclass(frozen=True, slots=True)
class WritePlan:
    """Rows to write."""

    shape: Shape
    rows: RowsOf
    unavailable: Unavailable
    mode: InsertMode
    _partial: dict[tuple[int, ...], tuple[Shape, Callable[[Row], Row]]] = field(default_factory=dict)

    def changes(self, records: Sequence[SinkRecord]) -> list[Changes]:
        """Rows that are whole."""
        return [Changes(self.shape, self.rows(records), records)]

    def updates(self, records: Sequence[SinkRecord]) -> list[Changes]:
        """The same of updates, in which values may be left out."""
        rows = self.rows(records)
        missing = self.unavailable.missing(rows)
        if not missing:
            return [Changes(self.shape, rows, records)]
        # The table is looked up, or made, with all columns.
        found = [Changes(self.shape, (), ())]
        for places, numbers in groupby(range(len(rows)), lambda number: missing.get(number, ())):
            run = list(numbers)
            part, those = rows[run[0] : run[-1] + 1], records[run[0] : run[-1] + 1]
            if not places:
                found.append(Changes(self.shape, part, those))
                continue
            shape, take = self._without(places)
            if all(one.is_key for one in shape.fields) and (shape.insert_mode or self.mode) is not InsertMode.UPSERT:
                continue  # nothing is known but the key
            found.append(Changes(shape, list(map(take, part)), those))
        return found

    def _without(self, places: tuple[int, ...]) -> tuple[Shape, Callable[[Row], Row]]:
        made = self._partial.get(places)
        if made is None:
            kept = [place for place in range(len(self.shape.fields)) if place not in places]
            fields = tuple(self.shape.fields[place] for place in kept)
            # A row that is not there would need the value: it can only be changed. Else what is known of it is kept.
            required = any(not self.shape.fields[place].schema.optional for place in places)
            mode = InsertMode.UPDATE if required and self.mode is InsertMode.UPSERT else None
            made = self._partial[places] = (
                Shape(self.shape.table, Operation.WRITE, fields, mode),
                itemgetter(*kept) if len(kept) > 1 else lambda row: tuple(row[place] for place in kept),
            )
        return made


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """Rows to delete: their keys."""

    shape: Shape
    rows: RowsOf

    def changes(self, records: Sequence[SinkRecord]) -> list[Changes]:
        return [Changes(self.shape, self.rows(records), records)]


def write_plan(rules: Rules, kind: Kind, table: TableName, target: Target, row_schema: Schema, row: str) -> WritePlan:
    """Raises SchemaError when records of this kind have no key and need one."""
    columns = _cut(write_columns(rules, kind, row_schema), target)
    shape = Shape(table, Operation.WRITE, _fields(rules, columns, target))
    return WritePlan(
        shape,
        compiled(columns, row, len(row_schema.fields or ())),
        Unavailable(rules.unavailable, [column.schema for column in columns]),
        rules.insert_mode,
    )


def delete_plan(rules: Rules, kind: Kind, table: TableName, target: Target, row_schema: Schema | None, row: str) -> DeletePlan:
    """``row_schema`` and ``row`` are of the row as it was, None where there is none. Raises SchemaError as above."""
    columns = _cut(key_columns(rules, kind, row_schema), target)
    shape = Shape(table, Operation.DELETE, _fields(rules, columns, target))
    return DeletePlan(shape, compiled(columns, row, len(row_schema.fields or ()) if row_schema is not None else 0))


def truncation(table: TableName, records: Sequence[SinkRecord]) -> Changes:
    return Changes(Shape(table, Operation.TRUNCATE, ()), [()] * len(records), records)


def _cut(columns: Sequence[Column], target: Target) -> list[Column]:
    return [
        column
        if cut_to_micros(column.schema, target.backend) is None
        else replace(column, divisor=1000, rounding=500 if rounds_to_micros(column.schema, target.backend) else 0)
        for column in columns
    ]


def _fields(rules: Rules, columns: Sequence[Column], target: Target) -> tuple[SinkField, ...]:
    return tuple(_each(rules, columns, target))


def _each(rules: Rules, columns: Sequence[Column], target: Target) -> Iterator[SinkField]:
    for column in columns:
        name = target.folding.column(column.name)
        yield sink_field(name, column.schema, target.backend, rules.postgis_schema, is_key=column.is_key)
