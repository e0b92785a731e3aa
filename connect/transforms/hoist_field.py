"""HoistField: wraps the whole key or value into a struct, or a map without a schema, with one field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.config.definition import ConfigDef
from connect.config.types import ConfigType
from connect.data.schema import Schema
from connect.record import ConnectRecord
from connect.transforms.columnar.columns import RecordColumns, SideColumns
from connect.transforms.config import FIELD
from connect.transforms.key_or_value import KeySide, Plan, SideTransformation, ValueSide
from connect.transforms.structs import new_struct, null_error, struct_schema_like

_TABLE = ConfigDef().define(
    FIELD,
    ConfigType.STRING,
    doc="Field name for the single field that will be created in the resulting Struct or Map.",
)


class HoistField(SideTransformation):
    """Wraps a datum, null too, under the field's name."""

    passes_null = False

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _TABLE

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._field: str = _TABLE.parse(configs)[FIELD]

    def plan(self, schema: Schema | None) -> Plan:
        field = self._field
        if schema is None:
            return Plan(None, lambda datum, _: {field: datum})
        wrapped = struct_schema_like(None, [(field, schema)])

        def in_columns(side: SideColumns, _: RecordColumns) -> None:
            side.hold_columns([side.data()])

        if schema.optional:
            return Plan(wrapped, lambda datum, _: new_struct(wrapped, [datum]), in_columns=in_columns)

        def convert(datum: Any, _: ConnectRecord) -> Any:
            if datum is None:
                raise null_error(field, schema)
            return new_struct(wrapped, [datum])

        return Plan(wrapped, convert, in_columns=in_columns)


class HoistFieldKey(KeySide, HoistField):
    """HoistField on the record's key."""


class HoistFieldValue(ValueSide, HoistField):
    """HoistField on the record's value."""
