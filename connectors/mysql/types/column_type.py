"""The mapping of a MySQL column to events: one schema, and a decoder for each of the two forms in which values arrive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from connect.data.schema import Schema
from connect.errors import DataError
from connect.generated_code import evaluate
from connectors.cdc.schema.column_type import CONVERSION_ERRORS, ColumnType, Decoder
from connectors.cdc.schema.custom_conversion import CustomConversion
from connectors.mysql.binlog import ColumnReader

_SHOWN = 60


@dataclass(frozen=True, slots=True)
class MySqlColumnType:
    """``text`` decodes values of a query, ``reader`` those of the binary log; both return equal values for equal rows.

    ``select`` is the expression that a query must select, with ``{name}`` for the quoted name of the column. ``is_bytes``: the
    server sends bytes for it; otherwise it sends text.
    """

    text: ColumnType
    reader: ColumnReader
    rebuild: Callable[[Schema], MySqlColumnType]
    """Returns the mapping with another schema, because values of structs and of dates that are none depend on it."""
    select: str = "{name}"
    is_bytes: bool = False
    is_converted: bool = False
    """Whether a custom converter has made its values."""

    @property
    def schema(self) -> Schema:
        return self.text.schema

    def under(self, schema: Schema) -> MySqlColumnType:
        """Returns this mapping for a field with that schema (optional, with a default or parameters)."""
        return self.rebuild(schema)

    def raw(self) -> ColumnType:
        """Returns the mapping of raw values of the binary log in the form that masks and truncation of columns apply to."""
        decode: Decoder = _same
        if self.reader.inline:
            expression = self.reader.inline.format(x="x", c="c")
            decode = evaluate(f"lambda x: {expression}", {"c": self.reader.convert}, title="raw value of a column")
        elif self.reader.convert is not None:
            decode = self.reader.convert
        return replace(self.text, decode=decode, rebuild=lambda schema: self.rebuild(schema).raw())

    def read_by(self, raw: ColumnType) -> ColumnReader:
        """Returns the reader that converts as ``raw`` does: the result of :meth:`raw`, masked, truncated, or lenient."""
        return replace(self.reader, inline="", convert=raw.decode)

    def converted(self, conversion: CustomConversion) -> MySqlColumnType:
        """Returns the mapping of the column by a custom converter."""
        reader = self.read_by(conversion.type_of(self.raw()))
        return MySqlColumnType(
            conversion.type_of(self.text),
            reader,
            lambda schema: self.converted(conversion.under(schema)),
            self.select,
            self.is_bytes,
            is_converted=True,
        )


def _same(value: Any) -> Any:
    return value


def named_decoder(column: str, decode: Decoder) -> Decoder:
    """Returns a decoder whose errors name column and value."""

    def convert(value: Any) -> Any:
        try:
            return decode(value)
        except DataError:
            raise  # of refuse_value
        except CONVERSION_ERRORS as e:
            raise refuse_value(column, value, f"value of its type: {e}") from e

    return convert


def refuse_value(column: str, value: Any, what: str) -> DataError:
    """The error for a value that does not fit its schema (promise 8)."""
    shown = value if isinstance(value, str) else repr(value)
    return DataError(f"column {column}: {shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + '...'} is no {what}")
