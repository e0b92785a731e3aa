"""SetSchemaMetadata: sets the name and version of the schema of the key or value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.data.schema import Schema
from connect.errors import ConfigError, DataError
from connect.record import ConnectRecord
from connect.transforms.columnar.columns import PartColumns, RecordColumns, column_filler
from connect.transforms.config import define_replace_null, read_replace_null
from connect.transforms.key_or_value import KeyOrValueTransformation, OnKey, OnValue, Plan
from connect.transforms.structs import copier, require_fields

_CONFIG_DEF = define_replace_null(
    ConfigDef()
    .define("schema.name", ConfigType.STRING, None, importance=Importance.HIGH, doc="Schema name to set.")
    .define("schema.version", ConfigType.INT, None, importance=Importance.HIGH, doc="Schema version to set.")
)


class SetSchemaMetadata(KeyOrValueTransformation):
    """Sets name, version, or both. As in Apache, it supports only structs; a null without schema passes."""

    passes_null = False

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        self._name: str | None = values["schema.name"]
        self._version: int | None = values["schema.version"]
        if self._name is None and self._version is None:
            raise ConfigError("Neither schema name nor version configured")
        self._replace_null = read_replace_null(values)

    def plan(self, schema: Schema | None) -> Plan:
        if schema is None:
            return Plan(None, _require_null)
        fields = require_fields(schema)
        changed = schema.replace(
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
        )
        copy = copier(fields, self._replace_null)
        fill_columns = column_filler(fields, self._replace_null)

        def convert_columns(part: PartColumns, _: RecordColumns) -> None:
            part.set_columns(fill_columns(part.columns()))

        return Plan(changed, lambda values, _: copy(values), "updating schema metadata", convert_columns)


def _require_null(datum: Any, _: ConnectRecord) -> Any:
    if datum is not None:
        raise DataError("Schema required for [updating schema metadata]")


class SetSchemaMetadataKey(OnKey, SetSchemaMetadata):
    """SetSchemaMetadata on the record's key."""


class SetSchemaMetadataValue(OnValue, SetSchemaMetadata):
    """SetSchemaMetadata on the record's value."""
