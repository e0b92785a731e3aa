"""Masks, hashes, and truncates values of columns, and shows their types in schemas, by Debezium's rules.

The first rule that matches a column applies, in the order of :class:`RuleKind`. Record keys keep their values, as in Debezium:
they would not identify rows otherwise. A value that is also part of the key therefore carries the value for the key.
"""

from __future__ import annotations

import hashlib
import logging
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from connect.data.schema import Schema, Type
from connect.errors import DataError
from connect.text_records import TextKind
from connectors.cdc.config.column_rules import ColumnRule, RuleKind
from connectors.cdc.schema.column_type import ColumnType, Inline
from connectors.cdc.schema.source_type import SourceType

log = logging.getLogger(__name__)

Mapper = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class RowColumn:
    """A captured column, after its rule."""

    name: str
    type: ColumnType
    schema: Schema
    source_index: int
    """Position among all columns of the table, as in the stream."""
    key_type: ColumnType
    """The type, with its schema, of a field of the record key."""
    zero: Any
    """The value in an old row that holds the key alone, if the column is required."""
    null_value: Any = None
    """The value of a null."""
    has_key_values: bool = False
    """Whether values carry those for the record key: see :func:`key_value`."""
    is_masked: bool = False
    """Whether reports of errors must not show its values."""


def find_rule(rules: tuple[ColumnRule, ...], table: str, column: str, source: SourceType) -> ColumnRule | None:
    """The rule of a column of ``table`` (schema.table), or None."""
    for rule in rules:
        if rule.matches(f"{table}.{source.name if rule.kind is RuleKind.PROPAGATE_TYPE else column}"):
            return rule
    return None


def map_column(column: RowColumn, rule: ColumnRule, table: str, source: SourceType, *, in_key: bool) -> RowColumn:
    """Applies a rule to a column of ``table``. ``in_key``: the record key needs its values, too.

    Raises DataError for a mask of a column whose custom converter returns no texts.
    """
    mapper: Mapper | None = None
    null_value = None
    match rule.kind:
        case RuleKind.PROPAGATE | RuleKind.PROPAGATE_TYPE:
            parameters = source_parameters(column.name, source)
        case RuleKind.TRUNCATE:
            if source.length is not None and source.length <= rule.length:
                return column
            parameters, mapper = {"truncateLength": str(rule.length)}, _truncation(column.schema, rule.length)
        case _:
            parameters = {"masked": "true"}
            if not source.is_text:
                log.warning(
                    "column %s.%s of type %s is not masked: masks apply to text, varchar, char, name, and enums; exclude the "
                    "column with column.exclude.list to keep its values out of Kafka",
                    table, column.name, source.name,
                )  # fmt: skip
            elif column.schema.type is not Type.STRING:
                raise DataError(
                    f"column {table}.{column.name} is masked, but its custom converter makes it {column.schema.type.name}, which "
                    "no mask fits: let the converter return texts, or exclude the column with column.exclude.list"
                )
            elif rule.kind is RuleKind.MASK:
                null_value = "*" * rule.length
                mapper = _constant(null_value)
            else:
                mapper = _hashing(rule, source.length or 0)
    schema = column.schema.replace(parameters={**(column.schema.parameters or {}), **parameters})
    mapped = column.type.under(schema)
    is_masked = rule.kind not in (RuleKind.PROPAGATE, RuleKind.PROPAGATE_TYPE)
    if mapper is None:
        return replace(column, type=mapped, schema=schema, is_masked=is_masked)
    if in_key:
        mapper = _with_key_value(mapper)
        null_value = None if null_value is None else _keyed(null_value, None)
    placeholder = None if mapped.placeholder is None else mapper(mapped.placeholder)
    decode = _composed(mapped.decode, mapper, null_value)
    mapped = replace(mapped, decode=decode, placeholder=placeholder, inline=Inline.CALL, call_kind=TextKind.OTHER)
    return replace(
        column,
        type=mapped,
        schema=schema,
        zero=mapper(column.zero),
        null_value=null_value,
        has_key_values=in_key,
        is_masked=is_masked,
    )


def source_parameters(column: str, source: SourceType) -> dict[str, str]:
    """Debezium's schema parameters with the type of a column."""
    prefix = "__debezium.source.column."
    parameters = {f"{prefix}type": source.name.upper()}
    for name, value in (("length", source.length), ("scale", source.scale), ("comment", source.comment or None)):
        if value is not None:
            parameters[f"{prefix}{name}"] = str(value)
    return {**parameters, f"{prefix}name": column}


def _composed(decode: Callable[[str], Any], mapper: Mapper, null_value: Any) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        value = decode(text)
        return null_value if value is None else mapper(value)  # MySQL's 0000-00-00 is null

    return convert


def _constant(mask: str) -> Mapper:
    return lambda value: mask


def _truncation(schema: Schema, length: int) -> Mapper | None:
    """Truncates texts and bytes, but not bytes with a meaning, such as those of a decimal."""
    if schema.type is Type.STRING:
        return lambda text: _first_units(text, length)
    if schema.type is Type.BYTES and schema.name is None:
        return lambda data: data[:length]
    return None


def _first_units(text: str, length: int) -> str:
    """The first UTF-16 code units of a text, Java's characters, without half a character at the end."""
    if text.isascii():
        return text[:length]
    return text.encode("utf-16-le")[: 2 * length].decode("utf-16-le", "ignore")


def _hashing(rule: ColumnRule, length: int) -> Mapper:
    salt, algorithm = rule.salt.encode(), rule.algorithm
    to_bytes = _serialized if rule.kind is RuleKind.HASH else str.encode

    def hash_text(value: Any) -> Any:
        digest = hashlib.new(algorithm, salt + to_bytes(value)).hexdigest()
        return digest[:length] if length > 0 else digest

    return hash_text


def _serialized(text: str) -> bytes:
    """A text in Java's object serialization: its first version hashes those bytes."""
    if text.isascii() and "\0" not in text:
        data = text.encode()
    else:
        raw = text.encode("utf-16-le")
        units = struct.unpack(f"<{len(raw) // 2}H", raw)
        data = b"".join(b"\xc0\x80" if unit == 0 else chr(unit).encode("utf-8", "surrogatepass") for unit in units)
    head = b"\x74" + struct.pack(">H", len(data)) if len(data) < 65_536 else b"\x7c" + struct.pack(">Q", len(data))
    return b"\xac\xed\x00\x05" + head + data


# --- values that carry those for the key ----------------------------------------------------------------------------------------


class KeyedText(str):
    """A mapped text that carries the value for the record key."""

    __slots__ = ("key_value",)
    key_value: Any


class KeyedBytes(bytes):
    """Mapped bytes that carry the value for the record key."""

    key_value: Any


def _keyed(value: Any, key_value: Any) -> Any:
    found: KeyedText | KeyedBytes
    if isinstance(value, str):
        found = KeyedText(value)
    elif isinstance(value, bytes):
        found = KeyedBytes(value)
    else:
        return value  # mappers change nothing else
    found.key_value = key_value
    return found


def _with_key_value(mapper: Mapper) -> Mapper:
    return lambda value: _keyed(mapper(value), value)


def key_value(value: Any) -> Any:
    """The value for the record key of a value of a row."""
    return value.key_value if isinstance(value, KeyedText | KeyedBytes) else value
