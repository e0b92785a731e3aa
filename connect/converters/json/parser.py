"""Slow path of reading: parses JSON exactly, and as leniently as Jackson.

Integers are int of any size, other numbers Decimal with all their digits. Leading zeros are accepted, text after the first value
is ignored, unpaired surrogates are kept, and the encoding may be UTF-8, UTF-16, or UTF-32. The limits are Jackson's: 1000 levels,
1000 digits per number. Parsing does not recurse and takes linear time.
"""

from __future__ import annotations

import codecs
import decimal
import json
import re
from typing import Any, Final

from connect.errors import DataError
from connect.java.charsets import REPLACE_UTF16
from connect.strict import STRICT


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
"""The result for text without any value; not the same as null."""

MAX_DEPTH = 1000
MAX_NUMBER_LENGTH = 1000
_MAX_SCALE = 2**31 - 1
_NO_DIGITS = str.maketrans("", "", "+-.eE")
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORD_END = re.compile(r"[A-Za-z0-9_\x7f-\U0010ffff]")
_STRING = re.compile(r'[^"\\\x00-\x1f]*')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HEX4 = re.compile(r"[0-9a-fA-F]{4}")
_LITERALS = {"t": ("true", True), "f": ("false", False), "n": ("null", None)}
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")
_EXACT = decimal.Context(prec=MAX_NUMBER_LENGTH + 10, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=[])

_MARKS = codecs.BOM_UTF8, codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE


_AS_JACKSON = "connect.jackson"
_STOP = "\x7f\x01"
"""Stands neither in a text, nor between values, nor behind a number or a word."""


def _read_malformed(error: UnicodeError) -> tuple[str, int]:
    """What Jackson makes of bytes that are no UTF-8: it takes characters in more bytes than they need, and code points beyond
    the last one. Halves of surrogate pairs and cut characters are errors, but only where its reading comes by."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, at = error.object, error.start
    lead = data[at]
    size = 2 if lead & 0xE0 == 0xC0 else 3 if lead & 0xF0 == 0xE0 else 4 if lead & 0xF8 == 0xF0 else 0
    rest = data[at + 1 : at + size]
    if size == 0 or len(rest) != size - 1 or any(byte & 0xC0 != 0x80 for byte in rest):
        return _STOP, len(data)
    code = lead & (0x7F >> size)
    for byte in rest:
        code = code << 6 | byte & 0x3F
    if size == 4:
        code -= 0x10000
        return chr(0xD800 | code >> 10 & 0xFFFF) + chr(0xDC00 | code & 0x3FF), at + size
    return (_STOP, len(data)) if 0xD800 <= code < 0xE000 else (f"\\u{code:04X}", at + size)


codecs.register_error(_AS_JACKSON, _read_malformed)


def _text(raw: bytes, encoding: str) -> str:
    if encoding == "utf-8":
        return raw.decode("utf-8", _AS_JACKSON)
    if encoding.startswith("utf-16"):
        return raw.decode(encoding, REPLACE_UTF16)
    whole = len(raw) - len(raw) % 4
    return _join_pairs(raw[:whole].decode(encoding, "surrogatepass")) + (_STOP if whole < len(raw) else "")


class MalformedJson(ValueError):
    """The text is no JSON."""


def parse_json(data: bytes | memoryview, *, strict: bool = False) -> Any:
    """The first JSON value of some bytes, :data:`MISSING` when there is none. Raises DataError for malformed text.

    With ``strict`` nothing may be passed over: neither what follows the value nor a second value of one name."""
    raw = bytes(data)
    try:
        if len(raw) < 4 and raw.startswith(_MARKS):
            raise MalformedJson("a byte order mark without text")  # Jackson looks for marks where there are four bytes
        encoding = json.detect_encoding(raw)
        encoding = "utf-8" if encoding == "utf-8-sig" else encoding
        text = raw.decode(encoding) if strict else _text(raw, encoding)
        # Jackson refuses names with the escape of half of a surrogate pair in UTF-8, and in no other encoding.
        return _JsonParser(text.removeprefix("\ufeff"), strict, rejects_half_pairs=encoding == "utf-8").read()
    except (UnicodeDecodeError, MalformedJson) as e:
        raise DataError("Converting byte[] to Kafka Connect data failed due to serialization error: ") from e


class _JsonParser:
    """Parses a text in one pass, with a stack of open containers."""

    def __init__(self, text: str, strict: bool, rejects_half_pairs: bool) -> None:
        self._text = text
        self._strict = strict
        self._rejects_half_pairs = rejects_half_pairs
        self._at = 0

    def read(self) -> Any:
        self._skip_space()
        if self._at >= len(self._text):
            return MISSING
        value = self._value()
        if isinstance(value, list | dict):
            self._fill(value)
        elif type(value) in (int, decimal.Decimal) and self._text[self._at : self._at + 1] not in ("", " ", "\t", "\r", "\n"):
            raise self._malformed("a number at the top must be followed by a space")
        if self._strict:
            self._skip_space()
            if self._at < len(self._text):
                raise DataError(f"Something follows the JSON value, at character {self._at} ({STRICT} is on)")
        return value

    def _fill(self, top: list[Any] | dict[str, Any]) -> None:
        text = self._text
        stack: list[list[Any] | dict[str, Any]] = [top]
        fresh = True
        while stack:
            holder = stack[-1]
            self._skip_space()
            mark = text[self._at : self._at + 1]
            if mark == ("]" if isinstance(holder, list) else "}"):
                self._at += 1
                stack.pop()
                fresh = False
                continue
            if not fresh:
                if mark != ",":
                    raise self._malformed("expected a comma or an end")
                self._at += 1
                self._skip_space()
            if isinstance(holder, dict):
                if text[self._at : self._at + 1] != '"':
                    raise self._malformed("expected a name")
                start = self._at
                name = self._string()
                if self._rejects_half_pairs and _HALF.search(name) and "\\" in text[start : self._at]:
                    raise self._malformed("half of a surrogate pair in a name")
                self._skip_space()
                if text[self._at : self._at + 1] != ":":
                    raise self._malformed("expected a colon")
                self._at += 1
                self._skip_space()
                value = self._value()
                if self._strict and name in holder:
                    raise DataError(f"Field {name!r} is there twice, at character {self._at} ({STRICT} is on)")
                holder[name] = value
            else:
                value = self._value()
                holder.append(value)
            fresh = isinstance(value, list | dict)
            if fresh:
                stack.append(value)
                if len(stack) > MAX_DEPTH:
                    raise self._malformed(f"more than {MAX_DEPTH} levels")

    def _value(self) -> Any:
        """Parses a scalar, or the start of a container."""
        mark = self._text[self._at : self._at + 1]
        if mark == '"':
            return self._string()
        if mark == "{":
            self._at += 1
            return {}
        if mark == "[":
            self._at += 1
            return []
        if mark in _LITERALS:
            word, value = _LITERALS[mark]
            end = self._at + len(word)
            if not self._text.startswith(word, self._at) or _WORD_END.match(self._text, end):
                raise self._malformed("unknown word")
            self._at = end
            return value
        return self._number()

    def _number(self) -> int | decimal.Decimal:
        found = _NUMBER.match(self._text, self._at)
        if found is None:
            raise self._malformed("no value")
        digits = found.group()
        if len(digits) > MAX_NUMBER_LENGTH and len(digits.translate(_NO_DIGITS)) > MAX_NUMBER_LENGTH:
            raise self._malformed(f"a number of more than {MAX_NUMBER_LENGTH} digits")
        following = self._text[found.end() : found.end() + 1]
        if following in (".", "e", "E"):
            raise self._malformed("a number breaks off")
        self._at = found.end()
        if found[1] is None and found[2] is None:
            return int(digits)
        number = _EXACT.create_decimal(digits)
        exponent = number.as_tuple().exponent
        if not isinstance(exponent, int) or abs(exponent) > _MAX_SCALE:
            raise self._malformed("an exponent beyond all bounds")
        # Java's decimals have no negative zero; losing the sign is a loss.
        return number if number or self._strict else number.copy_abs()

    def _string(self) -> str:
        text = self._text
        parts = []
        at = self._at + 1
        while True:
            found = _STRING.match(text, at)
            assert found is not None
            parts.append(found.group())
            at = found.end()
            mark = text[at : at + 1]
            if mark == '"':
                self._at = at + 1
                joined = "".join(parts)
                return _join_pairs(joined) if len(parts) > 1 else joined
            if mark != "\\":
                raise self._malformed("a string breaks off or holds a control character")
            kind = text[at + 1 : at + 2]
            if kind == "u":
                code = _HEX4.match(text, at + 2)
                if code is None:
                    raise self._malformed("an escape without four hexadecimal digits")
                parts.append(chr(int(code.group(), 16)))
                at += 6
            elif kind in _ESCAPES:
                parts.append(_ESCAPES[kind])
                at += 2
            else:
                raise self._malformed("unknown escape")

    def _skip_space(self) -> None:
        found = _SPACE.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _malformed(self, why: str) -> MalformedJson:
        return MalformedJson(f"{why} at character {self._at}")


def _join_pairs(text: str) -> str:
    """Joins escaped surrogate pairs."""
    return _PAIR.sub(lambda m: m[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)
