"""What the Spark sink is expected to have in its tables, and where they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import ConfigError
from connect.record import SinkRecord, TopicPartition
from connect.verification import ExpectedRows, TargetTable
from connectors.spark.config import SparkSinkConfig
from connectors.spark.config_keys import CURRENT, DELETED, HARD, NO_METADATA, OP, PARQUET, SCD2, SEQ, SOFT, VERSION_COLUMNS
from connectors.spark.verification.tables import RowSelection, open_table
from connectors.spark.verification.written_offsets import WrittenOffsets

_SOURCE_FIELDS = ("db", "schema", "table")


@dataclass(slots=True)
class _RowGroup:
    """Rows of one table whose records have the same schemas."""

    table: str
    row: Schema | None
    key: Schema | None
    rows: list[Any]
    keys: list[Any]
    records: list[int]


class SparkVerification:
    """Implements :class:`connect.verification.VerifiableSink`."""

    negative_zero = True

    def __init__(self, config: SparkSinkConfig) -> None:
        routes = config.routes
        if routes is not None and (routes.is_dynamic or routes.field):
            raise ConfigError("sluice verify does not support tables that are chosen by a field of each record")
        if routes is not None and len(routes.tables) > 1:
            raise ConfigError(
                f"sluice verify compares a row with one table, and this connector writes each record to {len(routes.tables)}: "
                f"{', '.join(routes.tables)}. Use a connector for each table"
            )
        self._config = config
        self._written = WrittenOffsets(config)
        settings = config.table
        self.keeps_deleted_rows = settings.upserts and settings.delete_mode not in (HARD, SOFT)
        self.ignores_missing_columns = settings.schema_evolution in ("none", "lenient")

    def expect(self, records: Sequence[SinkRecord]) -> Sequence[ExpectedRows]:
        groups: dict[tuple[object, ...], _RowGroup] = {}
        for index, record in enumerate(records):
            value = record.value
            if value is None:
                continue
            row, source, is_event = _row_of(value)
            if is_event and row is None:
                continue
            if not isinstance(row, Struct | dict):
                row = {"value": row} if not is_event else row
            table = self._table(record.topic, source)
            if isinstance(row, Struct):
                shape: object = id(row.schema)
                schema: Schema | None = row.schema
            else:
                shape, schema = None, None
                if record.value_schema is not None and not is_event and set(row) == {"value"}:
                    schema, shape = record.value_schema, id(record.value_schema)
            place = (table, shape, id(record.key_schema))
            group = groups.get(place)
            if group is None:
                group = groups[place] = _RowGroup(table, schema, record.key_schema, [], [], [])
            group.rows.append(row)
            group.keys.append(record.key)
            group.records.append(index)
        return [self._expected(group) for group in groups.values()]

    def _table(self, topic: str, source: Any) -> str:
        if self._config.routes is not None:
            return self._config.routes.tables[0]
        if not self._config.names_need_source:
            return self._config.table_name(topic, None, None, None)
        get: Callable[[str], Any] = source.get if source is not None else lambda name: None
        known = source.schema.field_names if isinstance(source, Struct) else _SOURCE_FIELDS
        database, schema, table = (get(name) if name in known else None for name in _SOURCE_FIELDS)
        return self._config.table_name(topic, database, schema, table)

    def _expected(self, group: _RowGroup) -> ExpectedRows:
        settings = self._config.of_table(group.table)
        columns: dict[str, tuple[Schema | None, Sequence[Any]]] = {}
        if group.row is not None and group.row.type is Type.STRUCT:
            rows = [row.values for row in group.rows]
            for field, values in zip(group.row.fields or (), zip(*rows, strict=True), strict=True):
                columns[field.name] = field.schema, values
        else:
            for name in dict.fromkeys(name for row in group.rows for name in row):
                columns[name] = group.row, [row.get(name) for row in group.rows]
        key = settings.key_columns
        if not key:
            key = self._add_key(group, columns)
        left_out = set()
        if settings.upserts and settings.delete_field:
            left_out.add(settings.delete_field)
        if OP in settings.metadata_columns and OP in columns:
            left_out.add(OP)
        renames = settings.schema.renames
        found = {renames.get(name, name): column for name, column in columns.items() if name not in left_out}
        return ExpectedRows(group.table, tuple(renames.get(name, name) for name in key), found, group.records)

    @staticmethod
    def _add_key(group: _RowGroup, columns: dict[str, tuple[Schema | None, Sequence[Any]]]) -> tuple[str, ...]:
        """The names of the key's fields; those that the row lacks become columns."""
        first = group.keys[0]
        if isinstance(first, Struct):
            for field in first.schema.fields or ():
                if field.name not in columns:
                    columns[field.name] = field.schema, [key.values[field.index] for key in group.keys]
            return tuple(first.schema.field_names)
        if isinstance(first, dict):
            for name in first:
                if name not in columns:
                    columns[name] = None, [key.get(name) for key in group.keys]
            return tuple(first)
        return ()

    def open(self, table: str, key: Sequence[str]) -> TargetTable:
        settings = self._config.of_table(table)
        hidden = {*settings.metadata_columns} - {NO_METADATA}
        condition = None
        if settings.orders_by_source:
            hidden.add(SEQ)
        if settings.write_mode == SCD2:
            hidden |= {*VERSION_COLUMNS, DELETED}
            condition = f'"{CURRENT}"'
        elif settings.soft_deletes:
            hidden.add(DELETED)
            condition = f'"{DELETED}" IS NOT TRUE'
        hidden.add(settings.rescue_column)
        is_log = not settings.upserts
        if is_log and not {OP, "__partition", "__offset"} <= set(settings.metadata_columns):
            raise ConfigError(
                f"table {table} keeps every event, and its newest event per key can be found only with the columns __op, "
                "__partition, and __offset: add them to metadata.columns, or verify an upsert table"
            )
        if is_log and self._config.table_format == PARQUET and not key:
            raise ConfigError(f"table {table} keeps every event, and its records have no key")
        return open_table(self._config, table, RowSelection(tuple(key), condition, is_log, frozenset(hidden)))

    def written_offsets(self, table: str) -> Mapping[TopicPartition, int]:
        return self._written.of(table)

    def close(self) -> None:
        """Does nothing: tables are closed one by one."""


def _row_of(value: Any) -> tuple[Any, Any, bool]:
    """The row of a record, its source block, and whether the record is a change event. The row of a delete is None."""
    if isinstance(value, Struct):
        names = value.schema.field_names
        if "op" in names and "source" in names and ("after" in names or "before" in names):
            return (value.get("after") if "after" in names else None), value.get("source"), True
        return value, None, False
    if isinstance(value, Mapping) and "op" in value and "source" in value and ("after" in value or "before" in value):
        return value.get("after"), value.get("source"), True
    return value, None, False
