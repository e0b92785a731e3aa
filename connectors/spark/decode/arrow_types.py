"""Maps Connect schemas and table columns to Arrow types, without loss.

A :class:`ColumnConversion` describes how a field arrives (as JSON text, as parsed JSON, or as Connect's Python value), and its
type in the table:

| schema                                               | column in the table                                            |
| ---------------------------------------------------- | -------------------------------------------------------------- |
| int8, int16, int32, int64, float, double, boolean    | TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, BOOLEAN         |
| string, io.debezium.data.Json, Uuid, Enum, Xml, ...  | STRING                                                         |
| bytes, io.debezium.data.Bits                         | BINARY                                                         |
| Decimal                                              | DECIMAL(38, scale); a scale below 0 becomes 0                  |
| VariableScaleDecimal                                 | STRING, all digits                                             |
| Connect Date, io.debezium.time.Date                  | DATE                                                           |
| Connect Timestamp, ZonedTimestamp                    | TIMESTAMP (an instant, UTC)                                    |
| io.debezium.time.Timestamp, MicroTimestamp           | TIMESTAMP_NTZ (a wall clock, as timestamp without time zone)   |
| NanoTimestamp, MicroDuration, NanoDuration           | BIGINT unchanged: Spark has nothing finer than microseconds    |
| Connect Time, io.debezium.time.Time, MicroTime       | STRING HH:MM:SS.ffffff (Spark 4.0 has no TIME); times of a day |
|                                                      | sort as time, those of MySQL may be -838:59:59.000000          |
| NanoTime                                             | STRING HH:MM:SS.fffffffff                                      |
| array, map, struct                                   | ARRAY, MAP, STRUCT                                             |
| io.debezium.data.Json, and other types, on request   | VARIANT (see :mod:`connectors.spark.decode.variant_casts`)     |
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from connect.data import logical
from connect.data.schema import Field, Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError, SchemaError
from connectors.spark.decode import arrow_casts
from connectors.spark.decode.exact_values import (
    Reader,
    inside,
    or_default,
    or_refused,
    read_boolean,
    read_bytes,
    read_decimal,
    read_double,
    read_float,
    read_integer,
    read_list,
    read_map,
    read_string,
    read_struct,
    read_unscaled_decimal,
    read_variable_decimal,
    show,
)
from connectors.spark.decode.variant import VARIANT, is_variant
from connectors.spark.decode.variant_casts import read_variant, variants_of_json, variants_of_values
from connectors.spark.variant_columns import JSON_TYPE, NO_VARIANTS, VariantColumns

UTC_TIMESTAMP = pa.timestamp("us", "UTC")
NTZ_TIMESTAMP = pa.timestamp("us")
Finish = Callable[[pa.Array], pa.Array]
Prepare = Callable[[Any], Any]
_NULL = "null for a required value"
"""Names no record and no field: the exact path does."""


@dataclass(frozen=True, slots=True)
class ColumnConversion:
    """Converts one field to a table column.

    ``json`` is the type for Arrow's JSON reader, None when it has none for the field; ``from_json`` converts it to ``table``.
    ``prepare`` converts Connect's Python value to ``stored``, and ``read`` parsed JSON; both refuse values of other types.
    ``finish`` converts what is stored to ``table``. Fields of a struct to finish may be in the type ``table`` already.
    Arrow itself stores or refuses values of exactly the Python type ``unprepared``. With ``required``, JSON needs a value: a
    field, element, or value of a map must not be null or missing.
    """

    table: pa.DataType
    json: pa.DataType | None
    from_json: Finish
    stored: pa.DataType
    prepare: Prepare
    finish: Finish
    read: Reader
    unprepared: type | None = None
    required: bool = False


def _same(array: pa.Array) -> pa.Array:
    return array


def _integer_reader(bits: int) -> Reader:
    return read_integer(-(1 << bits - 1), (1 << bits - 1) - 1, f"int{bits}")


_READERS = {
    pa.int8(): _integer_reader(8),
    pa.int16(): _integer_reader(16),
    pa.int32(): _integer_reader(32),
    pa.int64(): _integer_reader(64),
    pa.float32(): read_float,
    pa.float64(): read_double,
    pa.bool_(): read_boolean,
    pa.string(): read_string,
}


_UNPREPARED: dict[pa.DataType, type] = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), int),
    pa.float64(): float,
    pa.bool_(): bool,
    pa.string(): str,
}


def _wrong_type(value: Any, wanted: str) -> DataError:
    return DataError(f"{show(value)} is of the Python type {type(value).__name__}, not {wanted}")


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise _wrong_type(value, "bytes")


def _days(value: Any) -> int:
    # A datetime is a date for Python; its time would be lost.
    if isinstance(value, dt.date | logical.FarInstant) and not isinstance(value, dt.datetime):
        return logical.date_to_days(value)
    raise _wrong_type(value, "date")


def _millis_of_day(value: Any) -> int:
    if isinstance(value, dt.time) and value.tzinfo is None:
        return logical.time_to_millis(value)
    raise _wrong_type(value, "time without a zone")


def _millis(value: Any) -> int:
    if isinstance(value, dt.datetime | logical.FarInstant):
        return logical.timestamp_to_millis(value)
    raise _wrong_type(value, "datetime")


def _plain(type_: pa.DataType) -> ColumnConversion:
    return _stored(type_, type_, _same)


def _stored(stored: pa.DataType, table: pa.DataType, finish: Finish, prepare: Prepare | None = None) -> ColumnConversion:
    # Arrow truncates 1.5 to the integer 1 and takes True as 1.0; values of a wrong type are refused before.
    read = _READERS.get(stored, read_decimal)
    unprepared = None if prepare is not None else _UNPREPARED.get(stored)
    return ColumnConversion(table, stored, finish, stored, prepare or read, finish, read, unprepared)


_PRIMITIVES = {
    Type.INT8: _plain(pa.int8()),
    Type.INT16: _plain(pa.int16()),
    Type.INT32: _plain(pa.int32()),
    Type.INT64: _plain(pa.int64()),
    # Arrow's JSON reader takes a number beyond the range as infinite.
    Type.FLOAT32: replace(_plain(pa.float32()), from_json=arrow_casts.check_overflow),
    Type.FLOAT64: _plain(pa.float64()),
    Type.BOOLEAN: _plain(pa.bool_()),
    Type.STRING: _plain(pa.string()),
    Type.BYTES: ColumnConversion(
        pa.binary(), pa.string(), arrow_casts.binary_of_base64, pa.binary(), _bytes, _same, read_bytes, bytes
    ),
}
_NAMED = {
    (logical.DATE, Type.INT32): _stored(pa.int32(), pa.date32(), arrow_casts.date_of_days, _days),
    (logical.TIME, Type.INT32): _stored(pa.int32(), pa.string(), arrow_casts.time_of_day_of_millis, _millis_of_day),
    (logical.TIMESTAMP, Type.INT64): _stored(pa.int64(), UTC_TIMESTAMP, arrow_casts.instant_of_millis, _millis),
    ("io.debezium.time.Date", Type.INT32): _stored(pa.int32(), pa.date32(), arrow_casts.date_of_days),
    ("io.debezium.time.Time", Type.INT32): _stored(pa.int32(), pa.string(), arrow_casts.time_of_millis),
    ("io.debezium.time.MicroTime", Type.INT64): _stored(pa.int64(), pa.string(), arrow_casts.time_of_micros),
    ("io.debezium.time.NanoTime", Type.INT64): _stored(pa.int64(), pa.string(), arrow_casts.time_of_nanos),
    ("io.debezium.time.Timestamp", Type.INT64): _stored(pa.int64(), NTZ_TIMESTAMP, arrow_casts.wall_clock_of_millis),
    ("io.debezium.time.MicroTimestamp", Type.INT64): _stored(pa.int64(), NTZ_TIMESTAMP, arrow_casts.wall_clock_of_micros),
    ("io.debezium.time.ZonedTimestamp", Type.STRING): _stored(pa.string(), UTC_TIMESTAMP, arrow_casts.instant_of_text),
}
_VARIABLE_DECIMAL = "io.debezium.data.VariableScaleDecimal"


def row_for_schema(schema: Schema, variants: VariantColumns, *, fills_defaults: bool = True) -> ColumnConversion:
    """The conversion for the schema of a row, of which some columns become VARIANT. Raises SchemaError.

    ``fills_defaults``: a null in JSON becomes the field's default.
    """
    return _struct_of(schema, lambda f: column_of_row(f.name, f.schema, variants, fills_defaults=fills_defaults))


def _struct_of(schema: Schema, column_of: Callable[[Field], ColumnConversion]) -> ColumnConversion:
    """The struct of a schema's fields. Raises SchemaError, which names the field."""
    found = []
    for member in schema.fields or ():
        try:
            found.append((member.name, column_of(member)))
        except SchemaError as e:
            raise SchemaError(f"field {member.name}: {e.message}") from e
    return struct_column(found)


def column_of_row(name: str, schema: Schema, variants: VariantColumns, *, fills_defaults: bool = True) -> ColumnConversion:
    """The conversion for a field of a row, which may become VARIANT because of its name. Raises SchemaError."""
    if name not in variants.names:
        return _field(schema, variants, fills_defaults)
    column = _field(schema, replace(variants, json=True), fills_defaults)
    if is_variant(column.table):
        return column
    if column.table == pa.string() and variants.parses_text:
        return _json_column(column, variants.placeholder)
    return replace(
        column,
        table=VARIANT,
        from_json=lambda array: variants_of_values(column.from_json(array)),
        finish=lambda array: variants_of_values(column.finish(array)),
    )


def _json_column(text: ColumnConversion, placeholder: str) -> ColumnConversion:
    return replace(
        text,
        table=VARIANT,
        from_json=lambda array: variants_of_json(text.from_json(array), placeholder),
        finish=lambda array: variants_of_json(text.finish(array), placeholder),
    )


def _field(schema: Schema, variants: VariantColumns, fills_defaults: bool) -> ColumnConversion:
    column = column_for_schema(schema, variants, fills_defaults=fills_defaults)
    if fills_defaults and schema.default is not None:
        return _defaulted(column, schema.default)
    return column if schema.optional else replace(column, read=or_refused(column.read, schema), required=True)


def column_for_schema(
    schema: Schema, variants: VariantColumns = NO_VARIANTS, *, fills_defaults: bool = True
) -> ColumnConversion:  # fmt: skip
    """The conversion for a Connect schema. Raises SchemaError for an unsupported type.

    ``fills_defaults``: a null in JSON becomes the field's default.
    """
    if schema.name:
        if schema.name == JSON_TYPE and schema.type is Type.STRING and variants.json:
            return _json_column(_PRIMITIVES[Type.STRING], variants.placeholder)
        if schema.name == logical.DECIMAL:
            return _decimal(logical.decimal_scale(schema))
        if schema.name == _VARIABLE_DECIMAL:
            json = pa.struct([("scale", pa.int32()), ("value", pa.string())])
            return ColumnConversion(
                pa.string(),
                json,
                arrow_casts.text_of_variable_decimals,
                pa.string(),
                _variable_decimal,
                _same,
                read_variable_decimal,
            )
        named = _NAMED.get((schema.name, schema.type))
        if named is not None:
            return named
    if schema.type is Type.STRUCT:
        return _struct_of(schema, lambda f: _field(f.schema, variants, fills_defaults))
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        return list_column(_field(schema.value_schema, variants, fills_defaults))
    if schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        key = _field(schema.key_schema, NO_VARIANTS, fills_defaults)
        return _map(key, _field(schema.value_schema, variants, fills_defaults), as_entries=True)
    try:
        return _PRIMITIVES[schema.type]
    except KeyError:
        raise SchemaError(f"a schema of type {schema.type.value} without element schemas cannot become a column") from None


def _defaulted(column: ColumnConversion, default: Any) -> ColumnConversion:
    """Replaces nulls in JSON by the default in JSON form (see ``read_schema``), like JsonConverter."""

    def from_json(array: pa.Array) -> pa.Array:
        converted = column.from_json(array)
        if not converted.null_count:
            return converted
        return pc.fill_null(converted, column.finish(pa.array([column.read(default)], column.stored))[0])

    return replace(column, from_json=from_json, read=or_default(column.read, default))


def default_value(schema: Schema, *, in_json: bool) -> pa.Scalar | None:
    """The default of a field as a value of its column; None if it has none, or one that its type cannot hold."""
    if schema.default is None:
        return None
    column = column_for_schema(schema)
    try:
        value = (column.read if in_json else column.prepare)(schema.default)
        return column.finish(pa.array([value], column.stored))[0]
    except (DataError, pa.ArrowException, ValueError, TypeError, OverflowError):
        return None


def _decimal(scale: int) -> ColumnConversion:
    if scale > 38:
        raise SchemaError(f"a Decimal of scale {scale} does not fit: Spark supports at most 38 digits")
    table = pa.decimal128(38, max(scale, 0))

    def from_json(array: pa.Array) -> pa.Array:
        return arrow_casts.decimals_of_base64(array, scale, table)

    def finish(array: pa.Array) -> pa.Array:
        return arrow_casts.decimals_of_bytes(array, scale, table)

    def prepare(value: Any) -> bytes:
        if isinstance(value, decimal.Decimal):
            return logical.decimal_to_bytes(value, scale)
        raise _wrong_type(value, "Decimal")

    return ColumnConversion(table, pa.string(), from_json, pa.binary(), prepare, finish, read_unscaled_decimal(scale))


def _variable_decimal(value: Any) -> str:
    if not isinstance(value, Struct | dict):
        raise _wrong_type(value, "Struct")
    scale = value.get("scale")
    if type(scale) is not int:
        raise _wrong_type(scale, "int, which the scale of a VariableScaleDecimal needs")
    return arrow_casts.decimal_text(_bytes(value.get("value")), scale)


def struct_column(fields: list[tuple[str, ColumnConversion]], *, refuses_others: bool = False) -> ColumnConversion:
    """A struct of columns; every row is one. ``refuses_others``: JSON must not have values in other fields."""
    names = [name for name, _ in fields]
    columns = [column for _, column in fields]
    table = pa.struct([pa.field(n, c.table) for n, c in fields])
    known = [(n, c.json) for n, c in fields if c.json is not None]
    json = pa.struct([pa.field(n, t) for n, t in known]) if len(known) == len(fields) else None

    def from_json(array: pa.Array) -> pa.Array:
        # By name: the reader puts fields that are not in its schema after the others.
        found = array.flatten()
        members = [found[array.type.get_field_index(name)] for name in names]
        # Flattened fields are null where the struct is.
        if any(c.required and m.null_count > array.null_count for c, m in zip(columns, members, strict=True)):
            raise DataError(_NULL)
        return _struct([c.from_json(m) for c, m in zip(columns, members, strict=True)], array)

    def finish(array: pa.Array) -> pa.Array:
        # Flattened fields are null where the struct is, instead of empty text, which is no instant and no document.
        members = zip(columns, array.flatten(), strict=True)
        return _struct([m if m.type == c.table else c.finish(m) for c, m in members], array)

    def _struct(parts: list[pa.Array], array: pa.Array) -> pa.Array:
        # Without fields, only the mask tells how many there are.
        mask = array.is_null() if array.null_count or not parts else None
        return pa.StructArray.from_arrays(parts, fields=list(table), mask=mask)

    def prepare(value: Any) -> Any:
        if isinstance(value, Struct):
            members = value.values
        elif isinstance(value, dict):
            members = [value.get(n) for n in names]
        else:
            raise _wrong_type(value, "Struct")
        try:
            return {
                n: m if m is None or type(m) is t else p(m)
                for n, t, p, m in zip(names, unprepared, prepares, members, strict=True)
            }
        except (ValueError, TypeError, OverflowError, DataError):
            for name, member_prepare, member in zip(names, prepares, members, strict=True):
                inside(name, _or_none(member_prepare), member)
            raise

    prepares, unprepared = [c.prepare for c in columns], [c.unprepared for c in columns]
    stored = pa.struct([pa.field(n, c.stored) for n, c in fields])
    read = read_struct([(n, c.read) for n, c in fields], refuses_others=refuses_others)
    return ColumnConversion(table, json, from_json, stored, prepare, finish, read)


def _or_none(prepare: Prepare) -> Reader:
    """Raises DataError for every value that is refused."""

    def read(value: Any) -> Any:
        try:
            return None if value is None else prepare(value)
        except (ValueError, TypeError, OverflowError) as e:
            raise DataError(str(e)) from e

    return read


def list_column(element: ColumnConversion) -> ColumnConversion:
    """An array of a column's values."""

    def over(step: Finish, *, required: bool = False) -> Finish:
        def finish(array: pa.Array) -> pa.Array:
            if required and array.flatten().null_count:
                raise DataError(_NULL)
            if step is _same:
                return array
            array = _copied(array)
            if step is arrow_casts.instant_of_text:
                array = arrow_casts.spell_out_unavailable(array)
            inner = step(array.values)
            return pa.ListArray.from_arrays(array.offsets, inner, mask=array.is_null() if array.null_count else None)

        return finish

    def prepare(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise _wrong_type(value, "list")
        return [None if v is None else element.prepare(v) for v in value]

    return ColumnConversion(
        pa.list_(element.table),
        None if element.json is None else pa.list_(element.json),
        over(element.from_json, required=element.required),
        pa.list_(element.stored),
        prepare,
        over(element.finish),
        read_list(element.read),
    )


def _map(key: ColumnConversion, item: ColumnConversion, *, as_entries: bool = False) -> ColumnConversion:
    """A map. With ``as_entries``, Arrow's reader can read it from an array of ``{key, value}``, for which it has a type."""
    table, stored = pa.map_(key.table, item.table), pa.map_(key.stored, item.stored)
    json = None
    if as_entries and key.json is not None and item.json is not None:
        json = pa.list_(pa.struct([("key", key.json), ("value", item.json)]))

    def prepare(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _wrong_type(value, "dict")
        return [(key.prepare(k), None if v is None else item.prepare(v)) for k, v in value.items()]

    def finish(array: pa.Array) -> pa.Array:
        array = _copied(array)
        return _map_array(array, key.finish(array.keys), item.finish(array.items), table)

    def from_json(array: pa.Array) -> pa.Array:
        array = _copied(array)
        entries = array.values
        if (key.required and entries.field(0).null_count) or (item.required and entries.field(1).null_count):
            raise DataError(_NULL)
        keys, items = key.from_json(entries.field(0)), item.from_json(entries.field(1))
        if _has_key_twice(array, keys):
            raise DataError("a map has a key twice")
        return _map_array(array, keys, items, table)

    return ColumnConversion(table, json, from_json, stored, prepare, finish, read_map(key.read, item.read))


def _map_array(array: pa.Array, keys: pa.Array, items: pa.Array, table: pa.DataType) -> pa.Array:
    """The maps with the offsets and nulls of a list or map array."""
    return pa.MapArray.from_arrays(array.offsets, keys, items, table, mask=array.is_null() if array.null_count else None)


def _copied(array: pa.Array) -> pa.Array:
    """The lists or maps, whose offsets start at zero, unlike those of a slice."""
    return array.take(pa.array(range(len(array)))) if array.offset else array


def _has_key_twice(array: pa.Array, keys: pa.Array) -> bool:
    codes = keys.dictionary_encode()
    # Entries of a null are not there: the reader writes none.
    rows = pc.list_parent_indices(array)
    if len(rows) != len(keys):
        raise DataError("entries of maps that belong to no row")
    numbers = pc.add(pc.multiply(rows.cast(pa.int64()), len(codes.dictionary) or 1), codes.indices.cast(pa.int64()))
    return len(pc.unique(numbers)) < len(keys)


def column_for_table_type(type_: pa.DataType, variants: VariantColumns = NO_VARIANTS) -> ColumnConversion:
    """The conversion of a schemaless value to a table column of that type.

    Dates, instants, and decimals are parsed from text; a value of another type is an error.
    """
    if is_variant(type_):
        read = read_variant(variants)
        return ColumnConversion(VARIANT, None, _same, VARIANT, read, _same, read)
    if pa.types.is_timestamp(type_):
        return _stored(pa.string(), type_, arrow_casts.instant_of_text if type_.tz else arrow_casts.wall_clock_of_text)
    if pa.types.is_date(type_):
        return _stored(pa.string(), type_, arrow_casts.date_of_text)
    if pa.types.is_decimal(type_):
        return _stored(pa.decimal256(arrow_casts.WIDEST_DECIMAL, type_.scale), type_, lambda array: array.cast(type_))
    if pa.types.is_binary(type_):
        return _PRIMITIVES[Type.BYTES]
    if pa.types.is_struct(type_):
        return struct_column([(f.name, column_for_table_type(f.type, variants)) for f in type_], refuses_others=True)
    if pa.types.is_list(type_):
        return list_column(column_for_table_type(type_.value_type, variants))
    if pa.types.is_map(type_):
        return _map(column_for_table_type(type_.key_type), column_for_table_type(type_.item_type, variants))
    if pa.types.is_float32(type_):
        return _PRIMITIVES[Type.FLOAT32]
    return _plain(type_)
