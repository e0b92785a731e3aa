"""What becomes of the records of one kind and one table: shapes for their rows, and the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter

from connect.data.schema import Schema
from connect.record import SinkRecord
from connectors.jdbc.debezium_sink.config import DebeziumPlannerConfig
from connectors.jdbc.debezium_sink.naming import IdentifierCase
from connectors.jdbc.debezium_sink.rows import ColumnSource, RecordSchemas, RowBuilder, compile_rows, key_columns, write_columns
from connectors.jdbc.debezium_sink.toast import UnavailableValues
from connectors.jdbc.debezium_sink.types import build_sink_field, rounds_to_micros, truncate_to_micros
from connectors.jdbc.options import InsertMode, SinkField
from connectors.jdbc.sink.row_changes import Operation, Row, RowChanges, RowShape
from connectors.jdbc.table_name import TableName


@dataclass(frozen=True, slots=True)
class TargetDatabase:
    """The database as far as plans have to know it."""

    backend: str
    """SQLAlchemy's name."""
    identifier_case: IdentifierCase


@dataclass(frozen=True, slots=True)
class WritePlan:
    """Rows to write."""

    shape: RowShape
    rows: RowBuilder
    unavailable: UnavailableValues
    mode: InsertMode
    _partial: dict[tuple[int, ...], tuple[RowShape, Callable[[Row], Row]]] = field(default_factory=dict)

    def changes(self, records: Sequence[SinkRecord]) -> list[RowChanges]:
        """Rows that are whole."""
        return [RowChanges(self.shape, self.rows(records), records)]

    def updates(self, records: Sequence[SinkRecord]) -> list[RowChanges]:
        """The same of updates, in which values may be left out."""
        rows = self.rows(records)
        missing = self.unavailable.find(rows)
        if not missing:
            return [RowChanges(self.shape, rows, records)]
        # The table is looked up, or made, with all columns.
        found = [RowChanges(self.shape, (), ())]
        for places, numbers in groupby(range(len(rows)), lambda number: missing.get(number, ())):
            run = list(numbers)
            part, those = rows[run[0] : run[-1] + 1], records[run[0] : run[-1] + 1]
            if not places:
                found.append(RowChanges(self.shape, part, those))
                continue
            shape, take = self._without(places)
            if all(one.is_key for one in shape.fields) and (shape.insert_mode or self.mode) is not InsertMode.UPSERT:
                continue  # nothing is known but the key
            found.append(RowChanges(shape, list(map(take, part)), those))
        return found

    def _without(self, places: tuple[int, ...]) -> tuple[RowShape, Callable[[Row], Row]]:
        made = self._partial.get(places)
        if made is None:
            kept = [place for place in range(len(self.shape.fields)) if place not in places]
            fields = tuple(self.shape.fields[place] for place in kept)
            # A row that is not there would need the value: it can only be changed. Else what is known of it is kept.
            required = any(not self.shape.fields[place].schema.optional for place in places)
            mode = InsertMode.UPDATE if required and self.mode is InsertMode.UPSERT else None
            made = self._partial[places] = (
                RowShape(self.shape.table, Operation.WRITE, fields, mode),
                itemgetter(*kept) if len(kept) > 1 else lambda row: tuple(row[place] for place in kept),
            )
        return made


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """Rows to delete: their keys."""

    shape: RowShape
    rows: RowBuilder

    def changes(self, records: Sequence[SinkRecord]) -> list[RowChanges]:
        return [RowChanges(self.shape, self.rows(records), records)]


def plan_writes(
    config: DebeziumPlannerConfig, kind: RecordSchemas, table: TableName, target: TargetDatabase, row_schema: Schema, row: str
) -> WritePlan:
    """Raises SchemaError when records of this kind have no key and need one."""
    columns = _cut(write_columns(config, kind, row_schema), target)
    shape = RowShape(table, Operation.WRITE, _fields(config, columns, target))
    return WritePlan(
        shape,
        compile_rows(columns, row, len(row_schema.fields or ())),
        UnavailableValues(config.unavailable, [column.schema for column in columns]),
        config.insert_mode,
    )


def plan_deletes(
    config: DebeziumPlannerConfig,
    kind: RecordSchemas,
    table: TableName,
    target: TargetDatabase,
    row_schema: Schema | None,
    row: str,
) -> DeletePlan:
    """``row_schema`` and ``row`` are of the row as it was, None where there is none. Raises SchemaError as above."""
    columns = _cut(key_columns(config, kind, row_schema), target)
    shape = RowShape(table, Operation.DELETE, _fields(config, columns, target))
    return DeletePlan(shape, compile_rows(columns, row, len(row_schema.fields or ()) if row_schema is not None else 0))


def plan_truncate(table: TableName, records: Sequence[SinkRecord]) -> RowChanges:
    return RowChanges(RowShape(table, Operation.TRUNCATE, ()), [()] * len(records), records)


def _cut(columns: Sequence[ColumnSource], target: TargetDatabase) -> list[ColumnSource]:
    return [
        column
        if truncate_to_micros(column.schema, target.backend) is None
        else replace(column, divisor=1000, rounding=500 if rounds_to_micros(column.schema, target.backend) else 0)
        for column in columns
    ]


def _fields(config: DebeziumPlannerConfig, columns: Sequence[ColumnSource], target: TargetDatabase) -> tuple[SinkField, ...]:
    return tuple(_each(config, columns, target))


def _each(config: DebeziumPlannerConfig, columns: Sequence[ColumnSource], target: TargetDatabase) -> Iterator[SinkField]:
    for column in columns:
        name = target.identifier_case.column(column.name)
        yield build_sink_field(name, column.schema, target.backend, config.postgis_schema, is_key=column.is_key)
