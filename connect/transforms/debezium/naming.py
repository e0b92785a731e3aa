"""CollectionNameTransformation and FieldNameTransformation, which come with Debezium's JDBC sink: names in another style, with
something before and after them."""

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

# One pass, as in the original: what a match has taken begins no other, so that 1a2b becomes 1_a2_b.
_BORDERS = re.compile(r"([a-z])([A-Z])|([a-zA-Z])([0-9])|([0-9])([a-zA-Z])|\.")


def _snake_case(name: str) -> str:
    return _BORDERS.sub(
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
"""By name, in which case does not count."""


class _Style:
    """A validator: a name of a style."""

    def __call__(self, name: str, value: Any) -> None:
        _style(name, value)

    def __str__(self) -> str:
        return ", ".join(_STYLES)


def _style(key: str, value: str | None) -> Callable[[str], str]:
    found = _STYLES.get((value or "").strip().lower())
    if found is None:
        raise ConfigError.invalid(key, value, f"Invalid naming style: {value}. Allowed styles are: {', '.join(_STYLES)}")
    return found


def _build_config_def(kind: str, what: str) -> ConfigDef:
    return (
        ConfigDef()
        .define(
            f"{kind}.naming.prefix", ConfigType.STRING, "", importance=Importance.LOW, display_name=f"{what} name prefix",
            doc="What stands before each name.",
        )
        .define(
            f"{kind}.naming.suffix", ConfigType.STRING, "", importance=Importance.LOW, display_name=f"{what} name suffix",
            doc="What stands after each name.",
        )
        .define(
            f"{kind}.naming.style", ConfigType.STRING, "default", importance=Importance.LOW, validator=_Style(),
            display_name=f"{what} naming style",
            doc="snake_case (orderItems becomes order_items, a dot an underscore), camel_case (order_items and order.items "
            "become orderItems, and all else is lower case), UPPER_CASE, lower_case, or default: as it is.",
        )
    )  # fmt: skip


def _renaming(kind: str, values: Mapping[str, Any]) -> Callable[[str], str]:
    prefix, suffix = values[f"{kind}.naming.prefix"], values[f"{kind}.naming.suffix"]
    style = _style(f"{kind}.naming.style", values[f"{kind}.naming.style"])
    return lambda name: f"{prefix}{style(name)}{suffix}"


_COLLECTION = _build_config_def("collection", "Collection")
_COLUMN = _build_config_def("column", "Column")


class CollectionNameTransformation(Transformation):
    """Gives records the topic in another style: before a JDBC sink, whose tables are called after topics."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _COLLECTION

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._renamed = _renaming("collection", _COLLECTION.parse(configs))
        self._topics: dict[str, str] = {}

    def close(self) -> None:
        self._topics.clear()

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        topic = self._topics.get(record.topic)
        if topic is None:
            if len(self._topics) >= _MAX_TOPICS:
                self._topics.clear()
            topic = self._topics[record.topic] = self._renamed(record.topic)
        new = copy_record(record)
        new.topic = topic
        return new


class FieldNameTransformation(Transformation):
    """Renames the fields of structs, of the key and the value both, and of a change event those of its rows. Structs within
    them keep their names. A record whose value is no struct, or that has no value and no schema for it, passes as it is: a
    tombstone's key keeps its names."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _COLUMN

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._renamed = _renaming("column", _COLUMN.parse(configs))
        self._schemas: dict[tuple[Schema, bool], Schema] = {}

    def close(self) -> None:
        self._schemas.clear()

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        schema = record.value_schema
        if schema is None or schema.type is not Type.STRUCT:
            return record
        new = copy_record(record)
        new.value_schema, new.value = self._value(schema, record.value)
        if record.key_schema is not None and record.key_schema.type is Type.STRUCT:
            new.key_schema = self._schema(record.key_schema)
            new.key = _under(record.key_schema, record.key, new.key_schema)
        return new

    def _value(self, old: Schema, value: Any) -> tuple[Schema, Struct | None]:
        if not is_envelope_schema(old):
            schema = self._schema(old)
            return schema, _under(old, value, schema)
        schema = self._schema(old, envelope=True)
        if value is None:
            return schema, None
        event = require_struct_of(old, value, PURPOSE)
        rows = [field.index for field in require_fields(old) if field.name in (BEFORE, AFTER)]
        values = event.values[:]
        for index in rows:
            values[index] = _under(require_fields(old)[index].schema, values[index], require_fields(schema)[index].schema)
        return schema, new_struct(schema, values)

    def _schema(self, old: Schema, *, envelope: bool = False) -> Schema:
        known = self._schemas.get((old, envelope))
        if known is None:
            if len(self._schemas) >= _MAX_SCHEMAS:
                self._schemas.clear()
            known = self._schemas[old, envelope] = self._envelope(old) if envelope else self._row(old)
        return known

    def _row(self, old: Schema) -> Schema:
        fields = [(self._renamed(field.name), field.schema) for field in require_fields(old)]
        return struct_schema_like(old, fields, optional=old.optional)

    def _envelope(self, old: Schema) -> Schema:
        fields = [
            (field.name, self._schema(field.schema) if field.name in (BEFORE, AFTER) else field.schema)
            for field in require_fields(old)
        ]
        return struct_schema_like(old, fields, optional=old.optional)


def _under(old: Schema, value: Any, schema: Schema) -> Struct | None:
    """The same values under the schema with the new names."""
    return None if value is None else new_struct(schema, require_struct_of(old, value, PURPOSE).values[:])
