"""The parser behind :func:`connect.data.values.parse_string`."""

from __future__ import annotations

import decimal
import math
import re
from typing import Any

from connect.data.logical import DATE, TIME, TIMESTAMP, date_of, decimal_schema, instant_of, millis_to_time
from connect.data.schema import Schema, Type
from connect.data.schema_and_value import SchemaAndValue
from connect.data.temporal_text import iso_text, parse_temporal
from connect.data.types import INT_RANGES
from connect.errors import DataError
from connect.java.number_text import double_text, float_text
from connect.java.numbers import nearest_float32
from connect.java.sized_numbers import Float32, Int8, Int16, Int32, round_to_float32

_DELIMITERS = frozenset(':,{}[]"')
_BLANK = "".join(map(chr, range(0x21)))
"""The characters that Java's ``trim`` removes: everything up to the space."""

_DECIMAL = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_NUMERIC = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_INTEGERS: tuple[tuple[Type, Schema, type[int]], ...] = (
    (Type.INT8, Schema.INT8, Int8),
    (Type.INT16, Schema.INT16, Int16),
    (Type.INT32, Schema.INT32, Int32),
    (Type.INT64, Schema.INT64, int),
)
_BOXES: dict[Type, type[int] | type[float]] = {
    **{kind: box for kind, _, box in _INTEGERS},
    Type.FLOAT32: Float32,
    Type.FLOAT64: float,
}
_Elements = list[SchemaAndValue | None]
_TRUE = SchemaAndValue(Schema.BOOLEAN, True)
_FALSE = SchemaAndValue(Schema.BOOLEAN, False)
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=[])
_MAX_DIGITS = 4000
_MAX_SCALE = 2**31 - 1


def parse_value(text: str) -> SchemaAndValue | None:
    """Parses a nonempty text; returns None for the literal ``null``."""
    return _ValuesParser(text).parse(embedded=False)


def parse_with_losses(text: str) -> tuple[SchemaAndValue | None, list[str]]:
    """Parses a nonempty text; also returns a description of each part of the text that the value does not represent."""
    losses: list[str] = []
    return _ValuesParser(text, losses).parse(embedded=False), losses


class _Tokens:
    """Splits text at delimiters that no backslash escapes; each delimiter is a token of its own."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._at = 0
        self._waiting: str | None = None
        self.previous: str | None = None

    def mark(self) -> int:
        return self._at - len(self._waiting or "")

    def rewind(self, position: int) -> None:
        self._at, self._waiting, self.previous = position, None, None

    def has_next(self) -> bool:
        return self._waiting is not None or self._at < len(self.text)

    def next(self) -> str:
        token = self._waiting if self._waiting is not None else self._read()
        self._waiting = None
        self.previous = token
        return token

    def next_several(self, count: int) -> str | None:
        """Returns the text of the next tokens, or None without moving if there are fewer."""
        start = self.mark()
        for _ in range(count):
            if not self.has_next():
                self.rewind(start)
                return None
            self.next()
        return self.text[start : self._at]

    def take(self, expected: str) -> bool:
        """Skips blank tokens and consumes the next one if it is the expected one."""
        if self._waiting is None:
            if not self.has_next():
                return False
            self._waiting = self._read()
        while not self._waiting.strip(_BLANK) and self._at < len(self.text):
            self._waiting = self._read()
        if self._waiting.strip(_BLANK) != expected:
            return False
        self._waiting = None
        return True

    def _read(self) -> str:
        text, start = self.text, self._at
        escaped = False
        for at in range(start, len(text)):
            char = text[at]
            if char == "\\":
                escaped = not escaped
                continue
            if char in _DELIMITERS and not escaped:
                self._at = at if at > start else at + 1
                return text[start : self._at]
            escaped = False
        self._at = len(text)
        return text[start:]


class _ValuesParser:
    def __init__(self, text: str, losses: list[str] | None = None) -> None:
        self._tokens = _Tokens(text)
        self._losses = losses
        """Collects descriptions of losses; None: do not collect."""

    def parse(self, *, embedded: bool) -> SchemaAndValue | None:
        tokens = self._tokens
        if not tokens.has_next():
            return None
        if embedded and tokens.take('"'):
            return self._quoted()
        for literal, value in (("null", None), ("true", _TRUE), ("false", _FALSE)):
            if self._is_literal(literal, embedded):
                return value
        start, noted = tokens.mark(), len(self._losses or ())
        try:
            if tokens.take("["):
                return self._list()
            if tokens.take("{"):
                return self._map()
        except DataError:
            tokens.rewind(start)
            if self._losses is not None:
                del self._losses[noted:]
        token = tokens.next()
        trimmed = token.strip(_BLANK)
        return self._scalar(trimmed, embedded) if trimmed else SchemaAndValue(Schema.STRING, token)

    def _is_literal(self, literal: str, embedded: bool) -> bool:
        start = self._tokens.mark()
        if self._tokens.take(literal) and (embedded or not self._tokens.has_next()):
            return True
        self._tokens.rewind(start)
        return False

    def _scalar(self, token: str, embedded: bool) -> SchemaAndValue:
        starts_with_digit = token[0].isdecimal()
        found = self._temporal(token) if starts_with_digit else None
        if found is None and (starts_with_digit or token[0] in "+-"):
            found = _number(token)
        if found is not None:
            if self._losses is not None:
                self._note_losses(token, found, embedded)
            return found
        if embedded:
            raise DataError("Failed to parse embedded value")
        return SchemaAndValue(Schema.STRING, self._tokens.text)

    def _temporal(self, token: str) -> SchemaAndValue | None:
        # The colons of a time split it into five tokens; try them together first.
        position = self._tokens.mark()
        rest = self._tokens.next_several(4)
        if rest is not None:
            found = self._instant(token + rest)
            if found is not None:
                return found
        self._tokens.rewind(position)
        return self._instant(token)

    def _instant(self, text: str) -> SchemaAndValue | None:
        found = parse_temporal(text)
        if found is not None and found.schema is not None and self._losses is not None:
            shown = iso_text(found.schema, found.value)
            if text.replace("\\:", ":") != shown:
                self._losses.append(f"{_shorten(text)} is read as {shown}")
        return found

    def _note_losses(self, token: str, found: SchemaAndValue, embedded: bool) -> None:
        assert self._losses is not None
        if isinstance(found.value, float):
            shown = float_text(found.value) if isinstance(found.value, Float32) else double_text(found.value)
            if decimal.Decimal(shown) != decimal.Decimal(token):
                self._losses.append(f"{_shorten(token)} is read as {shown}")
        if not embedded and self._tokens.has_next():
            self._losses.append(f"what follows {_shorten(token)} is dropped")

    def _quoted(self) -> SchemaAndValue:
        parts = []
        while self._tokens.has_next():
            if self._tokens.take('"'):
                break
            parts.append(self._tokens.next())
        content = "".join(parts)
        return self._instant(content) or SchemaAndValue(Schema.STRING, content)

    def _list(self) -> SchemaAndValue:
        tokens = self._tokens
        found: _Elements = []
        while tokens.has_next():
            if tokens.take("]"):
                common = _common_schema(found)
                values = [None if e is None else e.value for e in found]
                if common is None:
                    return SchemaAndValue(Schema(Type.ARRAY), values)
                return SchemaAndValue(Schema(Type.ARRAY, value_schema=common), [self._aligned(common, v) for v in values])
            if tokens.take(","):
                raise DataError(f"Unable to parse an empty array element: {tokens.text}")
            found.append(self.parse(embedded=True))
            position = tokens.mark()
            if tokens.take("]"):
                tokens.rewind(position)
            elif not tokens.take(","):
                raise DataError("Array elements missing ',' delimiter")
        raise DataError(f"Array is missing terminating ']': {tokens.text}")

    def _map(self) -> SchemaAndValue:
        tokens = self._tokens
        keys: _Elements = []
        values: _Elements = []
        entries: dict[Any, Any] = {}
        schemas: dict[Any, Schema | None] = {}
        while tokens.has_next():
            if tokens.take("}"):
                return self._mapped(keys, values, entries)
            if tokens.take(","):
                raise DataError(f"Unable to parse a map entry with no key or value: {tokens.text}")
            key = self.parse(embedded=True)
            if key is None or key.value is None:
                raise DataError(f"Map entry may not have a null key: {tokens.text}")
            if not tokens.take(":"):
                raise DataError(f"Map entry is missing ':': {tokens.text}")
            value = self.parse(embedded=True)
            if isinstance(key.value, list | dict):
                raise DataError(f"A list or map as a map key cannot be held: {tokens.text}")
            if schemas.setdefault(key.value, key.schema) != key.schema:  # 1 and true, decimals of several scales
                raise DataError(f"Map keys that are equal in Python alone: {tokens.text}")
            if self._losses is not None and key.value in entries:
                self._losses.append(f"the key {_shorten(str(key.value))} is there twice, and the first value is dropped")
            entries[key.value] = None if value is None else value.value
            tokens.take(",")
            keys.append(key)
            values.append(value)
        raise DataError(f"Map is missing terminating '}}': {tokens.text}")

    def _mapped(self, keys: _Elements, values: _Elements, entries: dict[Any, Any]) -> SchemaAndValue:
        key_schema, value_schema = _common_schema(keys), _common_schema(values)
        if key_schema is None:
            return SchemaAndValue(Schema(Type.MAP), entries)
        aligned = {
            self._aligned(key_schema, k): v if value_schema is None else self._aligned(value_schema, v)
            for k, v in entries.items()
        }
        return SchemaAndValue(Schema(Type.MAP, key_schema=key_schema, value_schema=value_schema), aligned)

    def _aligned(self, schema: Schema, value: Any) -> Any:
        aligned = _align(schema, value)
        if self._losses is not None and isinstance(aligned, float) and type(value) is not type(aligned):
            before = float_text(value) if isinstance(value, Float32) else str(value)
            after = float_text(aligned) if isinstance(aligned, Float32) else double_text(aligned)
            if decimal.Decimal(before) != decimal.Decimal(after):
                self._losses.append(f"{before} is read as {after}")
        return aligned


def _common_schema(found: _Elements) -> Schema | None:
    """Returns the schema that fits all elements: numbers widen, and of equal types, the later one wins. None for mixed types."""
    common: Schema | None = None
    for element in found:
        if element is None or element.schema is None:
            continue
        latest = element.schema
        if common is None or common.type is latest.type:
            common = latest
        elif common.type in _NUMERIC and latest.type in _NUMERIC:
            common = max(common, latest, key=lambda s: _NUMERIC.index(s.type))
        else:
            return None
    return common


def _align(schema: Schema, value: Any) -> Any:
    """Converts a parsed element to the list's schema. Nested lists and maps stay unchanged."""
    if value is None:
        raise DataError("Unable to convert a null value to a schema that requires a value")
    if schema.name in (DATE, TIME, TIMESTAMP):
        return _align_temporal(schema, value)
    box = _BOXES.get(schema.type)
    if box is None or type(value) is box:
        return value
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise DataError(f"Unable to convert {value} to {schema!r}")
    return box(round_to_float32(value)) if box is Float32 else box(value)


def _align_temporal(schema: Schema, value: Any) -> Any:
    if not isinstance(value, int):
        return value
    if schema.name == DATE:
        return date_of(value)
    return millis_to_time(value) if schema.name == TIME else instant_of(value)


def _number(token: str) -> SchemaAndValue | None:
    """Parses a number to the narrowest type: integers by value (``1.0``, ``1e2``), then float32, float64, and Decimal."""
    if not _DECIMAL.fullmatch(token) or len(token) > _MAX_DIGITS:
        return None
    number = _EXACT.create_decimal(token)
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or abs(exponent) > _MAX_SCALE:
        return None
    if number == 0 or (number.adjusted() < 20 and (exponent >= 0 or not any(digits[exponent:]))):
        integer = int(number)
        for kind, schema, box in _INTEGERS:
            low, high = INT_RANGES[kind]
            if low <= integer <= high:
                return SchemaAndValue(schema, box(integer))
    if exponent != 0:
        double = float(number)
        single = nearest_float32(double, number) if math.isfinite(double) else double
        if abs(single) != float("inf"):
            return SchemaAndValue(Schema.FLOAT32, Float32(single))
        if abs(double) != float("inf"):
            return SchemaAndValue(Schema.FLOAT64, double)
    return SchemaAndValue(decimal_schema(-exponent), number)


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
