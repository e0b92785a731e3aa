"""Adjusts names of schemas and fields so that Avro accepts them, as Debezium does."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

Adjust = Callable[[str], str]

MODES = ("none", "avro", "avro_unicode")
_INVALID = {
    ("avro", True): re.compile(r"[^A-Za-z0-9_.]"),
    ("avro", False): re.compile(r"[^A-Za-z0-9_]"),
    ("avro_unicode", True): re.compile(r"[^A-Za-z0-9.]"),
    ("avro_unicode", False): re.compile(r"[^A-Za-z0-9]"),
}
"""Invalid characters after the first; names of schemas have dots."""
_FIRST = {"avro": re.compile(r"[A-Za-z_]"), "avro_unicode": re.compile(r"[A-Za-z]")}


def schema_name_adjuster(mode: str) -> Adjust:
    """Adjusts names of schemas by ``schema.name.adjustment.mode``."""
    return str if mode == "none" else partial(_adjust, mode, is_schema=True)


def field_name_adjuster(mode: str) -> Adjust:
    """Adjusts names of fields by ``field.name.adjustment.mode``."""
    return str if mode == "none" else partial(_adjust, mode, is_schema=False)


def escape_units(text: str) -> str:
    """``_uxxxx`` for each UTF-16 code unit, Java's characters, in at least four digits, as Debezium writes them."""
    data = text.encode("utf-16-be", "surrogatepass")
    units = (f"{data[i] << 8 | data[i + 1]:x}" for i in range(0, len(data), 2))
    return "".join(f"_u00{digits}" if len(digits) <= 2 else f"_u{digits}" for digits in units)


def _adjust(mode: str, name: str, *, is_schema: bool) -> str:
    if not name:
        return name
    first, rest = name[0], name[1:]
    if not _FIRST[mode].match(first):
        # A first digit stays behind the underscore: 1a and 2a remain different.
        kept = first if mode == "avro" and first.isdecimal() else ""
        first = _replaced(mode, first) + kept
    return first + _INVALID[mode, is_schema].sub(lambda m: _replaced(mode, m[0]), rest)


def _replaced(mode: str, text: str) -> str:
    if mode == "avro_unicode":
        return escape_units(text)
    return "_" * (len(text.encode("utf-16-be", "surrogatepass")) // 2)
