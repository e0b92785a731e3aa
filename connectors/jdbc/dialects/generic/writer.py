"""Writes rows through any driver, as Python values, with one statement per batch."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import types as sa

from connect.data.logical import END_OF_DAY, EPOCH_DAY
from connect.errors import DataError
from connectors.jdbc.catalog import JdbcColumn
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.conversion import to_instant, to_python, to_time, to_wall
from connectors.jdbc.dialects.logical_types import FieldKind, LogicalType, logical_type, struct_type
from connectors.jdbc.dialects.text_values import to_json, to_text
from connectors.jdbc.dialects.types import Convert
from connectors.jdbc.options import SinkField, WriteOptions


class GenericWriter:
    """Runs one statement for each row."""

    def __init__(
        self,
        text: str,
        fields: Sequence[SinkField],
        columns: Sequence[JdbcColumn],
        order: Sequence[int],
        options: WriteOptions,
        doing: str,
    ) -> None:
        self._text, self._doing = text, doing
        self._fields = fields
        self._bindings = [(i, fields[i], *_converter_and_default(fields[i], columns[i], options)) for i in order]

    def write(self, session: DriverSession, rows: Sequence[Sequence[Any]]) -> None:
        session.execute_many(self._text, [self._converted(row) for row in rows], self._doing)

    def _converted(self, row: Sequence[Any]) -> tuple[Any, ...]:
        found: list[Any] = []
        for i, field, convert, default in self._bindings:
            value = row[i]
            if value is None:
                value = default
            elif convert is not None:
                try:
                    value = convert(value)
                except (TypeError, AttributeError, ValueError, ArithmeticError) as e:
                    raise DataError(f"Field {field.name}: {value!r} is not a value of {field.schema!r}") from e
            found.append(value)
        return tuple(found)


def _converter_and_default(field: SinkField, column: JdbcColumn, options: WriteOptions) -> tuple[Convert | None, Any]:
    convert = value_converter(field, column, options)
    default = field.schema.default if options.null_as_default else None
    return convert, default if default is None or convert is None else convert(default)


def value_converter(field: SinkField, column: JdbcColumn, options: WriteOptions) -> Convert | None:
    """Returns the converter of a field's values to those that a driver accepts for the column's type."""
    logical = logical_type(field.schema, options, field.name)
    what = f"Field {field.name}"
    if logical.kind in (FieldKind.ARRAY, FieldKind.MAP, FieldKind.STRUCT):
        return to_json(logical, options, what)
    if logical.kind is FieldKind.GEOMETRY:
        return to_json(struct_type(field.schema, options), options, what)
    if isinstance(column.native, sa.String) and logical.kind not in (FieldKind.STRING, FieldKind.BYTES):
        return to_text(logical, options, what)
    if logical.kind in (FieldKind.TIMESTAMP, FieldKind.INSTANT):
        zoned = getattr(column.native, "timezone", None)
        return to_instant(logical, options, what) if zoned else to_wall(logical, options, what)
    if logical.kind is FieldKind.TIME:
        time = _time(logical, options, what)
        if isinstance(column.native, sa.DateTime):
            # Oracle has no time type; Confluent's and Aiven's connectors write times of this day.
            return lambda value: dt.datetime.combine(EPOCH_DAY, time(value))
        return time
    if logical.kind is FieldKind.BOOLEAN and isinstance(column.native, (sa.Integer, sa.Numeric)):
        return int
    return to_python(logical, options, what)


def _time(logical: LogicalType, options: WriteOptions, what: str) -> Convert:
    inner = to_time(logical, options, what)

    def convert(value: Any) -> Any:
        time = value if inner is None else inner(value)
        if time is END_OF_DAY:
            raise DataError(f"{what}: 24:00:00 is not a time that this database can hold")
        return time

    return convert
