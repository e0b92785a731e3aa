"""The custom converters that Debezium's connectors for MySQL and MariaDB bring along.

Debezium's convert what the driver or the log returns; these convert the values that events would have without them. The results
are the same, and alike in snapshots and the stream.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

from connect.change_events.custom_converters import ColumnConversion, CustomConverter, RelationalColumn
from connect.config.definition import ConfigDef, ConfigType, Importance
from connect.config.parsing import split_list
from connect.data.schema import Schema, Type
from connect.errors import DataError
from connect.java.number_text import decimal_text, double_text, float_text
from connectors.cdc.config.validators import RegexList
from connectors.cdc.schema.filters import name_matches

_SELECTOR: Final = "selector"
_LENGTH_CHECKER: Final = "length.checker"
_REAL_AS_DOUBLE: Final = "treat.real.as.double"
_CHARSET_PARAMETER: Final = "__debezium.source.column.character_set"
_WHERE: Final = "Comma-separated regular expressions of columns (database.table.column, in any case)"


def _define_selector(keys: ConfigDef, name: str, doc: str) -> None:
    keys.define(name, ConfigType.STRING, None, importance=Importance.MEDIUM, validator=RegexList(), doc=f"{_WHERE} {doc}")


def _text_number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


class TinyIntOneToBooleanConverter(CustomConverter):
    """Makes columns of TINYINT(1) booleans: 0 is false, other numbers are true.

    The counterpart of ``io.debezium.connector.binlog.converters.TinyIntOneToBooleanConverter``.
    """

    _selector: tuple[str, ...] = ()
    _checks_length = True

    @classmethod
    def config_def(cls) -> ConfigDef:
        keys = ConfigDef()
        _define_selector(keys, _SELECTOR, "to convert, if they are TINYINT or TINYINT UNSIGNED. By default, all of them.")
        return keys.define(
            _LENGTH_CHECKER,
            ConfigType.BOOLEAN,
            True,
            importance=Importance.LOW,
            doc="Whether only columns of length 1 are converted. MySQL 8 does not report the length of TINYINT UNSIGNED: set "
            "false, and name the columns in selector.",
        )

    def configure(self, configs: Mapping[str, str]) -> None:
        parsed = self.config_def().parse(configs)
        self._selector = tuple(split_list(parsed[_SELECTOR]))
        self._checks_length = parsed[_LENGTH_CHECKER]

    def converter_for(self, column: RelationalColumn) -> ColumnConversion | None:
        if column.type_name.upper() not in ("TINYINT", "TINYINT UNSIGNED") or (self._checks_length and column.length != 1):
            return None
        if self._selector and not name_matches(self._selector, column.full_name):
            return None
        return ColumnConversion(Schema.BOOLEAN, bool)


class JdbcSinkDataTypesConverter(CustomConverter):
    """Gives columns the types that a JDBC sink needs to create its tables, whatever the declaration of a column says.

    The counterpart of ``io.debezium.connector.binlog.converters.JdbcSinkDataTypesConverter``.
    """

    _booleans: tuple[str, ...] = ()
    _reals: tuple[str, ...] = ()
    _strings: tuple[str, ...] = ()
    _real_as_double = True

    @classmethod
    def config_def(cls) -> ConfigDef:
        keys = ConfigDef()
        _define_selector(keys, "selector.boolean", "that become INT16: 1 for true and numbers above 0, else 0. By default, none.")
        _define_selector(keys, "selector.real", "that become FLOAT64, or FLOAT32 (treat.real.as.double). By default, none.")
        _define_selector(
            keys, "selector.string", f"that become STRING with the schema parameter {_CHARSET_PARAMETER}. By default, none."
        )
        return keys.define(
            _REAL_AS_DOUBLE,
            ConfigType.BOOLEAN,
            True,
            importance=Importance.LOW,
            doc="Whether selector.real gives FLOAT64. With false, numbers are rounded to FLOAT32.",
        )

    def configure(self, configs: Mapping[str, str]) -> None:
        parsed = self.config_def().parse(configs)
        self._booleans, self._reals, self._strings = (
            tuple(split_list(parsed[f"selector.{kind}"])) for kind in ("boolean", "real", "string")
        )
        self._real_as_double = parsed[_REAL_AS_DOUBLE]

    def converter_for(self, column: RelationalColumn) -> ColumnConversion | None:
        name = column.full_name
        if name_matches(self._booleans, name):
            return ColumnConversion(Schema.INT16, _flag)
        if name_matches(self._reals, name):
            if self._real_as_double:
                return ColumnConversion(Schema.FLOAT64, _double)
            return ColumnConversion(Schema.FLOAT32, lambda value: struct.unpack("<f", struct.pack("<f", _double(value)))[0])
        if name_matches(self._strings, name):
            parameters = None if column.charset_name is None else {_CHARSET_PARAMETER: column.charset_name}
            return ColumnConversion(Schema(Type.STRING, parameters=parameters), _text_of(column.schema))
        return None


def _flag(value: Any) -> int:
    match value:
        case bool() | int() | float() | Decimal():
            return 1 if int(value) > 0 else 0
        case str():
            number = _text_number(value)
            return int(value.lower() == "true") if number is None else int(number > 0)
    raise _no(value, "INT16")


def _double(value: Any) -> float:
    if isinstance(value, int | float | Decimal | str) and not isinstance(value, bool):
        return float(value)
    raise _no(value, "number")


def _text_of(schema: Schema) -> Callable[[Any], str]:
    """The function that returns the text of values of that schema as Java prints them."""

    def text(value: Any) -> str:
        match value:
            case str():
                return value
            case bytes():
                return value.decode()
            case float():
                return float_text(value) if schema.type is Type.FLOAT32 else double_text(value)
            case Decimal():
                return decimal_text(value)
            case int() if not isinstance(value, bool):
                return str(value)
        raise _no(value, "text")

    return text


def _no(value: Any, what: str) -> DataError:
    return DataError(f"a value of type {type(value).__name__} has no {what}; change the selector")
