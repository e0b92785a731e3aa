"""ExtractChangedRecordState: lists the fields that an update changed, and those that it did not, in headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.change_events.envelope import AFTER, BEFORE, envelope_struct, is_envelope_map, is_envelope_schema
from connect.config.definition import ConfigDef, Importance, Width
from connect.config.types import ConfigType
from connect.data.headers import Header, Headers
from connect.data.schema import Schema, Type
from connect.errors import DataError
from connect.record import ConnectRecord
from connect.transforms.api import Transformation
from connect.transforms.record_copies import copy_record
from connect.transforms.structs import require_struct

_CHANGED, _UNCHANGED = "header.changed.name", "header.unchanged.name"
_CONFIG_DEF = (
    ConfigDef()
    .define(
        _CHANGED, ConfigType.STRING, None, importance=Importance.LOW, width=Width.LONG, display_name="Header of changed fields",
        doc="Header for the names of the fields whose value changed. If unset, the header is not added.",
    )
    .define(
        _UNCHANGED, ConfigType.STRING, None, importance=Importance.LOW, width=Width.LONG,
        display_name="Header of unchanged fields",
        doc="Header for the names of the fields whose value did not change. If unset, the header is not added.",
    )
)  # fmt: skip


class ExtractChangedRecordState(Transformation):
    """Adds the headers to change events; the lists are empty if the row before or after is missing. Other records pass."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        self._headers: list[tuple[str, Schema, bool]] = []
        for key, changed in ((_CHANGED, True), (_UNCHANGED, False)):
            name = values[key]
            if name and name.strip():
                schema = Schema(Type.ARRAY, optional=True, name=name, value_schema=Schema.OPTIONAL_STRING)
                self._headers.append((name, schema, changed))

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        value, schema = record.value, record.value_schema
        if value is None:
            return record
        if schema is not None and is_envelope_schema(schema):
            names = _compare_structs(envelope_struct(schema, value))
        elif is_envelope_map(schema, value):
            names = _compare_maps(value.get(BEFORE), value.get(AFTER))
        else:
            return record
        if not self._headers:
            return record
        new = copy_record(record)
        added = [Header(name, header if schema is not None else None, names[changed]) for name, header, changed in self._headers]
        new.headers = Headers([*(record.headers or ()), *added])
        return new


def _compare_structs(event: Any) -> dict[bool, list[str]]:
    """Names of the fields by whether they changed."""
    after, before = event.get(AFTER), event.get(BEFORE)
    names: dict[bool, list[str]] = {True: [], False: []}
    if after is None or before is None:
        return names
    new, old = require_struct(None, after, "After value should be struct."), require_struct(None, before, "Before value")
    for name in new.schema.field_names:
        names[not _are_equal(new.get_without_default(name), old.get_without_default(name))].append(name)
    return names


def _compare_maps(before: Any, after: Any) -> dict[bool, list[str]]:
    names: dict[bool, list[str]] = {True: [], False: []}
    if before is None or after is None:
        return names
    if not isinstance(before, dict) or not isinstance(after, dict):
        raise DataError("The rows of a change event without schema must be maps")
    for name, value in after.items():
        names[name not in before or not _are_equal(value, before[name])].append(name)
    return names


def _are_equal(one: Any, other: Any) -> bool:
    """Whether values are equal; NaN equals NaN."""
    return bool(one == other) or (one != one and other != other)
