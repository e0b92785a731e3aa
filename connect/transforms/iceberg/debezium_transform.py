"""DebeziumTransform: replaces a change event of Debezium by its row, with the block ``_cdc``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.data.java_text import java_text
from connect.data.logical import instant_of, timestamp_schema
from connect.data.schema import Schema, Type
from connect.data.struct import Struct, validate_put
from connect.errors import DataError
from connect.record import ConnectRecord, SinkRecord
from connect.strict import is_strict
from connect.transforms.api import Transformation
from connect.transforms.iceberg.cdc import (
    CDC,
    DELETE,
    INSERT,
    KEY,
    OFFSET,
    OPERATION,
    SOURCE,
    TARGET,
    TIME,
    UPDATE,
    refuse_drop,
    required_text,
    with_block,
)
from connect.transforms.record_copies import copy_record
from connect.transforms.structs import copier, new_struct, require_fields, require_map, require_struct, struct_schema_like

PURPOSE = "Debezium transform"
_PATTERN = "cdc.target.pattern"
_OPERATIONS = {"u": UPDATE, "d": DELETE}
_BLOCK = (
    (OPERATION, Schema.STRING),
    (TIME, timestamp_schema()),
    (OFFSET, Schema.OPTIONAL_INT64),
    (SOURCE, Schema.STRING),
    (TARGET, Schema.STRING),
)
_MAX_SCHEMAS = 64
_CONFIG_DEF = ConfigDef().define(
    _PATTERN, ConfigType.STRING, None, importance=Importance.MEDIUM,
    doc="Pattern of the field _cdc.target: {db} and {table} stand for the names in the event. Default: {db}.{table}.",
)  # fmt: skip


class _RowSchema(NamedTuple):
    """The schema of a row with its block; ``old`` and ``key`` are those that it was created from."""

    old: Schema
    key: Schema | None
    block: Schema
    row: Schema
    copy: Any


class DebeziumTransform(Transformation):
    """The fields of ``after`` (``before`` of a deleted row) become those of the value. A null value passes, and an event without
    a schema whose row is no map is dropped. Raises DataError for other values."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._pattern: str | None = _CONFIG_DEF.parse(configs)[_PATTERN]
        self._strict = is_strict(configs)
        self._schemas: dict[tuple[int, int], _RowSchema] = {}

    def close(self) -> None:
        self._schemas.clear()

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if record.value is None:
            return record
        return self._apply_to_map(record) if record.value_schema is None else self._apply_to_struct(record)

    def _apply_to_struct(self, record: ConnectRecord) -> ConnectRecord:
        value = require_struct(record.value_schema, record.value, PURPOSE)
        operation = _OPERATIONS.get(required_text(value.get("op"), "op", PURPOSE), INSERT)
        side = "before" if operation is DELETE else "after"
        row = value.get_typed(side, Type.STRUCT)
        time = value.get_typed("ts_ms", Type.INT64)
        if time is None:
            raise DataError(f"ts_ms is null or missing, which the {PURPOSE} needs")
        source = value.get_typed("source", Type.STRUCT)
        if source is None:
            raise DataError(f"source is null or missing, which the {PURPOSE} needs")
        # Source.schema is preferred if there is one, for example from PostgreSQL.
        database = source.get_typed("schema" if source.schema.field("schema") is not None else "db", Type.STRING)
        name, target = self._names(database, source.get_typed("table", Type.STRING))
        schema = self._row_schema(value, side, record.key_schema)
        block = [operation, instant_of(time), _offset(record), name, target]
        if schema.key is not None:
            validate_put(KEY, schema.key, record.key)
            block.append(record.key)
        if row is None:
            raise DataError(f"{side} is null in an event with op={value.get('op')}, so there is no row for the {PURPOSE}")
        new = copy_record(record)
        new.value_schema = schema.row
        new.value = new_struct(schema.row, [*schema.copy(row.values), new_struct(schema.block, block)])
        return new

    def _row_schema(self, value: Struct, side: str, key: Schema | None) -> _RowSchema:
        field = value.schema.field(side)
        assert field is not None
        old = field.schema
        known = self._schemas.get((id(old), id(key)))
        if known is None:
            block = struct_schema_like(None, [*_BLOCK, *(() if key is None else [(KEY, key)])])
            fields = require_fields(old)
            row = struct_schema_like(old, [*((f.name, f.schema) for f in fields), (CDC, block)])
            if len(self._schemas) >= _MAX_SCHEMAS:
                del self._schemas[next(iter(self._schemas))]
            # The entry holds the schemas, so their ids stay valid.
            known = self._schemas[(id(old), id(key))] = _RowSchema(old, key, block, row, copier(fields, True))
        return known

    def _apply_to_map(self, record: ConnectRecord) -> ConnectRecord | None:
        value = require_map(record.value, PURPOSE)
        operation = _OPERATIONS.get(required_text(value.get("op"), "op", PURPOSE), INSERT)
        row = value.get("before" if operation is DELETE else "after")
        if not isinstance(row, dict):
            refuse_drop("the row is not an object", self._strict)
            return None
        source = require_map(value.get("source"), PURPOSE)
        name = "schema" if "schema" in source else "db"
        database = required_text(source.get(name), f"source.{name}", PURPOSE)
        name, target = self._names(database, required_text(source.get("table"), "source.table", PURPOSE))
        block = {OPERATION: operation, TIME: value.get("ts_ms"), SOURCE: name, TARGET: target}
        if isinstance(record, SinkRecord):
            block[OFFSET] = record.offset
        if isinstance(record.key, dict):
            block[KEY] = record.key
        new = copy_record(record)
        new.value = with_block(row, block, self._strict)
        return new

    def _names(self, database: str | None, table: str | None) -> tuple[str, str]:
        """The source and the target."""
        name = f"{java_text(None, database)}.{java_text(None, table)}"
        if not self._pattern:
            return name, name
        if database is None or table is None:
            raise DataError(f"{_PATTERN} is set, and the event's source has no name of its database or table: {name}")
        return name, self._pattern.replace("{db}", database).replace("{table}", table)


def _offset(record: ConnectRecord) -> int | None:
    return record.offset if isinstance(record, SinkRecord) else None
