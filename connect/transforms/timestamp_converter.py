"""TimestampConverter: converts instants between text, Unix numbers, and the logical types Date, Time, and Timestamp."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import one_of
from connect.data.logical import (
    DATE,
    MILLIS_PER_DAY,
    TIME,
    TIMESTAMP,
    FarInstant,
    date_of,
    date_schema,
    epoch_millis,
    instant_of,
    millis_to_time,
    time_schema,
    timestamp_schema,
)
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import ConfigError, ConnectError, DataError
from connect.java.simple_date_format import PatternError, SimpleDateFormat
from connect.record import ConnectRecord
from connect.strict import STRICT, is_strict
from connect.transforms.columnar.columns import PartColumns, RecordColumns, column_filler, map_column
from connect.transforms.config import FIELD, define_replace_null, read_replace_null
from connect.transforms.key_or_value import KeyOrValueTransformation, OnKey, OnValue, Plan
from connect.transforms.lossless import format_value, is_whole_milliseconds
from connect.transforms.structs import (
    copier,
    java_class_name,
    new_struct,
    require_fields,
    require_map,
    require_struct,
    struct_schema_like,
    with_field_name,
)

PURPOSE = "converting timestamp formats"
_TARGETS = ("string", "unix", "Date", "Time", "Timestamp")
_CONFIG_DEF = define_replace_null(
    ConfigDef()
    .define(
        FIELD, ConfigType.STRING, "", importance=Importance.HIGH,
        doc="The field containing the timestamp, or empty if the entire value is a timestamp",
    )
    .define(
        "target.type", ConfigType.STRING, validator=one_of(*_TARGETS), importance=Importance.HIGH,
        doc="The desired timestamp representation: string, unix, Date, Time, or Timestamp",
    )
    .define(
        "format", ConfigType.STRING, "", importance=Importance.MEDIUM,
        doc="A SimpleDateFormat-compatible format for the timestamp. Used to generate the output when type=string "
        "or used to parse the input if the input is a string.",
    )
    .define(
        "unix.precision", ConfigType.STRING, "milliseconds",
        validator=one_of("nanoseconds", "microseconds", "milliseconds", "seconds"), importance=Importance.LOW,
        doc="The desired Unix precision for the timestamp: seconds, milliseconds, microseconds, or nanoseconds. Used to "
        "generate the output when type=unix or used to parse the input if the input is a Long.Note: This SMT will cause "
        "precision loss during conversions from, and to, values with sub-millisecond components.",
    )
)  # fmt: skip
_SCHEMAS: dict[str, Schema] = {
    "string": Schema.STRING,
    "unix": Schema.INT64,
    "Date": date_schema(),
    "Time": time_schema(),
    "Timestamp": timestamp_schema(),
}
_OPTIONAL_SCHEMAS = {name: schema.as_optional() for name, schema in _SCHEMAS.items()}
_PER_MILLI = {"microseconds": 1_000, "nanoseconds": 1_000_000}
_LONG_MAX = (1 << 63) - 1
_Convert = Callable[[Any], Any]


class TimestampConverter(KeyOrValueTransformation):
    """Reads an instant by its schema (or its class without one) and writes it as the target type. Null stays null."""

    passes_null = False

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        self._field: str | None = values[FIELD]
        self._target: str = values["target.type"]
        self._precision: str = values["unix.precision"]
        self._replace_null = read_replace_null(values)
        pattern: str = values["format"] or ""
        if self._target == "string" and not pattern.strip():
            raise ConfigError("TimestampConverter requires format option to be specified when using string timestamps")
        self._format: SimpleDateFormat | None = None
        if pattern.strip():
            try:
                self._format = SimpleDateFormat(pattern)
            except PatternError as e:
                key = f"TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: {pattern}"
                raise ConfigError.invalid(key, f"java.lang.IllegalArgumentException: {e}") from e
        self._strict = is_strict(configs)
        self._write = self._build_writer()

    # -- reading and writing instants

    def _build_writer(self) -> Callable[[int], Any]:
        match self._target:
            case "string":
                assert self._format is not None
                return self._format.format
            case "unix":
                return lambda millis: _from_millis(millis, self._precision)
            case "Date":
                return lambda millis: date_of(millis // MILLIS_PER_DAY)
            case "Time":
                return lambda millis: millis_to_time(millis % MILLIS_PER_DAY)
        return instant_of

    def _parse(self, text: Any) -> int:
        if not isinstance(text, str):
            raise DataError(f"Expected string timestamp to be a String, but found class {java_class_name(None, text)}")
        if self._format is None:
            # A NullPointerException in Apache.
            raise DataError(f"The key format is required to read a timestamp from text ({text})")
        millis = self._format.parse(text)
        if millis is None:
            raise DataError(f"Could not parse timestamp: value ({text}) does not match pattern ({self._format.pattern})")
        return millis

    def _from_unix(self, value: Any) -> int:
        if value.__class__ is not int:
            raise DataError(f"Expected Unix timestamp to be a Long, but found class {java_class_name(None, value)}")
        return _to_millis(value, self._precision)

    def _build_converter(self, schema: Schema) -> _Convert:
        """Builds the conversion for values of a schema. Raises ConnectError for a schema that is not a timestamp."""
        read: Callable[[Any], int]
        if schema.name in (TIMESTAMP, DATE, TIME):
            read = _instant_reader(schema.name.rpartition(".")[2])
        elif schema.type is Type.STRING:
            read = self._parse
        elif schema.type is Type.INT64:
            read = self._from_unix
        else:
            raise ConnectError(f"Schema {schema!r} does not correspond to a known timestamp type format")
        return self._build_conversion(read)

    def _build_conversion(self, read: Callable[[Any], int]) -> _Convert:
        """Combines reading and writing; null stays null. A strict conversion raises DataError if it would lose data."""
        write = self._write
        if not self._strict:
            return lambda value: None if value is None else write(read(value))
        what = f'field "{self._field}" of the {self.part}' if self._field else f"the {self.part}"

        def convert_lossless(value: Any) -> Any:
            if value is None:
                return None
            millis = read(value)
            if not self._reads_losslessly(value, millis):
                raise DataError(
                    f"TimestampConverter: {what}: {format_value(value)} would be read as {instant_of(millis)} ({STRICT} is on)"
                )
            written = write(millis)
            if not self._writes_losslessly(millis, written):
                raise DataError(
                    f"TimestampConverter: {what}: {format_value(value)} would become {format_value(written)} ({STRICT} is on)"
                )
            return written

        return convert_lossless

    def _reads_losslessly(self, value: Any, millis: int) -> bool:
        if isinstance(value, str):
            return self._format is not None and self._format.represents_exactly(value)
        return _from_millis(millis, self._precision) == value if isinstance(value, int) else is_whole_milliseconds(value)

    def _writes_losslessly(self, millis: int, written: Any) -> bool:
        match self._target:
            case "string":
                return self._format is not None and self._format.parse(written) == millis
            case "unix":
                return _to_millis(written, self._precision) == millis
            case "Date":
                return millis % MILLIS_PER_DAY == 0
            case "Time":
                return 0 <= millis < MILLIS_PER_DAY
        return True

    def _read_schemaless(self, value: Any) -> int:
        if type(value) is int:
            return self._from_unix(value)
        if isinstance(value, str):
            return self._parse(value)
        if isinstance(value, dt.date | dt.time | FarInstant):
            return epoch_millis(value)
        raise DataError(f"TimestampConverter does not support class {java_class_name(None, value)} objects as timestamps")

    # -- records

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None and self._field and datum is not None:
            require_struct(schema, datum, PURPOSE)

    def plan(self, schema: Schema | None) -> Plan:
        if self._field is None:
            # A NullPointerException in Apache, also at the first record.
            raise DataError("The key field of TimestampConverter is null")
        if not self._field:
            if schema is None:
                convert_any = self._build_conversion(self._read_schemaless)
                return Plan(None, lambda datum, _: convert_any(datum))
            target = self._target_schema(schema)
            convert = self._build_converter(schema)
            return Plan(target, lambda datum, _: convert(datum))
        return Plan(None, self._map_converter(self._field)) if schema is None else self._struct_plan(schema, self._field)

    def _target_schema(self, schema: Schema) -> Schema:
        return (_OPTIONAL_SCHEMAS if schema.optional else _SCHEMAS)[self._target]

    def _map_converter(self, name: str) -> Callable[[Any, ConnectRecord], Any]:
        convert_value = with_field_name(name, self._build_conversion(self._read_schemaless))

        def convert(datum: Any, _: ConnectRecord) -> Any:
            if datum is None:
                return None
            value = require_map(datum, PURPOSE)
            return {**value, name: convert_value(value.get(name))}

        return convert

    def _struct_plan(self, schema: Schema, name: str) -> Plan:
        fields = require_fields(schema)
        field = schema.field(name)
        members = [
            (f.name, self._target_schema(f.schema) if f is field else f.schema)
            for f in fields
        ]  # fmt: skip
        changed = struct_schema_like(schema, members, optional=schema.optional)
        copy = copier(fields, self._replace_null, require_fields(changed))
        converters: list[_Convert] = []

        def convert_copy(values: list[Any]) -> list[Any]:
            if field is not None:
                # Created at the first struct: a null passes even if the field cannot be convert_copy.
                if not converters:
                    converters.append(with_field_name(field.name, self._build_converter(field.schema)))
                values[field.index] = converters[0](values[field.index])
            return values

        if isinstance(schema.default, Struct):
            changed.default = new_struct(changed, convert_copy(copy(schema.default.values)))
        fill_columns = column_filler(fields, self._replace_null)

        def convert_columns(part: PartColumns, _: RecordColumns) -> None:
            columns = fill_columns(part.columns())
            if field is not None:
                columns[field.index] = map_column(self._build_converter(field.schema), columns[field.index])
            part.set_columns(columns)

        return Plan(changed, lambda values, _: convert_copy(copy(values)), PURPOSE, convert_columns)


def _instant_reader(what: str) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if not isinstance(value, dt.date | dt.time | FarInstant):
            raise DataError(f"Expected {what} to be a java.util.Date, but found class {java_class_name(None, value)}")
        return epoch_millis(value)

    return read


def _to_millis(value: int, precision: str) -> int:
    """Converts as TimeUnit.toMillis: too large saturates, fractions are cut toward zero."""
    if precision == "seconds":
        return max(-_LONG_MAX - 1, min(_LONG_MAX, value * 1000))
    return _divide_toward_zero(value, _PER_MILLI[precision]) if precision in _PER_MILLI else value


def _from_millis(millis: int, precision: str) -> int:
    if precision == "seconds":
        return _divide_toward_zero(millis, 1000)
    return max(-_LONG_MAX - 1, min(_LONG_MAX, millis * _PER_MILLI.get(precision, 1)))


def _divide_toward_zero(value: int, by: int) -> int:
    return value // by if value >= 0 else -(-value // by)


class TimestampConverterKey(OnKey, TimestampConverter):
    """TimestampConverter on the record's key."""


class TimestampConverterValue(OnValue, TimestampConverter):
    """TimestampConverter on the record's value."""
