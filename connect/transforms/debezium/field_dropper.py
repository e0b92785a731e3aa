"""Drops the fields that a header lists from the value and the key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from connect.data.schema import Schema
from connect.errors import DataError
from connect.record import ConnectRecord
from connect.transforms.api import Transformation
from connect.transforms.replace_field import ReplaceFieldKey, ReplaceFieldValue

_MAX_REPLACERS = 64


class FieldDropper:
    """Drops the fields that a header of the record names, as ReplaceField does. If ``compatible``, required fields stay."""

    def __init__(self, header: str, from_key: bool, compatible: bool) -> None:
        self._header = header
        self._from_key = from_key
        self._compatible = compatible
        self._replacers: dict[tuple[bool, tuple[str, ...]], Transformation] = {}

    def drop_fields(self, record: ConnectRecord, retained: frozenset[str] = frozenset()) -> ConnectRecord | None:
        """Drops the fields, except those in ``retained``. Raises DataError if the header is not a list of strings."""
        header = next((h for h in record.headers or () if h.key == self._header), None)
        if header is None or header.value is None:
            return record
        if not isinstance(header.value, list) or not all(isinstance(name, str) for name in header.value):
            raise DataError(f"The header {self._header} must be a list of the fields to drop, but is {header.value!r:.80}")
        names = [name for name in header.value if name not in retained]
        current: ConnectRecord | None = record
        if self._from_key and record.key is not None:
            current = self._drop_from(record, record.key_schema, names, is_key=True)
        if current is not None and record.value is not None:
            current = self._drop_from(current, record.value_schema, names, is_key=False)
        return current

    def _drop_from(self, record: ConnectRecord, schema: Schema | None, names: list[str], *, is_key: bool) -> ConnectRecord | None:
        dropped = tuple(dict.fromkeys(names))
        if self._compatible and dropped and schema is not None:
            if schema.fields is None:
                part = "key" if is_key else "value"
                raise DataError(f"Fields cannot be dropped from the {part}: expected a struct, found {schema.type.name}")
            dropped = tuple(f.name for f in schema.fields or () if f.schema.optional and f.name in dropped)
        if not dropped:
            return record
        replacer = self._replacers.get((is_key, dropped))
        if replacer is None:
            variant: Callable[[], Any] = ReplaceFieldKey if is_key else ReplaceFieldValue
            replacer = variant()
            replacer.configure({"exclude": list(dropped)})
            if len(self._replacers) >= _MAX_REPLACERS:
                del self._replacers[next(iter(self._replacers))]
            self._replacers[is_key, dropped] = replacer
        return replacer.apply(record)
