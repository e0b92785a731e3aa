"""Placeholders for unavailable values, in every form in which Debezium writes them.

PostgreSQL does not log a large (TOASTed) value that an update does not change. Debezium's events then hold a placeholder in a
form that the column's type can hold: the word itself, its bytes, the word in base64 or hexadecimal, an array of it, its bytes as
numbers, or a map from the word to itself.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from decimal import Decimal

UNAVAILABLE_VALUE = "__debezium_unavailable_value"
"""Default of ``unavailable.value.placeholder``."""


def map_form(word: str) -> dict[str, str]:
    """Placeholder in a map (hstore)."""
    return {word: word}


def json_form(word: str) -> str:
    """Placeholder in a map as JSON text."""
    return json.dumps(map_form(word), separators=(",", ":"))


def text_forms(word: str) -> list[str]:
    """Placeholders in a text column: the word, JSON text, and bytes as hexadecimal and base64."""
    data = word.encode()
    return [word, json_form(word), data.hex(), base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()]


def uuid_form(word: str) -> str:
    """The only element of an array of UUIDs: Java's ``UUID.nameUUIDFromBytes``."""
    return str(uuid.UUID(bytes=hashlib.md5(word.encode(), usedforsecurity=False).digest(), version=3))


def element_text_forms(word: str) -> list[str]:
    """Placeholders in an array of text, each the only element."""
    return [*text_forms(word), uuid_form(word)]


def number_form(word: str) -> list[int]:
    """An array of numbers: the bytes of the word, one by one."""
    return list(word.encode())


def decimal_form(word: str, scale: int) -> list[Decimal]:
    """An array of decimals: the bytes of the word as unscaled values."""
    return [Decimal((0, tuple(map(int, str(byte))), -scale)) for byte in word.encode()]
