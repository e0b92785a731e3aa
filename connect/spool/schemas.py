"""Stores JSON with schemas without its schemas: they are in the index, once, and rows have their ID.

JSON with schemas repeats the schema in each record, which is usually most of it. Whatever the worker's converter wrote is
restored to the byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connect.converters.json.message_prefix import OPEN, find_message_prefix

_END = b"}"


class SchemaTexts:
    """The texts before payloads that a spool knows, by ID. Not thread-safe."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._texts = {int(number): text.encode() for number, text in known.items()}
        self._numbers = {text: number for number, text in self._texts.items()}
        self._unstored: dict[str, str] = {}

    @property
    def unstored(self) -> dict[str, str]:
        """The texts that the index does not have, by ID."""
        return dict(self._unstored)

    def stored(self) -> None:
        """Called when the index has all texts."""
        self._unstored.clear()

    def find(self, message: bytes) -> int | None:
        """Returns the ID of the text that a message begins with, and adds it if it is new; None for other messages."""
        for number, text in reversed(self._texts.items()):
            if message.startswith(text):
                return number
        found = find_message_prefix(message)
        if found is None:
            return None
        try:
            found.text.decode()
        except UnicodeDecodeError:  # a lone surrogate, which the JSON parser accepts
            return None
        return self.number(found.text)

    def number(self, text: bytes) -> int:
        """Returns the ID of a text, which must be UTF-8, and adds it if it is new."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = max(self._texts, default=-1) + 1
            self._texts[number] = text
            self._unstored[str(number)] = text.decode()
        return number

    def text(self, number: int) -> bytes:
        """Returns the text of an ID."""
        return self._texts[number]


def split_schemas(values: pa.Array, texts: SchemaTexts) -> tuple[pa.Array, pa.Array]:
    """Returns the payloads and the IDs of their schemas. A value of another form is its own payload, and its ID is null."""
    ids = np.full(len(values), -1, np.int32)
    waiting = _mask(pc.and_(pc.starts_with(values, OPEN), pc.ends_with(values, _END)))
    while waiting.any():
        first = int(waiting.argmax())
        number = texts.find(values[first].as_py())
        if number is None:
            waiting[first] = False
            continue
        found = waiting & _mask(pc.starts_with(values, texts.text(number)))
        ids[found] = number
        waiting &= ~found
    cut = _by_id(values, ids, lambda part, number: pc.binary_slice(part, len(texts.text(number)), -len(_END)))
    return cut, pa.array(ids, mask=ids < 0)


def join_schemas(payloads: pa.Array, ids: pa.Array, schemas: Mapping[str, str]) -> pa.Array:
    """Returns the values that :func:`split_schemas` was given."""
    numbers = ids.fill_null(-1).to_numpy(zero_copy_only=False)

    def restore(part: pa.Array, number: int) -> pa.Array:
        return pc.binary_join_element_wise(schemas[str(number)].encode(), part, _END, b"")

    return _by_id(payloads, numbers, restore)


def _by_id(values: pa.Array, ids: np.ndarray, change: Callable[[pa.Array, int], pa.Array]) -> pa.Array:
    """Applies ``change(values, id)`` to the values of each ID; those of the ID -1 stay."""
    numbers = np.unique(ids).tolist()
    if len(numbers) == 1:
        return values if numbers[0] < 0 else change(values, numbers[0])
    places, parts = [], []
    for number in numbers:
        places.append(np.flatnonzero(ids == number))
        part = values.take(pa.array(places[-1]))
        parts.append(part if number < 0 else change(part, number))
    return pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(places))))


def _mask(condition: pa.Array) -> np.ndarray:
    found: np.ndarray = pc.fill_null(condition, False).to_numpy(zero_copy_only=False).copy()
    return found
