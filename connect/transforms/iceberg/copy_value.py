"""CopyValue: copies a field of the value to a new field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.data.schema import Schema
from connect.errors import DataError
from connect.record import ConnectRecord
from connect.strict import STRICT, is_strict
from connect.transforms.columnar.columns import PartColumns, RecordColumns, column_filler
from connect.transforms.config import require_non_null
from connect.transforms.key_or_value import OnValue, Plan
from connect.transforms.lossless import format_value
from connect.transforms.structs import copier, require_fields, require_map, require_struct, struct_schema_like

PURPOSE = "copy value"
_SOURCE, _TARGET = "source.field", "target.field"
_CONFIG_DEF = (
    ConfigDef()
    .define(_SOURCE, ConfigType.STRING, importance=Importance.HIGH, doc="Source field name.")
    .define(_TARGET, ConfigType.STRING, importance=Importance.HIGH, doc="Target field name.")
)


class CopyValue(OnValue):
    """Adds the copy after the existing fields of a struct, or sets it in a map. A null value passes."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        require_non_null(values, _SOURCE, _TARGET)
        self._source: str = values[_SOURCE]
        self._target: str = values[_TARGET]
        self._strict = is_strict(configs)

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None:
            require_struct(schema, datum, PURPOSE)

    def plan(self, schema: Schema | None) -> Plan:
        if schema is None:
            return Plan(None, self._copy_in_map)
        fields = require_fields(schema)
        source = schema.field(self._source)
        if source is None:
            raise DataError(f"{_SOURCE}: the value has no field {self._source}; it has: {', '.join(schema.field_names)}")
        changed = struct_schema_like(schema, [*((f.name, f.schema) for f in fields), (self._target, source.schema)])
        copy, fill_columns, index = copier(fields, True), column_filler(fields, True), source.index

        def convert(values: list[Any], _: ConnectRecord) -> list[Any]:
            copied = copy(values)
            copied.append(copied[index])
            return copied

        def convert_columns(part: PartColumns, _: RecordColumns) -> None:
            columns = fill_columns(part.columns())
            part.set_columns([*columns, columns[index]])

        return Plan(changed, convert, PURPOSE, convert_columns)

    def _copy_in_map(self, datum: Any, _: ConnectRecord) -> Any:
        value = require_map(datum, PURPOSE)
        if self._strict and self._target in value:
            found = format_value(value[self._target])
            raise DataError(f'CopyValue would overwrite field "{self._target}" of the value: {found} ({STRICT} is on)')
        return {**value, self._target: value.get(self._source)}
