"""SetSchemaMetadata: gives the schema of the key or value another name or version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.data.schema import Schema
from connect.errors import ConfigError, DataError
from connect.record import ConnectRecord
from connect.transforms.columnar.columns import RecordColumns, SideColumns, column_settler
from connect.transforms.config import replaces_nulls, with_replace_null
from connect.transforms.key_or_value import KeySide, Plan, SideTransformation, ValueSide
from connect.transforms.structs import copier, fields_of

_TABLE = with_replace_null(
    ConfigDef()
    .define("schema.name", ConfigType.STRING, None, importance=Importance.HIGH, doc="Schema name to set.")
    .define("schema.version", ConfigType.INT, None, importance=Importance.HIGH, doc="Schema version to set.")
)


class SetSchemaMetadata(SideTransformation):
    """Changes name, version or both. Works on structs only, as in the original; without schema and datum a record passes."""

    passes_null = False

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _TABLE

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _TABLE.parse(configs)
        self._name: str | None = values["schema.name"]
        self._version: int | None = values["schema.version"]
        if self._name is None and self._version is None:
            raise ConfigError("Neither schema name nor version configured")
        self._replace_null = replaces_nulls(values)

    def plan(self, schema: Schema | None) -> Plan:
        if schema is None:
            return Plan(None, _require_null)
        fields = fields_of(schema)
        changed = schema.replace(
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
        )
        copy = copier(fields, self._replace_null)
        settle = column_settler(fields, self._replace_null)

        def in_columns(side: SideColumns, _: RecordColumns) -> None:
            side.hold_columns(settle(side.columns()))

        return Plan(changed, lambda values, _: copy(values), "updating schema metadata", in_columns)


def _require_null(datum: Any, _: ConnectRecord) -> Any:
    if datum is not None:
        raise DataError("Schema required for [updating schema metadata]")


class SetSchemaMetadataKey(KeySide, SetSchemaMetadata):
    """SetSchemaMetadata on the record's key."""


class SetSchemaMetadataValue(ValueSide, SetSchemaMetadata):
    """SetSchemaMetadata on the record's value."""
