"""The methods that an expression may call.

Other names are errors when the expression is parsed; a method that the value does not have is an error when it is called."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from connect.data.java_text import java_text
from connect.data.logical import FarInstant, epoch_millis
from connect.data.schema import Field, Schema
from connect.data.struct import Struct
from connect.expressions import text_methods as texts
from connect.expressions.dialect import Dialect, strictly_equals
from connect.expressions.errors import EvaluationError, check_text_length
from connect.expressions.functions import parse_json, to_number
from connect.expressions.members import JsonReader, describe, read_schema_property, read_struct_field
from connect.expressions.regular_expressions import Match, Regex

Implementation = Callable[..., Any]
"""Takes the dialect, the value, and the arguments."""
_ANY = object
_NUMBERS = (int, float, Decimal)


@dataclass(slots=True)
class Method:
    """A method: the number of its arguments, and its implementations by type."""

    name: str
    arity: tuple[int, int]
    by_type: list[tuple[type, int, int, Implementation]] = field(default_factory=list)
    """Types, each with the minimum and maximum number of arguments; the first matching type applies."""

    def call(self, dialect: Dialect, value: Any, *arguments: Any) -> Any:
        """Calls the method. Raises EvaluationError if the value does not have it, or it takes another number of arguments."""
        for kind, minimum, maximum, implementation in self.by_type:
            if isinstance(value, kind):
                if minimum <= len(arguments) <= maximum:
                    return implementation(dialect, value, *arguments)
                raise EvaluationError(f"{self.name} of {describe(value)} does not take {len(arguments)} arguments")
        raise EvaluationError(f"{describe(value)} has no method {self.name}")


METHODS: dict[str, Method] = {}


def _define(kind: type, minimum: int, maximum: int, **implementations: Implementation) -> None:
    for name, implementation in implementations.items():
        method = METHODS.setdefault(name, Method(name, (minimum, maximum)))
        method.arity = (min(method.arity[0], minimum), max(method.arity[1], maximum))
        method.by_type.append((kind, minimum, maximum, implementation))


def _require_position(number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool):
        raise EvaluationError(f"a position must be an integer, not {describe(number)}")
    return number


def _to_map_key(name: Any) -> Any:
    """Converts a value that cannot be a map key to None."""
    return None if isinstance(name, list | dict | Struct) else name


def _get_element(_: Dialect, value: list[Any], number: Any) -> Any:
    at = _require_position(number)
    if not 0 <= at < len(value):
        raise EvaluationError(f"index {at} is out of range; the list size is {len(value)}")
    return value[at]


def _list_contains(_: Dialect, value: list[Any], member: Any) -> bool:
    return any(strictly_equals(member, one) for one in value)


def _find_index(_: Dialect, value: list[Any], member: Any) -> int:
    return next((i for i, one in enumerate(value) if strictly_equals(member, one)), -1)


def _join(dialect: Dialect, value: list[Any], separator: Any = ",") -> str:
    parts, between = [dialect.text(one) for one in value], texts.require_text(separator)
    check_text_length(sum(len(part) + len(between) for part in parts))
    return between.join(parts)


def _end_reader(at: int) -> Implementation:
    def member(_: Dialect, value: list[Any]) -> Any:
        if not value:
            raise EvaluationError("the list is empty")
        return value[at]

    return member


def _read_field(_: Dialect, struct: Struct, name: Any) -> Any:
    return read_struct_field(struct, name, missing_is_null=False)


def _read_field_without_default(_: Dialect, struct: Struct, name: Any) -> Any:
    value = read_struct_field(struct, name, missing_is_null=False)
    index = struct.schema.index_of(name)
    return value if index is None else struct.values[index]


def _schema_reader(name: str) -> Implementation:
    return lambda _, schema: read_schema_property(schema, name)


def _compare(dialect: Dialect, value: Any, other: Any) -> int:
    found = dialect.compare(value, other)
    if found is None:
        raise EvaluationError("the values cannot be ordered")
    return found


_define(
    str, 1, 1,
    concat=texts.concat, includes=texts.contains, equalsIgnoreCase=texts.equals_ignore_case, charAt=texts.char_at,
    compareToIgnoreCase=texts.compare_ignore_case, contains=texts.contains, endsWith=texts.ends_with, matches=texts.matches,
    lastIndexOf=lambda _, value, part: value.rfind(texts.require_text(part)), match=texts.match, repeat=texts.repeat,
    take=lambda _, value, count: value[: max(_require_position(count), 0)],
    drop=lambda _, value, count: value[max(_require_position(count), 0) :],
)  # fmt: skip
_define(str, 1, 2, startsWith=texts.starts_with, indexOf=texts.index_of, substring=texts.substring, slice=texts.slice_of)
_define(
    str, 1, 2,
    split=texts.split, padLeft=texts.pad_left, padStart=texts.pad_left, padRight=texts.pad_right, padEnd=texts.pad_right,
)  # fmt: skip
_define(str, 0, 1, tokenize=texts.tokenize)
_define(str, 2, 2, replace=texts.replace, replaceAll=texts.replace_all, replaceFirst=texts.replace_first)
_define(
    str, 0, 0,
    length=lambda _, value: len(value), size=lambda _, value: len(value), isEmpty=lambda _, value: not value,
    isBlank=lambda _, value: not value.strip(), toLowerCase=lambda _, value: value.lower(),
    toUpperCase=lambda _, value: value.upper(),
    trim=texts.trim, strip=lambda _, value: value.strip(), reverse=lambda _, value: value[::-1],
    capitalize=lambda _, value: value[:1].upper() + value[1:], isNumber=texts.is_number, isInteger=texts.is_integer,
    isLong=texts.is_integer,
)  # fmt: skip
for _kind in (str, *_NUMBERS):
    _define(
        _kind, 0, 0,
        toInteger=lambda _, value: to_number(value, int), toLong=lambda _, value: to_number(value, int),
        toDouble=lambda _, value: to_number(value, float), toFloat=lambda _, value: to_number(value, float),
        toBigDecimal=lambda _, value: to_number(value, Decimal),
    )  # fmt: skip
for _kind in _NUMBERS:
    _define(
        _kind, 0, 0,
        intValue=lambda _, value: to_number(value, int), longValue=lambda _, value: to_number(value, int),
        doubleValue=lambda _, value: to_number(value, float), abs=lambda _, value: abs(value),
    )  # fmt: skip
_define(list, 1, 1, get=_get_element, contains=_list_contains, includes=_list_contains, indexOf=_find_index)
_define(list, 0, 1, join=_join)
_define(
    list, 0, 0,
    size=lambda _, value: len(value), length=lambda _, value: len(value), isEmpty=lambda _, value: not value,
    first=_end_reader(0), last=_end_reader(-1),
)  # fmt: skip
_define(
    dict, 1, 1,
    get=lambda _, value, name: value.get(_to_map_key(name)), containsKey=lambda _, value, name: _to_map_key(name) in value,
)  # fmt: skip
_define(dict, 2, 2, getOrDefault=lambda _, value, name, other: value.get(_to_map_key(name), other))
_define(
    dict, 0, 0,
    size=lambda _, value: len(value), isEmpty=lambda _, value: not value, keySet=lambda _, value: list(value),
    values=lambda _, value: list(value.values()),
)  # fmt: skip
_define(
    Struct, 1, 1,
    get=_read_field,
    # As in Java, only get replaces null by the default; methods with a type in their names do not.
    **dict.fromkeys(
        (
            "getWithoutDefault", "getString", "getStruct", "getBoolean", "getBytes", "getArray", "getMap", "getInt8", "getInt16",
            "getInt32", "getInt64", "getFloat32", "getFloat64",
        ),
        _read_field_without_default,
    ),
)  # fmt: skip
_define(Struct, 0, 0, schema=lambda _, struct: struct.schema)
_define(
    Schema, 0, 0,
    name=_schema_reader("name"), version=_schema_reader("version"), doc=_schema_reader("doc"), type=_schema_reader("type"),
    isOptional=_schema_reader("optional"), fields=_schema_reader("fields"), parameters=_schema_reader("parameters"),
    keySchema=_schema_reader("keySchema"), valueSchema=_schema_reader("valueSchema"), defaultValue=_schema_reader("defaultValue"),
)  # fmt: skip
_define(Schema, 1, 1, field=lambda _, schema, name: schema.field(texts.require_text(name)))
_define(
    Field, 0, 0,
    name=lambda _, one: one.name, index=lambda _, one: one.index, schema=lambda _, one: one.schema,
)  # fmt: skip
for _instant in (dt.date, dt.time, FarInstant):
    _define(_instant, 0, 0, getTime=lambda _, value: epoch_millis(value))
_define(Match, 0, 0, matches=lambda _, found: found.regex.matches(found.subject), find=lambda _, found: bool(found))
_define(Match, 0, 1, group=lambda _, found, number=0: found.group(number))
_define(Regex, 1, 1, test=lambda _, regex, subject: regex.finds(texts.require_text(subject)))
_define(JsonReader, 1, 1, parseText=lambda _, reader, text: parse_json(text))
_define(_ANY, 1, 1, equals=lambda _, value, other: strictly_equals(value, other), compareTo=_compare)
_define(_ANY, 0, 0, toString=lambda dialect, value: dialect.text(value))
# Groovy formats maps differently only when it concatenates text.
_define(dict, 0, 0, toString=lambda _, value: java_text(None, value))
