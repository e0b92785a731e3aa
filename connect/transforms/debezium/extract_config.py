"""Config keys of ExtractNewRecordState, including deprecated ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from connect.change_events.envelope import OPERATION, SOURCE, TRANSACTION
from connect.config.definition import ConfigDef, Importance, Width
from connect.config.types import ConfigType
from connect.config.validators import one_of
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError
from connect.strict import is_strict
from connect.transforms.debezium.config import warn_deprecated
from connect.transforms.structs import require_fields


class DeleteHandling(Enum):
    """How deletes and the tombstones after them are handled."""

    DROP = "drop"
    TOMBSTONE = "tombstone"
    REWRITE = "rewrite"
    REWRITE_WITH_TOMBSTONE = "rewrite-with-tombstone"
    DELETE_TO_TOMBSTONE = "delete-to-tombstone"


_MODE = "delete.tombstone.handling.mode"
_DEPRECATED_MODES = ("drop", "rewrite", "none")
_PREFIX = "__"
CONFIG_DEF = (
    ConfigDef()
    .define(
        _MODE, ConfigType.STRING, DeleteHandling.TOMBSTONE.value, importance=Importance.MEDIUM, width=Width.MEDIUM,
        validator=one_of(*(mode.value for mode in DeleteHandling), ignore_case=True),
        display_name="Handle delete and tombstone records",
        doc="How to handle a delete and the tombstone that follows it. drop: drop both. tombstone: keep one record with a null "
        "value and the schema of the row. rewrite: keep the old row with the field __deleted set to true and drop "
        "the tombstone. "
        "rewrite-with-tombstone: keep both. delete-to-tombstone: keep one record with a null value and no schema.",
    )
    .define(
        "route.by.field", ConfigType.STRING, "", importance=Importance.LOW, width=Width.LONG, display_name="Route by field name",
        doc="Column whose text becomes the topic. If empty, the topic stays.",
    )
    .define(
        "add.fields.prefix", ConfigType.STRING, _PREFIX, importance=Importance.LOW, width=Width.SHORT,
        display_name="Prefix of added fields", doc="Prefix of the names of added fields.",
    )
    .define(
        "add.fields", ConfigType.LIST, "", importance=Importance.LOW, width=Width.LONG, display_name="Fields to add",
        doc="Fields of the event to add to the row: op, ts_ms, ts_us, ts_ns, a field of the source block by name, or a field of "
        "any block as block.name. The added field is named prefix plus name, with _ instead of the dot; name:other uses another "
        "name after the prefix. Fields that the event does not have are left out.",
    )
    .define(
        "add.headers.prefix", ConfigType.STRING, _PREFIX, importance=Importance.LOW, width=Width.SHORT,
        display_name="Prefix of added headers", doc="Prefix of the names of added headers.",
    )
    .define(
        "add.headers", ConfigType.LIST, "", importance=Importance.LOW, width=Width.LONG, display_name="Headers to add",
        doc="Fields of the event to add as headers, written as in add.fields.",
    )
    .define(
        "drop.fields.header.name", ConfigType.STRING, None, importance=Importance.LOW, width=Width.SHORT,
        display_name="Header that lists fields to drop",
        doc="Header with a list of the fields to drop from the row.",
    )
    .define(
        "drop.fields.from.key", ConfigType.BOOLEAN, False, importance=Importance.LOW, width=Width.SHORT,
        display_name="Drop fields from the key too", doc="Whether to drop those fields from the key too.",
    )
    .define(
        "drop.fields.keep.schema.compatible", ConfigType.BOOLEAN, True, importance=Importance.LOW, width=Width.SHORT,
        display_name="Drop only optional fields",
        doc="Whether to drop only optional fields, so that schemas stay compatible.",
    )
    .define(
        "replace.null.with.default", ConfigType.BOOLEAN, True, importance=Importance.LOW, width=Width.SHORT,
        display_name="Replace null with default",
        doc="Whether null fields become their defaults if the row is rewritten with __deleted.",
    )
    .define("drop.tombstones", ConfigType.BOOLEAN, None, internal=True, doc=f"Deprecated; see {_MODE}.")
    .define("drop.deletes", ConfigType.BOOLEAN, None, internal=True, doc=f"Deprecated; see {_MODE}.")
    .define("delete.handling.mode", ConfigType.STRING, None, internal=True, doc=f"Deprecated; see {_MODE}.")
    .define("operation.header", ConfigType.BOOLEAN, None, internal=True, doc="Deprecated; see add.headers.")
    .define("add.source.fields", ConfigType.LIST, None, internal=True, doc="Deprecated; see add.fields.")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExtractConfig:
    """Typed values of the keys."""

    deletes: DeleteHandling
    route_by_field: str | None
    fields: tuple[FieldReference, ...]
    headers: tuple[FieldReference, ...]
    drop_fields_header: str | None
    drop_from_key: bool
    drop_keeps_compatible: bool
    replace_null: bool
    strict: bool


def read_config(configs: Mapping[str, Any]) -> ExtractConfig:
    """Parses the keys. Raises ConfigError."""
    values = CONFIG_DEF.parse(configs)
    fields, headers = list(values["add.fields"]), list(values["add.headers"])
    if values["add.source.fields"]:
        warn_deprecated("add.source.fields", "use add.fields with the same names")
        fields = [*values["add.source.fields"], *fields]
    if values["operation.header"]:
        warn_deprecated("operation.header", "use add.headers=op")
        headers = ["op", *headers]
    for names in (fields, headers):
        while names and not names[-1]:  # a trailing comma, which Java's split ignores
            names.pop()
    header = values["drop.fields.header.name"]
    return ExtractConfig(
        _delete_handling(configs, values),
        (values["route.by.field"] or "").strip() or None,
        parse_references("add.fields", values["add.fields.prefix"] or "", fields),
        parse_references("add.headers", values["add.headers.prefix"] or "", headers),
        header if header and header.strip() else None,
        values["drop.fields.from.key"],
        values["drop.fields.keep.schema.compatible"],
        values["replace.null.with.default"],
        is_strict(configs),
    )


def _delete_handling(configs: Mapping[str, Any], values: Mapping[str, Any]) -> DeleteHandling:
    """The mode, or its equivalent for the deprecated keys for deletes and tombstones."""
    mode = DeleteHandling(values[_MODE].lower())
    deprecated = [name for name in ("delete.handling.mode", "drop.tombstones", "drop.deletes") if values[name] is not None]
    if not deprecated:
        return mode
    if _MODE in configs:
        warn_deprecated(" and ".join(deprecated), f"{_MODE}={mode.value} takes precedence")
        return mode
    deletes = (values["delete.handling.mode"] or ("none" if values["drop.deletes"] is False else "drop")).lower()
    if deletes not in _DEPRECATED_MODES:
        raise ConfigError.invalid("delete.handling.mode", deletes, f"String must be one of: {', '.join(_DEPRECATED_MODES)}")
    drops_tombstones = values["drop.tombstones"] is not False
    if deletes == "rewrite":
        mode = DeleteHandling.REWRITE if drops_tombstones else DeleteHandling.REWRITE_WITH_TOMBSTONE
    elif deletes == "drop" and drops_tombstones:
        mode = DeleteHandling.DROP
    else:
        # A delete without value and its tombstone are equivalent; one of them is kept.
        mode = DeleteHandling.TOMBSTONE
    warn_deprecated(" and ".join(deprecated), f"it is read as {_MODE}={mode.value}")
    return mode


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
