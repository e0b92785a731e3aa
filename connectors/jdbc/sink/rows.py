"""From schemas to columns, and from records to rows, by the rules of Confluent's and Aiven's connectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from connect.data.schema import Schema, Type
from connect.errors import SchemaError
from connect.generated_code import evaluate
from connect.record import SinkRecord
from connectors.jdbc.options import SinkField
from connectors.jdbc.sink.row_changes import Operation, Row, Shape
from connectors.jdbc.table_name import TableName

COORDINATES = ("__connect_topic", "__connect_partition", "__connect_offset")
"""The columns of ``pk.mode=kafka`` when ``pk.fields`` does not name them."""

RowsOf = Callable[[Sequence[SinkRecord]], Sequence[Row]]


class KeyMode(Enum):
    """``pk.mode``: where the primary key comes from. The names are those of the originals' messages."""

    NONE = "none"
    KAFKA = "kafka"
    RECORD_KEY = "record_key"
    RECORD_VALUE = "record_value"


@dataclass(frozen=True, slots=True)
class FieldRules:
    """Which fields of a record become columns."""

    key_mode: KeyMode = KeyMode.NONE
    key_fields: tuple[str, ...] = ()
    key_fields_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By topic, in place of ``key_fields``."""
    whitelist: frozenset[str] = frozenset()
    """Empty is all."""
    text_column: str = "record_value"
    """Takes values that are text."""
    null_as_default: bool = True

    def keys_of(self, topic: str) -> tuple[str, ...]:
        return self.key_fields_of.get(topic, self.key_fields)


@dataclass(frozen=True, slots=True)
class RowPlan:
    """What becomes of records of one pair of schemas."""

    shape: Shape
    rows: RowsOf


@dataclass(frozen=True, slots=True)
class _Column:
    """A column, and where its value is: Python for it, with ``r`` the record, ``k`` and ``v`` the values of key and value."""

    field: SinkField
    source: str


def plan_writes(rules: FieldRules, topic: str, table: TableName, key_schema: Schema | None, value_schema: Schema) -> RowPlan:
    """Rows of whole records. Raises SchemaError when the schemas have not what the rules ask for."""
    if value_schema.type is Type.STRING:
        if rules.whitelist or rules.key_mode is KeyMode.RECORD_VALUE:
            raise SchemaError(
                "Value schema must be of type Struct: fields.whitelist and pk.mode=record_value name fields, the value is text"
            )
    elif value_schema.type is not Type.STRUCT:
        raise SchemaError(f"Value schema must be of type Struct, but is {value_schema.type.name}")
    columns = _key_columns(rules, topic, table, key_schema, value_schema)
    if value_schema.type is Type.STRING:
        columns.setdefault(rules.text_column, _Column(SinkField(rules.text_column, value_schema), "r.value"))
    for one in value_schema.fields or ():
        if one.name not in columns and (not rules.whitelist or one.name in rules.whitelist):
            columns[one.name] = _Column(SinkField(one.name, one.schema), f"v[{one.index}]")
    if not columns:
        raise SchemaError(f"No fields found using key and value schemas for table: {table.name}")
    ordered = _in_order(columns, value_schema)
    shape = Shape(table, Operation.WRITE, tuple(column.field for column in ordered))
    whole = [f"v[{one.index}]" for one in value_schema.fields or ()]
    if [column.source for column in ordered] == whole and not any(_key_default(rules, column) for column in ordered):
        return RowPlan(shape, _whole_values)
    return RowPlan(shape, _compiled(rules, ordered, key_schema))


def plan_deletes(rules: FieldRules, topic: str, table: TableName, key_schema: Schema) -> RowPlan:
    """Rows of keys alone. Raises SchemaError as above."""
    columns = list(_key_columns(rules, topic, table, key_schema, None).values())
    return RowPlan(
        Shape(table, Operation.DELETE, tuple(column.field for column in columns)), _compiled(rules, columns, key_schema)
    )


def _whole_values(records: Sequence[SinkRecord]) -> Sequence[Row]:
    return [record.value.values for record in records]


def _key_columns(
    rules: FieldRules, topic: str, table: TableName, key_schema: Schema | None, value_schema: Schema | None
) -> dict[str, _Column]:
    names = rules.keys_of(topic)
    match rules.key_mode:
        case KeyMode.NONE:
            return {}
        case KeyMode.KAFKA:
            return _coordinates(names, table)
        case KeyMode.RECORD_KEY:
            return _of_key(names, table, key_schema)
        case KeyMode.RECORD_VALUE:
            return _of_value(names, table, value_schema)


def _coordinates(names: Sequence[str], table: TableName) -> dict[str, _Column]:
    if len(names) not in (0, 3):
        raise SchemaError(
            f"PK mode for table '{table.name}' is KAFKA so there should either be no field names defined for defaults "
            f"{_listed(COORDINATES)} to be applicable, or exactly 3, defined fields are: {_listed(names)}"
        )
    parts = zip(names or COORDINATES, (Schema.STRING, Schema.INT32, Schema.INT64), ("topic", "partition", "offset"), strict=True)
    return {name: _Column(SinkField(name, schema, is_key=True), f"r.{part}") for name, schema, part in parts}


def _of_key(names: Sequence[str], table: TableName, schema: Schema | None) -> dict[str, _Column]:
    if schema is None:
        raise SchemaError(f"PK mode for table '{table.name}' is RECORD_KEY, but record key schema is missing")
    if schema.type.is_primitive:
        if len(names) != 1:
            raise SchemaError(
                "Need exactly one PK column defined since the key schema for records is a primitive type, "
                f"defined columns are: {_listed(names)}; name it with pk.fields"
            )
        return {names[0]: _Column(SinkField(names[0], schema, is_key=True), "r.key")}
    if schema.type is not Type.STRUCT:
        raise SchemaError(f"Key schema must be primitive type or Struct, but is of type: {schema.type.name}")
    return _members(names, schema, "k", f"PK mode for table '{table.name}' is RECORD_KEY", "key")


def _of_value(names: Sequence[str], table: TableName, schema: Schema | None) -> dict[str, _Column]:
    if schema is None:
        raise SchemaError(f"PK mode for table '{table.name}' is RECORD_VALUE, but record value schema is missing")
    return _members(names, schema, "v", f"PK mode for table '{table.name}' is RECORD_VALUE", "value")


def _members(names: Sequence[str], schema: Schema, variable: str, mode: str, side: str) -> dict[str, _Column]:
    found: dict[str, _Column] = {}
    for name in names or schema.field_names:
        member = schema.field(name)
        if member is None:
            raise SchemaError(
                f"{mode} with configured PK fields {_listed(names)}, but record {side} schema does not contain field: {name} "
                f"(it has {', '.join(schema.field_names)})"
            )
        found[name] = _Column(SinkField(name, member.schema, is_key=True), f"{variable}[{member.index}]")
    return found


def _in_order(columns: Mapping[str, _Column], value_schema: Schema) -> list[_Column]:
    """As the originals create tables: the coordinates under their own names, the value's fields, the rest by name."""
    first = [name for name in (*COORDINATES, *value_schema.field_names) if name in columns]
    names = dict.fromkeys([*first, *sorted(columns)])
    return [columns[name] for name in names]


def _compiled(rules: FieldRules, columns: Sequence[_Column], key_schema: Schema | None) -> RowsOf:
    """A function of the records. Names of fields are no part of its text."""
    defaults: dict[str, Any] = {}
    parts = []
    for place, column in enumerate(columns):
        if _key_default(rules, column):
            # Rows of one key must be known as such before the database sees them.
            defaults[f"d{place}"] = column.field.schema.default
            parts.append(f"d{place} if {column.source} is None else {column.source}")
        else:
            parts.append(column.source)
    text = ", ".join(f"({part})" for part in parts)
    loops = "for r in records"
    if any(column.source.startswith("k[") for column in columns):
        loops += " for k in (r.key.values,)"
    if any(column.source.startswith("v[") for column in columns):
        loops += " for v in (r.value.values,)"
    made: RowsOf = evaluate(f"lambda records: [({text},) {loops}]", defaults, title="rows of records")
    return made


def _key_default(rules: FieldRules, column: _Column) -> bool:
    return rules.null_as_default and column.field.is_key and column.field.schema.default is not None


def _listed(names: Sequence[str]) -> str:
    """A list as Java prints it."""
    return f"[{', '.join(names)}]"
