"""Plans rows for one table: how records with the same schemas become rows to write or delete."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter

from connect.data.schema import Schema
from connect.record import SinkRecord
from connectors.jdbc.debezium_sink.config import DebeziumPlannerConfig
from connectors.jdbc.debezium_sink.naming import IdentifierCase
from connectors.jdbc.debezium_sink.rows import ColumnSource, RecordSchemas, compile_rows, key_columns, write_columns
from connectors.jdbc.debezium_sink.toast import UnavailableValues
from connectors.jdbc.debezium_sink.types import build_sink_field, rounds_to_micros, truncate_to_micros
from connectors.jdbc.options import InsertMode, SinkField
from connectors.jdbc.sink.row_changes import Operation, Row, RowBuilder, RowChanges, RowShape
from connectors.jdbc.table_name import TableName


@dataclass(frozen=True, slots=True)
class TargetDatabase:
    """The target database."""

    backend: str
    """SQLAlchemy's backend name."""
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
        """Plans records whose rows are complete."""
        return [RowChanges(self.shape, self.rows(records), records)]

    def updates(self, records: Sequence[SinkRecord]) -> list[RowChanges]:
        """Plans updates, whose rows may have placeholders for unavailable values."""
        rows = self.rows(records)
        unavailable = self.unavailable.find(rows)
        if not unavailable:
            return [RowChanges(self.shape, rows, records)]
        # Without rows: makes the writer describe, or create, the table with all columns.
        found = [RowChanges(self.shape, (), ())]
        for missing, numbers in groupby(range(len(rows)), lambda number: unavailable.get(number, ())):
            run = list(numbers)
            part, those = rows[run[0] : run[-1] + 1], records[run[0] : run[-1] + 1]
            if not missing:
                found.append(RowChanges(self.shape, part, those))
                continue
            shape, select = self._without(missing)
            if all(one.is_key for one in shape.fields) and (shape.insert_mode or self.mode) is not InsertMode.UPSERT:
                continue  # only the key is known, so there is nothing to change
            found.append(RowChanges(shape, list(map(select, part)), those))
        return found

    def _without(self, missing: tuple[int, ...]) -> tuple[RowShape, Callable[[Row], Row]]:
        """Returns the shape without these columns, and a function that removes them from a row."""
        partial = self._partial.get(missing)
        if partial is None:
            present = [index for index in range(len(self.shape.fields)) if index not in missing]
            fields = tuple(self.shape.fields[index] for index in present)
            # A new row would need the value of a required column, so such a row is only updated. Otherwise it is upserted.
            required = any(not self.shape.fields[index].schema.optional for index in missing)
            mode = InsertMode.UPDATE if required and self.mode is InsertMode.UPSERT else None
            partial = self._partial[missing] = (
                RowShape(self.shape.table, Operation.WRITE, fields, mode),
                itemgetter(*present) if len(present) > 1 else lambda row: tuple(row[index] for index in present),
            )
        return partial


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """Plans rows to delete, which have only the key."""

    shape: RowShape
    rows: RowBuilder

    def changes(self, records: Sequence[SinkRecord]) -> list[RowChanges]:
        return [RowChanges(self.shape, self.rows(records), records)]


def plan_writes(
    config: DebeziumPlannerConfig, schemas: RecordSchemas, table: TableName, target: TargetDatabase, row_schema: Schema, row: str
) -> WritePlan:
    """Raises SchemaError if the records need a key and have none."""
    columns = _truncate_nanos(write_columns(config, schemas, row_schema), target)
    shape = RowShape(table, Operation.WRITE, tuple(_build_fields(config, columns, target)))
    return WritePlan(
        shape,
        compile_rows(columns, row, len(row_schema.fields or ())),
        UnavailableValues(config.unavailable, [column.schema for column in columns]),
        config.insert_mode,
    )


def plan_deletes(
    config: DebeziumPlannerConfig,
    schemas: RecordSchemas,
    table: TableName,
    target: TargetDatabase,
    row_schema: Schema | None,
    row: str,
) -> DeletePlan:
    """``row_schema`` and ``row`` are of the row before the change, if known. Raises SchemaError like plan_writes."""
    columns = _truncate_nanos(key_columns(config, schemas, row_schema), target)
    shape = RowShape(table, Operation.DELETE, tuple(_build_fields(config, columns, target)))
    return DeletePlan(shape, compile_rows(columns, row, len(row_schema.fields or ()) if row_schema is not None else 0))


def plan_truncate(table: TableName, records: Sequence[SinkRecord]) -> RowChanges:
    return RowChanges(RowShape(table, Operation.TRUNCATE, ()), [()] * len(records), records)


def _truncate_nanos(columns: Sequence[ColumnSource], target: TargetDatabase) -> list[ColumnSource]:
    return [
        column
        if truncate_to_micros(column.schema, target.backend) is None
        else replace(column, divisor=1000, rounding=500 if rounds_to_micros(column.schema, target.backend) else 0)
        for column in columns
    ]


def _build_fields(config: DebeziumPlannerConfig, columns: Sequence[ColumnSource], target: TargetDatabase) -> Iterator[SinkField]:
    for column in columns:
        name = target.identifier_case.column(column.name)
        yield build_sink_field(name, column.schema, target.backend, config.postgis_schema, is_key=column.is_key)
