"""Maps schemas to columns and records to rows, by the rules of the Debezium sink: key columns first, then the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from connect.data.headers import Header
from connect.data.schema import Schema, Type
from connect.errors import SchemaError
from connect.generated_code import evaluate
from connectors.jdbc.debezium_sink.config import DebeziumKeyMode, DebeziumPlannerConfig
from connectors.jdbc.sink.row_changes import RowBuilder
from connectors.jdbc.sink.rows import COORDINATES


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """A column and the Python expression of its value: ``r`` is the record; ``k``, ``v`` and ``h`` are the lists of values of its
    key, row and headers."""

    name: str
    schema: Schema
    source: str
    is_key: bool = False
    divisor: int = 1
    """Numbers are divided by this, rounded down."""
    rounding: int = 0
    """Added before the division."""

    @property
    def code(self) -> str:
        """Python expression of the column's value."""
        if self.divisor == 1:
            return self.source
        return f"(None if {self.source} is None else ({self.source} + {self.rounding}) // {self.divisor})"


@dataclass(frozen=True, slots=True)
class RecordSchemas:
    """Topic and schemas that records of one plan have in common."""

    topic: str
    key: Schema | None
    value: Schema | None
    headers: tuple[tuple[str, Schema | None], ...] = ()


def write_columns(config: DebeziumPlannerConfig, schemas: RecordSchemas, row: Schema) -> list[ColumnSource]:
    """Returns the columns of rows with the schema ``row``. Raises SchemaError if the key is missing."""
    keys = key_columns(config, schemas, row)
    names = {column.name for column in keys}
    rest = [
        ColumnSource(one.name, one.schema, f"v[{one.index}]")
        for one in row.fields or ()
        if one.name not in names and config.fields.includes_field(schemas.topic, one.name)
    ]
    if not keys and not rest:
        raise SchemaError(f"field.include.list or field.exclude.list excludes all fields of topic {schemas.topic}")
    return [*keys, *rest]


def key_columns(config: DebeziumPlannerConfig, schemas: RecordSchemas, row: Schema | None) -> list[ColumnSource]:
    """Returns the columns of the key, if any. Raises SchemaError like write_columns."""
    match config.key_mode:
        case DebeziumKeyMode.NONE:
            return []
        case DebeziumKeyMode.KAFKA:
            parts = zip(COORDINATES, (Schema.STRING, Schema.INT32, Schema.INT64), ("topic", "partition", "offset"), strict=True)
            return [ColumnSource(name, schema, f"r.{part}", is_key=True) for name, schema, part in parts]
        case DebeziumKeyMode.RECORD_KEY:
            found = _record_key_columns(config, schemas)
        case DebeziumKeyMode.RECORD_VALUE:
            assert row is not None
            found = _select_fields(config, schemas, row, "v", "value")
        case DebeziumKeyMode.RECORD_HEADER:
            found = _header_columns(config, schemas)
    if not found and config.needs_key:
        raise SchemaError(
            f"Cannot write to the table of topic {schemas.topic} with no key fields defined: field.include.list or "
            "field.exclude.list excludes all of them; name them in primary.key.fields or in the list"
        )
    return found


def _record_key_columns(config: DebeziumPlannerConfig, schemas: RecordSchemas) -> list[ColumnSource]:
    schema = schemas.key
    if schema is None:
        raise SchemaError(
            "Configured primary key mode 'record_key' cannot have null schema: the record has no key, or its key has no "
            "schema (set key.converter.schemas.enable=true for JsonConverter)"
        )
    if schema.type is Type.STRUCT:
        return _select_fields(config, schemas, schema, "k", "key")
    if not schema.type.is_primitive:
        raise SchemaError(f"An unsupported record key schema type detected: {schema.type.name}")
    if len(config.key_fields) != 1:
        raise SchemaError(
            f"The key of topic {schemas.topic} is {schema.type.name} not a struct: primary.key.fields must name its column"
        )
    return [ColumnSource(config.key_fields[0], schema, "r.key", is_key=True)]


def _select_fields(
    config: DebeziumPlannerConfig, schemas: RecordSchemas, schema: Schema, variable: str, side: str
) -> list[ColumnSource]:
    """Returns the configured key fields, or else all fields that the include and exclude lists leave."""
    for name in config.key_fields:
        if schema.field(name) is None:
            raise SchemaError(
                f"primary.key.fields has {name}, which is not a field of the {side} of topic {schemas.topic} "
                f"(it has {', '.join(schema.field_names)})"
            )
    return [
        ColumnSource(one.name, one.schema, f"{variable}[{one.index}]", is_key=True)
        for one in schema.fields or ()
        if (one.name in config.key_fields if config.key_fields else config.fields.includes_field(schemas.topic, one.name))
    ]


def _header_columns(config: DebeziumPlannerConfig, schemas: RecordSchemas) -> list[ColumnSource]:
    if not schemas.headers:
        raise SchemaError("Configured primary key mode 'record_header' cannot have empty message headers")
    found: dict[str, ColumnSource] = {}
    for index, (name, schema) in enumerate(schemas.headers):
        if config.key_fields and name not in config.key_fields:
            continue
        if schema is None:
            raise SchemaError(f"Header {name} has no schema, so it cannot be a key; see header.converter")
        found[name] = ColumnSource(name, schema, f"h[{index}]", is_key=True)
    missing = [name for name in config.key_fields if name not in found]
    if missing:
        raise SchemaError(
            f"primary.key.fields has {', '.join(missing)}, but the headers are {', '.join(name for name, _ in schemas.headers)}"
        )
    return list(found.values())


def header_values(headers: Sequence[Header]) -> list[object]:
    return [header.value for header in headers]


def compile_rows(columns: Sequence[ColumnSource], row: str, width: int) -> RowBuilder:
    """Compiles a function that builds rows. ``row`` is the Python expression of the list of a record's ``width`` values. Field
    names are not part of its source."""
    sources = [column.source for column in columns]
    codes = [column.code for column in columns]
    if codes == [f"v[{index}]" for index in range(width)]:
        all_values: RowBuilder = evaluate(f"lambda records: [{row} for r in records]", title="rows of change events")
        return all_values
    loops = "for r in records"
    if any(source.startswith("k[") for source in sources):
        loops += " for k in (r.key.values,)"
    if any(source.startswith("v[") for source in sources):
        loops += f" for v in ({row},)"
    if any(source.startswith("h[") for source in sources):
        loops += " for h in (headers(r.headers),)"
    expression = f"lambda records: [({', '.join(codes)},) {loops}]"
    build_rows: RowBuilder = evaluate(expression, {"headers": header_values}, title="rows of change events")
    return build_rows
