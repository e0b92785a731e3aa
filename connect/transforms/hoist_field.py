"""HoistField: wraps the key or value in a struct with one field, or in a map if it has no schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.config.definition import ConfigDef
from connect.config.types import ConfigType
from connect.data.schema import Schema
from connect.record import ConnectRecord
from connect.transforms.columnar.columns import PartColumns, RecordColumns
from connect.transforms.config import FIELD
from connect.transforms.key_or_value import KeyOrValueTransformation, OnKey, OnValue, Plan
from connect.transforms.structs import new_struct, null_error, struct_schema_like

_CONFIG_DEF = ConfigDef().define(
    FIELD,
    ConfigType.STRING,
    doc="Field name for the single field that will be created in the resulting Struct or Map.",
)


class HoistField(KeyOrValueTransformation):
    """Wraps a datum, also null, in a field."""

    passes_null = False

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._field: str = _CONFIG_DEF.parse(configs)[FIELD]

    def plan(self, schema: Schema | None) -> Plan:
        field = self._field
        if schema is None:
            return Plan(None, lambda datum, _: {field: datum})
        wrapped = struct_schema_like(None, [(field, schema)])

        def convert_columns(part: PartColumns, _: RecordColumns) -> None:
            part.set_columns([part.data()])

        if schema.optional:
            return Plan(wrapped, lambda datum, _: new_struct(wrapped, [datum]), convert_columns=convert_columns)

        def convert(datum: Any, _: ConnectRecord) -> Any:
            if datum is None:
                raise null_error(field, schema)
            return new_struct(wrapped, [datum])

        return Plan(wrapped, convert, convert_columns=convert_columns)


class HoistFieldKey(OnKey, HoistField):
    """HoistField on the record's key."""


class HoistFieldValue(OnValue, HoistField):
    """HoistField on the record's value."""
