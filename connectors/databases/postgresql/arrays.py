"""PostgreSQL's text form of arrays, both ways, with any number of dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from connect.errors import DataError

Decode = Callable[[str], Any]


def array_decoder(column: str, decode: Decode, depth: int, delimiter: str) -> Callable[[str], list[Any]]:
    """Returns a decoder of arrays of ``depth`` dimensions into nested lists; ``decode`` converts the text of an element.

    The decoder raises DataError, naming the column, for an array with another number of dimensions than the column declares (the
    server does not enforce it) or with explicit bounds, which a list cannot represent.
    """

    def reject(text: str, what: str) -> DataError:
        shown = text if len(text) <= 60 else text[:57] + "..."
        return DataError(
            f"Column {column}: the array {shown} {what}; read the column with a query that casts it to text, or to json"
        )

    def decode_array(text: str) -> list[Any]:
        if text[0] != "{":
            raise reject(text, "has explicit bounds, which Connect's arrays cannot have")
        if text == "{}":
            return []
        if depth == 1 and '"' not in text and "\\" not in text:
            if "{" in text[1:]:
                raise reject(text, "has several dimensions, but the column was declared with one")
            return [None if part == "NULL" else decode(part) for part in text[1:-1].split(delimiter)]
        found, found_depth = parse_array(text, decode, delimiter)
        if found_depth != depth:
            raise reject(text, f"has {found_depth} dimensions, but the column was declared with {depth}")
        return found

    return decode_array


def parse_array(text: str, decode: Decode, delimiter: str) -> tuple[list[Any], int]:
    """Parses an array without bounds, ``{1,{2,"3"}}``, into nested lists. Also returns the number of dimensions."""
    stack: list[list[Any]] = []
    deepest = 0
    at = 0
    while True:
        c = text[at]
        if c == "{":
            stack.append([])
            deepest = max(deepest, len(stack))
            at += 1
        elif c == "}":
            done = stack.pop()
            if not stack:
                return done, deepest
            stack[-1].append(done)
            at += 1
        elif c == delimiter:
            at += 1
        elif c == '"':
            part, at = _quoted(text, at + 1)
            stack[-1].append(decode(part))
        else:
            part, at = _bare(text, at, delimiter)
            stack[-1].append(None if part == "NULL" else decode(part))


def _quoted(text: str, at: int) -> tuple[str, int]:
    start = at
    parts: list[str] = []
    while True:
        c = text[at]
        if c == '"':
            parts.append(text[start:at])
            return "".join(parts), at + 1
        if c == "\\":
            parts.append(text[start:at])
            start = at + 1
            at += 2
        else:
            at += 1


def _bare(text: str, at: int, delimiter: str) -> tuple[str, int]:
    start = at
    while text[at] != delimiter and text[at] != "}":
        at += 1
    return text[start:at], at


def format_array(values: list[Any], encode: Callable[[Any], str], delimiter: str = ",") -> str:
    """Formats nested lists as an array."""
    return "{" + delimiter.join(_element(value, encode, delimiter) for value in values) + "}"


def _element(value: Any, encode: Callable[[Any], str], delimiter: str) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return format_array(value, encode, delimiter)
    return quote_element(encode(value))


def quote_element(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
