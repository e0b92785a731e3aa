"""Finds values that the source left out of an update because they did not change (TOAST).

Debezium's events have a placeholder in their place. Debezium's sink writes the placeholder over the value in the table; this one
leaves the column out of the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connect.change_events import toast
from connect.data.logical import DECIMAL, decimal_scale
from connect.data.schema import Schema, Type

_NUMBERS = (Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_CONNECT_PREFIX = "org.apache.kafka.connect.data."


class UnavailableValues:
    """Finds placeholders in rows with the same columns."""

    def __init__(self, word: str, schemas: Sequence[Schema]) -> None:
        self._forms = [(index, forms) for index, schema in enumerate(schemas) if (forms := _forms(word, schema))] if word else []

    def find(self, rows: Sequence[Sequence[Any]]) -> dict[int, tuple[int, ...]]:
        """Returns the column indexes of the placeholders, for each row number that has any."""
        found: dict[int, tuple[int, ...]] = {}
        for index, forms in self._forms:
            column = [row[index] for row in rows]
            # Searching the whole column is one call, and texts of other lengths are not compared.
            if any(form in column for form in forms):
                for number, value in enumerate(column):
                    if value in forms:
                        found[number] = (*found.get(number, ()), index)
        return found


def _forms(word: str, schema: Schema) -> list[Any]:
    match schema.type:
        case Type.STRING:
            return list(toast.text_forms(word))
        case Type.BYTES if schema.name != DECIMAL:
            return [word.encode()]
        case Type.MAP:
            return [toast.map_form(word)]
        case Type.ARRAY if schema.value_schema is not None:
            return _array_forms(word, schema.value_schema)
    return []


def _array_forms(word: str, element: Schema) -> list[Any]:
    if element.name == DECIMAL:
        return [toast.decimal_form(word, decimal_scale(element))]
    if element.type is Type.STRING:
        return [[text] for text in toast.element_text_forms(word)]
    if element.type is Type.BYTES:
        return [[word.encode()]]
    if element.type in _NUMBERS and not (element.name or "").startswith(_CONNECT_PREFIX):
        return [toast.number_form(word)]
    return []
