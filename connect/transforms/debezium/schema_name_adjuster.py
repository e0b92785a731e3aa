"""Schema names made fit for Avro, as ``schema.name.adjustment.mode`` says."""

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
    """What makes a name fit: ``none`` leaves it, ``avro`` puts ``_`` for each character that Avro does not allow,
    ``avro_unicode`` the character's number. Two names that become one are refused."""
    if mode == "none":
        return lambda name: name
    adjust = _underscores if mode == "avro" else _numbers
    originals: dict[str, str] = {}

    def adjusted(name: str) -> str:
        result = adjust(name)
        if result != name and originals.setdefault(result, name) != name:
            raise SchemaError(
                f"The schema name {name} is no valid Avro name, and as {result} it is the same as {originals[result]}; "
                "choose another topic, or schema.name.adjustment.mode=avro_unicode"
            )
        if len(originals) > _MAX_NAMES:
            originals.clear()
        return result

    return adjusted


def _underscores(name: str) -> str:
    head = name[:1]
    if head and not _FIRST.match(head):
        # A digit stays behind the underscore, so that names that differ in it alone stay different.
        head = f"_{head}" if head.isdecimal() and head <= "\uffff" else _underscore(head)
    return head + _INVALID.sub(lambda found: _underscore(found[0]), name[1:])


def _underscore(char: str) -> str:
    """One for each of the one or two that Java counts the character as."""
    return "__" if ord(char) > 0xFFFF else "_"


def _numbers(name: str) -> str:
    head = name[:1]
    if head and not _FIRST_BUT_ESCAPE.match(head):
        head = _number(head)
    return head + _INVALID_OR_ESCAPE.sub(lambda found: _number(found[0]), name[1:])


def _number(char: str) -> str:
    """Java's numbers of a character, one or two, as it writes them: three digits stay three."""
    units = char.encode("utf-16-be")
    numbers = [f"{units[i] << 8 | units[i + 1]:x}" for i in range(0, len(units), 2)]
    return "".join(f"_u{number if len(number) > 2 else '00' + number}" for number in numbers)
