"""Adjusts schema names for Avro, by ``schema.name.adjustment.mode``."""

from __future__ import annotations

import re
from collections.abc import Callable

from connect.errors import SchemaError

_INVALID = re.compile(r"[^A-Za-z0-9_.]")
_INVALID_OR_ESCAPE = re.compile(r"[^A-Za-z0-9.]")
_FIRST = re.compile(r"[A-Za-z_]")
_FIRST_BUT_ESCAPE = re.compile(r"[A-Za-z]")
_MAX_NAMES = 10_000


def name_adjuster(mode: str) -> Callable[[str], str]:
    """Builds the function that adjusts names: ``none`` keeps them, ``avro`` replaces each character that Avro does not allow by
    ``_``, ``avro_unicode`` by its number. It raises SchemaError if two names become the same."""
    if mode == "none":
        return lambda name: name
    adjust = _replace_by_underscores if mode == "avro" else _replace_by_numbers
    originals: dict[str, str] = {}

    def adjust_once(name: str) -> str:
        result = adjust(name)
        if result != name and originals.setdefault(result, name) != name:
            raise SchemaError(
                f"The schema name {name} is not a valid Avro name, and adjusted to {result} it is the "
                f"same as {originals[result]}; "
                "choose another topic or schema.name.adjustment.mode=avro_unicode"
            )
        if len(originals) > _MAX_NAMES:
            originals.clear()
        return result

    return adjust_once


def _replace_by_underscores(name: str) -> str:
    head = name[:1]
    if head and not _FIRST.match(head):
        # A digit stays after the underscore, so that names that differ only in it stay different.
        head = f"_{head}" if head.isdecimal() and head <= "\uffff" else _underscore(head)
    return head + _INVALID.sub(lambda found: _underscore(found[0]), name[1:])


def _underscore(char: str) -> str:
    """One underscore per UTF-16 code unit, as in Java."""
    return "__" if ord(char) > 0xFFFF else "_"


def _replace_by_numbers(name: str) -> str:
    head = name[:1]
    if head and not _FIRST_BUT_ESCAPE.match(head):
        head = _format_code_units(head)
    return head + _INVALID_OR_ESCAPE.sub(lambda found: _format_code_units(found[0]), name[1:])


def _format_code_units(char: str) -> str:
    """The UTF-16 code units of a character as Debezium writes them: three digits are not padded."""
    units = char.encode("utf-16-be")
    numbers = [f"{units[i] << 8 | units[i + 1]:x}" for i in range(0, len(units), 2)]
    return "".join(f"_u{number if len(number) > 2 else '00' + number}" for number in numbers)
