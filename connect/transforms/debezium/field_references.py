"""``add.fields`` and ``add.headers``: which members of an envelope to add, and what to call them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from connect.change_events.envelope import OPERATION, SOURCE, TRANSACTION
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError
from connect.transforms.structs import require_fields

_OF_TRANSACTION = frozenset(("id", "data_collection_order", "total_order"))
_OF_ENVELOPE = frozenset((OPERATION, "ts_ms", "ts_us", "ts_ns"))
_UPDATE_DESCRIPTION = "updateDescription"
ReadValues = Callable[[list[Any]], Any]
"""Reads the member from the values of an envelope."""


@dataclass(frozen=True, slots=True)
class FieldReference:
    """One member: its block in the envelope (None: the envelope itself), its name there, and its new name."""

    block: str | None
    field: str
    new_name: str

    def in_schema(self, schema: Schema) -> tuple[Schema, ReadValues] | None:
        """The new member's schema and how to read it; None when neither the block nor the envelope has it. Raises DataError when
        the envelope has no such block."""
        own = schema.field(self.field)
        if self.block is None:
            return None if own is None else (_optional(own.schema), _of_envelope(own.index))
        block = schema.field(self.block)
        if block is None or block.schema.fields is None:
            raise DataError(
                f"{self.field} cannot be added as {self.new_name}: the event has no block {self.block}; "
                f"there are: {', '.join(f.name for f in require_fields(schema) if f.schema.fields is not None)}"
            )
        inner = block.schema.field(self.field)
        if inner is not None:
            return _optional(inner.schema), _of_block(block.index, block.schema, inner.index, self.field)
        if own is None:
            return None
        # What another transformation added to the envelope itself; as in the original only where the block is not null.
        place, at = block.index, own.index
        return _optional(own.schema), lambda values: None if values[place] is None else values[at]

    def in_map(self, event: dict[Any, Any]) -> tuple[bool, Any]:
        """Whether a map has the member, and its value."""
        inner = event if self.block is None else event.get(self.block)
        if isinstance(inner, dict) and self.field in inner:
            return True, inner[self.field]
        return self.field in event, event.get(self.field)


def _optional(schema: Schema) -> Schema:
    return schema.replace(optional=True, default=None)


def _of_envelope(index: int) -> ReadValues:
    return lambda values: values[index]


def _of_block(place: int, schema: Schema, index: int, name: str) -> ReadValues:
    def read(values: list[Any]) -> Any:
        block = values[place]
        if block is None:
            return None
        if block.__class__ is Struct and block.schema is schema:
            return block.values[index]
        return block.get_without_default(name)

    return read


def parse_references(key: str, prefix: str, specs: list[str]) -> tuple[FieldReference, ...]:
    """The references of a list like ``op,source.ts_ms,table:origin``. Raises ConfigError."""
    return tuple(_parse(key, prefix, spec) for spec in specs)


def _parse(key: str, prefix: str, spec: str) -> FieldReference:
    path, *names = spec.split(":")
    while names and not names[-1]:
        names.pop()
    steps = path.rstrip(".").split(".")
    if len(names) > 1:
        raise ConfigError.invalid(key, spec, "Unexpected field name; one colon at most, before the new name")
    if not all(steps) or len(steps) > 2:
        raise ConfigError.invalid(key, spec, "a field is expected, or a block, a dot and a field, as in source.ts_ms")
    field = steps[-1]
    block = steps[0] if len(steps) == 2 else _block_of(field)
    new_name = names[0] if names else "_".join(steps)
    return FieldReference(block, field, prefix + new_name)


def _block_of(field: str) -> str | None:
    """Where a name without a block is looked for."""
    if field in _OF_ENVELOPE:
        return None
    if field in _OF_TRANSACTION:
        return TRANSACTION
    return _UPDATE_DESCRIPTION if field == _UPDATE_DESCRIPTION else SOURCE
