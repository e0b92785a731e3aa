"""Values that the source left out of an update: large ones of PostgreSQL (TOAST) that it did not change.

Debezium's events have a word in their place, in a form that the column's type can have: the word itself, its bytes, base64 or
hexadecimal of them, an array of it, its bytes one by one as numbers, a map from it to itself. Writing it would destroy what the
table has, which is what the original does; here the column is left out of the row.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from connect.data.logical import DECIMAL, decimal_scale
from connect.data.schema import Schema, Type

_NUMBERS = (Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_CONNECTS = "org.apache.kafka.connect.data."


class UnavailableValues:
    """Finds placeholders in rows of one form."""

    def __init__(self, word: str, schemas: Sequence[Schema]) -> None:
        self._forms = [(place, forms) for place, schema in enumerate(schemas) if (forms := _forms(word, schema))] if word else []

    def missing(self, rows: Sequence[Sequence[Any]]) -> dict[int, tuple[int, ...]]:
        """For each row that has placeholders, by its number, the places that do."""
        found: dict[int, tuple[int, ...]] = {}
        for place, forms in self._forms:
            column = [row[place] for row in rows]
            # A look over the whole column is one call; texts of other lengths are not compared.
            if any(form in column for form in forms):
                for number, value in enumerate(column):
                    if value in forms:
                        found[number] = (*found.get(number, ()), place)
        return found


def _forms(word: str, schema: Schema) -> list[Any]:
    data = word.encode()
    match schema.type:
        case Type.STRING:
            return _texts(word)
        case Type.BYTES if schema.name != DECIMAL:
            return [data]
        case Type.MAP:
            return [{word: word}]
        case Type.ARRAY if schema.value_schema is not None:
            return _arrays(word, schema.value_schema)
    return []


def _texts(word: str) -> list[Any]:
    data = word.encode()
    as_map = json.dumps({word: word}, separators=(",", ":"))
    return [word, as_map, data.hex(), base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()]


def _arrays(word: str, element: Schema) -> list[Any]:
    data = word.encode()
    if element.name == DECIMAL:
        scale = decimal_scale(element)
        return [[Decimal(byte).scaleb(-scale) for byte in data]]
    if element.type is Type.STRING:
        digest = uuid.UUID(bytes=hashlib.md5(data, usedforsecurity=False).digest(), version=3)
        return [[text] for text in (*_texts(word), str(digest))]
    if element.type is Type.BYTES:
        return [[data]]
    if element.type in _NUMBERS and not (element.name or "").startswith(_CONNECTS):
        return [list(data)]
    return []
