"""The settings of ExtractNewRecordState, those of earlier releases among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from connect.config.definition import ConfigDef, Importance, Width
from connect.config.types import ConfigType
from connect.config.validators import one_of
from connect.errors import ConfigError
from connect.strict import is_strict
from connect.transforms.debezium.config import warn_deprecated
from connect.transforms.debezium.field_references import FieldReference, parse_references


class DeleteHandling(Enum):
    """What becomes of deletes and of the tombstones after them."""

    DROP = "drop"
    TOMBSTONE = "tombstone"
    REWRITE = "rewrite"
    REWRITE_WITH_TOMBSTONE = "rewrite-with-tombstone"
    DELETE_TO_TOMBSTONE = "delete-to-tombstone"


_MODE = "delete.tombstone.handling.mode"
_OLD_MODES = ("drop", "rewrite", "none")
_PREFIX = "__"
CONFIG_DEF = (
    ConfigDef()
    .define(
        _MODE, ConfigType.STRING, DeleteHandling.TOMBSTONE.value, importance=Importance.MEDIUM, width=Width.MEDIUM,
        validator=one_of(*(mode.value for mode in DeleteHandling), ignore_case=True),
        display_name="Handle delete and tombstone records",
        doc="What becomes of a delete and of the tombstone that follows it. drop: neither is left. tombstone: one record without "
        "value is left, under the schema of the row. rewrite: the old row with the field __deleted set to true, no tombstone. "
        "rewrite-with-tombstone: both. delete-to-tombstone: one record without value and without schema.",
    )
    .define(
        "route.by.field", ConfigType.STRING, "", importance=Importance.LOW, width=Width.LONG, display_name="Route by field name",
        doc="The column whose text becomes the topic. Empty: the topic stays.",
    )
    .define(
        "add.fields.prefix", ConfigType.STRING, _PREFIX, importance=Importance.LOW, width=Width.SHORT,
        display_name="Prefix of added fields", doc="What the names of added fields begin with.",
    )
    .define(
        "add.fields", ConfigType.LIST, "", importance=Importance.LOW, width=Width.LONG, display_name="Fields to add",
        doc="Members of the event to add to the row: op, ts_ms, ts_us, ts_ns; a member of the source block by its name alone, of "
        "any block as block.name. The field is called by the name, with _ for the dot, after the prefix; name:other gives it "
        "another name after the prefix. What the event does not have is left out.",
    )
    .define(
        "add.headers.prefix", ConfigType.STRING, _PREFIX, importance=Importance.LOW, width=Width.SHORT,
        display_name="Prefix of added headers", doc="What the names of added headers begin with.",
    )
    .define(
        "add.headers", ConfigType.LIST, "", importance=Importance.LOW, width=Width.LONG, display_name="Headers to add",
        doc="Members of the event to add as headers, written as in add.fields.",
    )
    .define(
        "drop.fields.header.name", ConfigType.STRING, None, importance=Importance.LOW, width=Width.SHORT,
        display_name="Header that lists fields to drop",
        doc="The header whose list of names says which fields to leave out of the row.",
    )
    .define(
        "drop.fields.from.key", ConfigType.BOOLEAN, False, importance=Importance.LOW, width=Width.SHORT,
        display_name="Drop fields from the key too", doc="Whether those fields are left out of the key too.",
    )
    .define(
        "drop.fields.keep.schema.compatible", ConfigType.BOOLEAN, True, importance=Importance.LOW, width=Width.SHORT,
        display_name="Drop only optional fields",
        doc="Whether only optional fields are dropped, so that schemas stay compatible with each other.",
    )
    .define(
        "replace.null.with.default", ConfigType.BOOLEAN, True, importance=Importance.LOW, width=Width.SHORT,
        display_name="Replace null with default",
        doc="Whether a null field becomes its default where the row is rewritten with __deleted.",
    )
    .define("drop.tombstones", ConfigType.BOOLEAN, None, internal=True, doc=f"Old; see {_MODE}.")
    .define("drop.deletes", ConfigType.BOOLEAN, None, internal=True, doc=f"Old; see {_MODE}.")
    .define("delete.handling.mode", ConfigType.STRING, None, internal=True, doc=f"Old; see {_MODE}.")
    .define("operation.header", ConfigType.BOOLEAN, None, internal=True, doc="Old; see add.headers.")
    .define("add.source.fields", ConfigType.LIST, None, internal=True, doc="Old; see add.fields.")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExtractSettings:
    """The settings, typed."""

    deletes: DeleteHandling
    route_by_field: str | None
    fields: tuple[FieldReference, ...]
    headers: tuple[FieldReference, ...]
    drop_fields_header: str | None
    drop_from_key: bool
    drop_keeps_compatible: bool
    replace_null: bool
    strict: bool


def read_settings(configs: Mapping[str, Any]) -> ExtractSettings:
    """Raises ConfigError."""
    values = CONFIG_DEF.parse(configs)
    fields, headers = list(values["add.fields"]), list(values["add.headers"])
    if values["add.source.fields"]:
        warn_deprecated("add.source.fields", "add.fields takes the same names")
        fields = [*values["add.source.fields"], *fields]
    if values["operation.header"]:
        warn_deprecated("operation.header", "add.headers=op adds the same header")
        headers = ["op", *headers]
    for names in (fields, headers):
        while names and not names[-1]:  # a comma at the end, which Java's split passes over
            names.pop()
    header = values["drop.fields.header.name"]
    return ExtractSettings(
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
    """The mode, or what the settings before it meant: one for deletes, one for tombstones."""
    mode = DeleteHandling(values[_MODE].lower())
    old = [name for name in ("delete.handling.mode", "drop.tombstones", "drop.deletes") if values[name] is not None]
    if not old:
        return mode
    if _MODE in configs:
        warn_deprecated(" and ".join(old), f"{_MODE}={mode.value} counts, and they do not")
        return mode
    deletes = (values["delete.handling.mode"] or ("none" if values["drop.deletes"] is False else "drop")).lower()
    if deletes not in _OLD_MODES:
        raise ConfigError.invalid("delete.handling.mode", deletes, f"String must be one of: {', '.join(_OLD_MODES)}")
    drops_tombstones = values["drop.tombstones"] is not False
    if deletes == "rewrite":
        mode = DeleteHandling.REWRITE if drops_tombstones else DeleteHandling.REWRITE_WITH_TOMBSTONE
    elif deletes == "drop" and drops_tombstones:
        mode = DeleteHandling.DROP
    else:
        # A delete without value and the tombstone after it say the same; one of them is left.
        mode = DeleteHandling.TOMBSTONE
    warn_deprecated(" and ".join(old), f"it is read as {_MODE}={mode.value}")
    return mode
