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


def _adjust(mode: str, name: str, *, is_schema: bool) -> str:
    if not name:
        return name
    first, rest = name[0], name[1:]
    if not _FIRST[mode].match(first):
        # A first digit stays behind the underscore: 1a and 2a remain different.
        kept = first if mode == "avro" and first.isdecimal() else ""
        first = "".join(_replaced(mode, unit) for unit in _units(first)) + kept
    return first + _INVALID[mode, is_schema].sub(lambda m: "".join(_replaced(mode, unit) for unit in _units(m[0])), rest)


def _units(text: str) -> list[int]:
    """UTF-16 code units, Java's characters."""
    data = text.encode("utf-16-be", "surrogatepass")
    return [data[i] << 8 | data[i + 1] for i in range(0, len(data), 2)]


def _replaced(mode: str, unit: int) -> str:
    if mode == "avro":
        return "_"
    digits = f"{unit:x}"
    return "_u" + ("00" + digits if len(digits) <= 2 else digits)
