"""Fields that a header lists are left out of value and key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from connect.data.schema import Schema
from connect.errors import DataError
from connect.record import ConnectRecord
from connect.transforms.api import Transformation
from connect.transforms.replace_field import ReplaceFieldKey, ReplaceFieldValue

_MAX_LISTS = 64


class FieldDropper:
    """Leaves fields out as ReplaceField does, for the names in a record's header. ``compatible`` spares fields that are not
    optional."""

    def __init__(self, header: str, from_key: bool, compatible: bool) -> None:
        self._header = header
        self._from_key = from_key
        self._compatible = compatible
        self._replacers: dict[tuple[bool, tuple[str, ...]], Transformation] = {}

    def dropped(self, record: ConnectRecord, kept: frozenset[str] = frozenset()) -> ConnectRecord | None:
        """The record without the fields, but with those of ``kept``. Raises DataError when the header is no list of texts."""
        header = next((h for h in record.headers or () if h.key == self._header), None)
        if header is None or header.value is None:
            return record
        if not isinstance(header.value, list) or not all(isinstance(name, str) for name in header.value):
            raise DataError(f"The header {self._header} lists the fields to drop, and is no list of texts: {header.value!r:.80}")
        names = [name for name in header.value if name not in kept]
        current: ConnectRecord | None = record
        if self._from_key and record.key is not None:
            current = self._without(record, record.key_schema, names, of_key=True)
        if current is not None and record.value is not None:
            current = self._without(current, record.value_schema, names, of_key=False)
        return current

    def _without(self, record: ConnectRecord, schema: Schema | None, names: list[str], *, of_key: bool) -> ConnectRecord | None:
        chosen = tuple(dict.fromkeys(names))
        if self._compatible and chosen and schema is not None:
            if schema.fields is None:
                part = "key" if of_key else "value"
                raise DataError(f"Fields are to be dropped from the {part}, which is of type {schema.type.name} and no struct")
            chosen = tuple(f.name for f in schema.fields or () if f.schema.optional and f.name in chosen)
        if not chosen:
            return record
        replacer = self._replacers.get((of_key, chosen))
        if replacer is None:
            made: Callable[[], Any] = ReplaceFieldKey if of_key else ReplaceFieldValue
            replacer = made()
            replacer.configure({"exclude": list(chosen)})
            if len(self._replacers) >= _MAX_LISTS:
                del self._replacers[next(iter(self._replacers))]
            self._replacers[of_key, chosen] = replacer
        return replacer.apply(record)
