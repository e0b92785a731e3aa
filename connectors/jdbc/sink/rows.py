"""Maps schemas to columns and records to rows, by the rules of the Confluent and Aiven connectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from connect.data.schema import Schema, Type
from connect.errors import SchemaError
from connect.generated_code import evaluate
from connect.record import SinkRecord
from connectors.jdbc.options import SinkField
from connectors.jdbc.sink.row_changes import Operation, Row, RowBuilder, RowShape
from connectors.jdbc.table_name import TableName

COORDINATES = ("__connect_topic", "__connect_partition", "__connect_offset")
"""Default columns of ``pk.mode=kafka``."""


class KeyMode(Enum):
    """``pk.mode``: origin of the primary key. Confluent's and Aiven's messages have these names."""

    NONE = "none"
    KAFKA = "kafka"
    RECORD_KEY = "record_key"
    RECORD_VALUE = "record_value"


@dataclass(frozen=True, slots=True)
class FieldConfig:
    """Selects the fields of a record that become columns."""

    key_mode: KeyMode = KeyMode.NONE
    key_fields: tuple[str, ...] = ()
    key_fields_by_topic: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By topic; overrides ``key_fields``."""
    whitelist: frozenset[str] = frozenset()
    """Empty: all fields."""
    text_column: str = "record_value"
    """Column for values that are text."""
    null_as_default: bool = True

    def key_fields_for(self, topic: str) -> tuple[str, ...]:
        return self.key_fields_by_topic.get(topic, self.key_fields)


@dataclass(frozen=True, slots=True)
class RowPlan:
    """Converts records of one pair of schemas to rows."""

    shape: RowShape
    rows: RowBuilder


@dataclass(frozen=True, slots=True)
class _ColumnExpression:
    """A column and the Python expression of its value: ``r`` is the record, ``k`` and ``v`` are the lists of key and value."""

    field: SinkField
    code: str


def plan_writes(config: FieldConfig, topic: str, table: TableName, key_schema: Schema | None, value_schema: Schema) -> RowPlan:
    """Plans the rows of records with values. Raises SchemaError if the schemas do not fit the configuration."""
    if value_schema.type is Type.STRING:
        if config.whitelist or config.key_mode is KeyMode.RECORD_VALUE:
            raise SchemaError(
                "Value schema must be of type Struct: fields.whitelist and pk.mode=record_value name fields, the value is text"
            )
    elif value_schema.type is not Type.STRUCT:
        raise SchemaError(f"Value schema must be of type Struct, but is {value_schema.type.name}")
    columns = _key_columns(config, topic, table, key_schema, value_schema)
    if value_schema.type is Type.STRING:
        columns.setdefault(config.text_column, _ColumnExpression(SinkField(config.text_column, value_schema), "r.value"))
    for one in value_schema.fields or ():
        if one.name not in columns and (not config.whitelist or one.name in config.whitelist):
            columns[one.name] = _ColumnExpression(SinkField(one.name, one.schema), f"v[{one.index}]")
    if not columns:
        raise SchemaError(f"No fields found using key and value schemas for table: {table.name}")
    ordered = _order_columns(columns, value_schema)
    shape = RowShape(table, Operation.WRITE, tuple(column.field for column in ordered))
    all_values = [f"v[{one.index}]" for one in value_schema.fields or ()]
    if [column.code for column in ordered] == all_values and not any(_has_key_default(config, column) for column in ordered):
        return RowPlan(shape, _value_rows)
    return RowPlan(shape, _compile_rows(config, ordered, key_schema))


def plan_deletes(config: FieldConfig, topic: str, table: TableName, key_schema: Schema) -> RowPlan:
    """Plans rows that have only the key. Raises SchemaError like plan_writes."""
    columns = list(_key_columns(config, topic, table, key_schema, None).values())
    return RowPlan(
        RowShape(table, Operation.DELETE, tuple(column.field for column in columns)), _compile_rows(config, columns, key_schema)
    )


def _value_rows(records: Sequence[SinkRecord]) -> Sequence[Row]:
    return [record.value.values for record in records]


def _key_columns(
    config: FieldConfig, topic: str, table: TableName, key_schema: Schema | None, value_schema: Schema | None
) -> dict[str, _ColumnExpression]:
    names = config.key_fields_for(topic)
    match config.key_mode:
        case KeyMode.NONE:
            return {}
        case KeyMode.KAFKA:
            return _coordinates(names, table)
        case KeyMode.RECORD_KEY:
            return _columns_of_key(names, table, key_schema)
        case KeyMode.RECORD_VALUE:
            return _columns_of_value(names, table, value_schema)


def _coordinates(names: Sequence[str], table: TableName) -> dict[str, _ColumnExpression]:
    if len(names) not in (0, 3):
        raise SchemaError(
            f"PK mode for table '{table.name}' is KAFKA so there should either be no field names defined for defaults "
            f"{_format_list(COORDINATES)} to be applicable, or exactly 3, defined fields are: {_format_list(names)}"
        )
    parts = zip(names or COORDINATES, (Schema.STRING, Schema.INT32, Schema.INT64), ("topic", "partition", "offset"), strict=True)
    return {name: _ColumnExpression(SinkField(name, schema, is_key=True), f"r.{part}") for name, schema, part in parts}


def _columns_of_key(names: Sequence[str], table: TableName, schema: Schema | None) -> dict[str, _ColumnExpression]:
    if schema is None:
        raise SchemaError(f"PK mode for table '{table.name}' is RECORD_KEY, but record key schema is missing")
    if schema.type.is_primitive:
        if len(names) != 1:
            raise SchemaError(
                "Need exactly one PK column defined since the key schema for records is a primitive type, "
                f"defined columns are: {_format_list(names)}; name it with pk.fields"
            )
        return {names[0]: _ColumnExpression(SinkField(names[0], schema, is_key=True), "r.key")}
    if schema.type is not Type.STRUCT:
        raise SchemaError(f"Key schema must be primitive type or Struct, but is of type: {schema.type.name}")
    return _select_fields(names, schema, "k", f"PK mode for table '{table.name}' is RECORD_KEY", "key")


def _columns_of_value(names: Sequence[str], table: TableName, schema: Schema | None) -> dict[str, _ColumnExpression]:
    if schema is None:
        raise SchemaError(f"PK mode for table '{table.name}' is RECORD_VALUE, but record value schema is missing")
    return _select_fields(names, schema, "v", f"PK mode for table '{table.name}' is RECORD_VALUE", "value")


def _select_fields(names: Sequence[str], schema: Schema, variable: str, mode: str, side: str) -> dict[str, _ColumnExpression]:
    found: dict[str, _ColumnExpression] = {}
    for name in names or schema.field_names:
        member = schema.field(name)
        if member is None:
            raise SchemaError(
                f"{mode} with configured PK fields {_format_list(names)}, but record {side} schema does not contain field: "
                f"{name} (it has {', '.join(schema.field_names)})"
            )
        found[name] = _ColumnExpression(SinkField(name, member.schema, is_key=True), f"{variable}[{member.index}]")
    return found


def _order_columns(columns: Mapping[str, _ColumnExpression], value_schema: Schema) -> list[_ColumnExpression]:
    """Orders columns like Confluent's connector: coordinates with default names, fields of the value, the rest by name."""
    first = [name for name in (*COORDINATES, *value_schema.field_names) if name in columns]
    names = dict.fromkeys([*first, *sorted(columns)])
    return [columns[name] for name in names]


def _compile_rows(config: FieldConfig, columns: Sequence[_ColumnExpression], key_schema: Schema | None) -> RowBuilder:
    """Compiles a function that builds rows. Field names are not part of its source."""
    defaults: dict[str, Any] = {}
    parts = []
    for index, column in enumerate(columns):
        if _has_key_default(config, column):
            # The writer must recognize rows of one key before the database fills in defaults.
            defaults[f"d{index}"] = column.field.schema.default
            parts.append(f"d{index} if {column.code} is None else {column.code}")
        else:
            parts.append(column.code)
    text = ", ".join(f"({part})" for part in parts)
    loops = "for r in records"
    if any(column.code.startswith("k[") for column in columns):
        loops += " for k in (r.key.values,)"
    if any(column.code.startswith("v[") for column in columns):
        loops += " for v in (r.value.values,)"
    build_rows: RowBuilder = evaluate(f"lambda records: [({text},) {loops}]", defaults, title="rows of records")
    return build_rows


def _has_key_default(config: FieldConfig, column: _ColumnExpression) -> bool:
    return config.null_as_default and column.field.is_key and column.field.schema.default is not None


def _format_list(names: Sequence[str]) -> str:
    """Formats a list like Java."""
    return f"[{', '.join(names)}]"
