"""CollectionNameTransformation and FieldNameTransformation of Debezium's JDBC sink: change the style of names, and add a prefix
and a suffix."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from connect.change_events.envelope import AFTER, BEFORE, is_envelope_schema
from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import ConfigError
from connect.record import ConnectRecord
from connect.transforms.api import Transformation
from connect.transforms.record_copies import copy_record
from connect.transforms.structs import new_struct, require_fields, require_struct_of, struct_schema_like

PURPOSE = "field name transformation"
_MAX_SCHEMAS = 256
_MAX_TOPICS = 10_000

# One pass, as in Debezium: matches do not overlap, so 1a2b becomes 1_a2_b.
_WORD_BOUNDARIES = re.compile(r"([a-z])([A-Z])|([a-zA-Z])([0-9])|([0-9])([a-zA-Z])|\.")


def _snake_case(name: str) -> str:
    return _WORD_BOUNDARIES.sub(
        lambda found: "_".join((found[1] or found[3] or found[5] or "", found[2] or found[4] or found[6] or "")), name
    ).lower()


def _camel_case(name: str) -> str:
    first, *others = re.split("[._]+", name)
    return first.lower() + "".join(word[0].upper() + word[1:].lower() for word in others if word)


_STYLES: Mapping[str, Callable[[str], str]] = {
    "snake_case": _snake_case,
    "camel_case": _camel_case,
    "upper_case": str.upper,
    "lower_case": str.lower,
    "default": str,
}
"""By name, in any case."""


class _Style:
    """Validates the name of a style."""

    def __call__(self, name: str, value: Any) -> None:
        _find_style(name, value)

    def __str__(self) -> str:
        return ", ".join(_STYLES)


def _find_style(key: str, value: str | None) -> Callable[[str], str]:
    found = _STYLES.get((value or "").strip().lower())
    if found is None:
        raise ConfigError.invalid(key, value, f"Invalid naming style: {value}. Allowed styles are: {', '.join(_STYLES)}")
    return found


def _build_config_def(kind: str, what: str) -> ConfigDef:
    return (
        ConfigDef()
        .define(
            f"{kind}.naming.prefix", ConfigType.STRING, "", importance=Importance.LOW, display_name=f"{what} name prefix",
            doc="Text added before each name.",
        )
        .define(
            f"{kind}.naming.suffix", ConfigType.STRING, "", importance=Importance.LOW, display_name=f"{what} name suffix",
            doc="Text added after each name.",
        )
        .define(
            f"{kind}.naming.style", ConfigType.STRING, "default", importance=Importance.LOW, validator=_Style(),
            display_name=f"{what} naming style",
            doc="snake_case (orderItems becomes order_items, dots become underscores), camel_case (order_items and order.items "
            "become orderItems; other letters become lower case), UPPER_CASE, lower_case, or default (unchanged).",
        )
    )  # fmt: skip


def _build_rename(kind: str, values: Mapping[str, Any]) -> Callable[[str], str]:
    prefix, suffix = values[f"{kind}.naming.prefix"], values[f"{kind}.naming.suffix"]
    style = _find_style(f"{kind}.naming.style", values[f"{kind}.naming.style"])
    return lambda name: f"{prefix}{style(name)}{suffix}"


_COLLECTION_CONFIG_DEF = _build_config_def("collection", "Collection")
_COLUMN_CONFIG_DEF = _build_config_def("column", "Column")


class CollectionNameTransformation(Transformation):
    """Changes the style of topics, for a JDBC sink that names tables after them."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _COLLECTION_CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._rename = _build_rename("collection", _COLLECTION_CONFIG_DEF.parse(configs))
        self._topics: dict[str, str] = {}

    def close(self) -> None:
        self._topics.clear()

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        topic = self._topics.get(record.topic)
        if topic is None:
            if len(self._topics) >= _MAX_TOPICS:
                self._topics.clear()
            topic = self._topics[record.topic] = self._rename(record.topic)
        new = copy_record(record)
        new.topic = topic
        return new


class FieldNameTransformation(Transformation):
    """Renames the fields of the key and the value; of a change event, those of its rows. Fields of nested structs keep their
    names. A record whose value has no struct schema passes unchanged, so the key of a tombstone keeps its names."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _COLUMN_CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._rename = _build_rename("column", _COLUMN_CONFIG_DEF.parse(configs))
        self._schemas: dict[tuple[Schema, bool], Schema] = {}

    def close(self) -> None:
        self._schemas.clear()

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        schema = record.value_schema
        if schema is None or schema.type is not Type.STRUCT:
            return record
        new = copy_record(record)
        new.value_schema, new.value = self._rename_value(schema, record.value)
        if record.key_schema is not None and record.key_schema.type is Type.STRUCT:
            new.key_schema = self._renamed_schema(record.key_schema)
            new.key = _with_schema(record.key_schema, record.key, new.key_schema)
        return new

    def _rename_value(self, old: Schema, value: Any) -> tuple[Schema, Struct | None]:
        if not is_envelope_schema(old):
            schema = self._renamed_schema(old)
            return schema, _with_schema(old, value, schema)
        schema = self._renamed_schema(old, envelope=True)
        if value is None:
            return schema, None
        event = require_struct_of(old, value, PURPOSE)
        rows = [field.index for field in require_fields(old) if field.name in (BEFORE, AFTER)]
        values = event.values[:]
        for index in rows:
            values[index] = _with_schema(require_fields(old)[index].schema, values[index], require_fields(schema)[index].schema)
        return schema, new_struct(schema, values)

    def _renamed_schema(self, old: Schema, *, envelope: bool = False) -> Schema:
        known = self._schemas.get((old, envelope))
        if known is None:
            if len(self._schemas) >= _MAX_SCHEMAS:
                self._schemas.clear()
            known = self._schemas[old, envelope] = self._rename_envelope(old) if envelope else self._rename_row(old)
        return known

    def _rename_row(self, old: Schema) -> Schema:
        fields = [(self._rename(field.name), field.schema) for field in require_fields(old)]
        return struct_schema_like(old, fields, optional=old.optional)

    def _rename_envelope(self, old: Schema) -> Schema:
        fields = [
            (field.name, self._renamed_schema(field.schema) if field.name in (BEFORE, AFTER) else field.schema)
            for field in require_fields(old)
        ]
        return struct_schema_like(old, fields, optional=old.optional)


def _with_schema(old: Schema, value: Any, schema: Schema) -> Struct | None:
    """The values with the schema that has the new names."""
    return None if value is None else new_struct(schema, require_struct_of(old, value, PURPOSE).values[:])
