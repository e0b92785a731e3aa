"""``add.fields`` and ``add.headers``: the fields of an event to add, and their new names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from connect.change_events.envelope import OPERATION, SOURCE, TRANSACTION
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError
from connect.transforms.structs import require_fields

_TRANSACTION_FIELDS = frozenset(("id", "data_collection_order", "total_order"))
_ENVELOPE_FIELDS = frozenset((OPERATION, "ts_ms", "ts_us", "ts_ns"))
_UPDATE_DESCRIPTION = "updateDescription"
ReadValues = Callable[[list[Any]], Any]
"""Reads the field from the values of an envelope."""


@dataclass(frozen=True, slots=True)
class FieldReference:
    """A field to add: its block in the envelope (None: the envelope itself), its name there, and its new name."""

    block: str | None
    field: str
    new_name: str

    def find_in_schema(self, schema: Schema) -> tuple[Schema, ReadValues] | None:
        """The schema of the new field and how to read it; None if neither the block nor the envelope has the field. Raises
        DataError if the envelope has no such block."""
        own = schema.field(self.field)
        if self.block is None:
            return None if own is None else (_as_optional(own.schema), _envelope_reader(own.index))
        block = schema.field(self.block)
        if block is None or block.schema.fields is None:
            raise DataError(
                f"{self.field} cannot be added as {self.new_name}: the event has no block {self.block}; "
                f"blocks: {', '.join(f.name for f in require_fields(schema) if f.schema.fields is not None)}"
            )
        inner = block.schema.field(self.field)
        if inner is not None:
            return _as_optional(inner.schema), _block_reader(block.index, block.schema, inner.index, self.field)
        if own is None:
            return None
        # Another transformation may have added it to the envelope; as in Debezium, it is read only if the block is not null.
        block_index, own_index = block.index, own.index
        return _as_optional(own.schema), lambda values: None if values[block_index] is None else values[own_index]

    def find_in_map(self, event: dict[Any, Any]) -> tuple[bool, Any]:
        """Whether a map has the field, and its value."""
        inner = event if self.block is None else event.get(self.block)
        if isinstance(inner, dict) and self.field in inner:
            return True, inner[self.field]
        return self.field in event, event.get(self.field)


def _as_optional(schema: Schema) -> Schema:
    return schema.replace(optional=True, default=None)


def _envelope_reader(index: int) -> ReadValues:
    return lambda values: values[index]


def _block_reader(block_index: int, schema: Schema, index: int, name: str) -> ReadValues:
    def read(values: list[Any]) -> Any:
        block = values[block_index]
        if block is None:
            return None
        if block.__class__ is Struct and block.schema is schema:
            return block.values[index]
        return block.get_without_default(name)

    return read


def parse_references(key: str, prefix: str, specs: list[str]) -> tuple[FieldReference, ...]:
    """Parses a list like ``op,source.ts_ms,table:origin``. Raises ConfigError."""
    return tuple(_parse_reference(key, prefix, spec) for spec in specs)


def _parse_reference(key: str, prefix: str, spec: str) -> FieldReference:
    path, *names = spec.split(":")
    while names and not names[-1]:
        names.pop()
    steps = path.rstrip(".").split(".")
    if len(names) > 1:
        raise ConfigError.invalid(key, spec, "Unexpected field name; at most one colon is allowed, before the new name")
    if not all(steps) or len(steps) > 2:
        raise ConfigError.invalid(key, spec, "expected field or block.field, such as source.ts_ms")
    field = steps[-1]
    block = steps[0] if len(steps) == 2 else _default_block(field)
    new_name = names[0] if names else "_".join(steps)
    return FieldReference(block, field, prefix + new_name)


def _default_block(field: str) -> str | None:
    """The default block of a name."""
    if field in _ENVELOPE_FIELDS:
        return None
    if field in _TRANSACTION_FIELDS:
        return TRANSACTION
    return _UPDATE_DESCRIPTION if field == _UPDATE_DESCRIPTION else SOURCE
