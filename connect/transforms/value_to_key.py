"""ValueToKey: builds the key from fields of the value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import DistinctList
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import ConnectRecord
from connect.strict import STRICT, is_strict
from connect.transforms.columnar.columns import NotColumnar, PartColumns, RecordColumns, column_filler
from connect.transforms.config import FIELDS, define_replace_null, read_replace_null
from connect.transforms.key_or_value import KeyOrValueTransformation, Plan, with_check
from connect.transforms.lossless import format_value
from connect.transforms.record_copies import copy_record
from connect.transforms.structs import (
    fill_nulls,
    new_struct,
    require_fields,
    require_map,
    require_struct,
    require_struct_of,
    struct_schema_like,
)

PURPOSE = "copying fields from value to key"
_CONFIG_DEF = define_replace_null(
    ConfigDef().define(
        FIELDS, ConfigType.LIST, validator=DistinctList(), importance=Importance.HIGH,
        doc="Field names on the record value to extract as the record key.",
    )
)  # fmt: skip


class ValueToKey(KeyOrValueTransformation):
    """Sets the key to a struct of the fields, or a map without a schema. Raises DataError for a null value."""

    passes_null = False
    reads_value = True

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        self._fields: list[str] = values[FIELDS]
        self._replace_null = read_replace_null(values)
        self._strict = is_strict(configs)

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None:
            require_struct(schema, datum, PURPOSE)

    def plan(self, schema: Schema | None) -> Plan:
        names = self._fields
        if schema is None:
            plan = Plan(None, lambda datum, _: _select_from_map(require_map(datum, PURPOSE), names), None, self._convert_maps)
            return with_check(plan, self._check_fields_exist) if self._strict else plan
        selected = []
        for name in names:
            field = schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            selected.append(field)
        key_schema = struct_schema_like(None, [(f.name, f.schema) for f in selected])
        fields, indexes, replace_null = require_fields(key_schema), [f.index for f in selected], self._replace_null

        def convert(datum: Any, _: ConnectRecord) -> Any:
            if datum.__class__ is not Struct or datum.schema is not schema:
                datum = require_struct_of(schema, datum, PURPOSE)
            old = datum.values
            values = [old[i] for i in indexes]
            if None in values:
                fill_nulls(values, fields, replace_null)
            return new_struct(key_schema, values)

        fill_columns = column_filler(fields, replace_null)

        def convert_columns(value: PartColumns, batch: RecordColumns) -> None:
            batch.key = PartColumns.of_columns(key_schema, fill_columns([value.column(i) for i in indexes]), value.size)

        return Plan(key_schema, convert, None, convert_columns)

    def _check_fields_exist(self, datum: Any) -> None:
        for name in self._fields:
            if isinstance(datum, dict) and name not in datum:
                raise DataError(
                    f'The value has no field "{name}", so it would be null in the key; it has: '
                    f"{format_value(list(datum))} ({STRICT} is on)"
                )

    def _convert_maps(self, value: PartColumns, batch: RecordColumns) -> None:
        names = self._fields
        batch.key = PartColumns(None, [_select_from_map(require_map(datum, PURPOSE), names) for datum in value.data()])
        batch.key.changed = True

    def apply_columns(self, batch: RecordColumns) -> None:
        value = batch.value
        assert value is not None
        if not value.has_uniform_nulls() or value.all_null:
            raise NotColumnar  # nulls are errors
        convert_columns = self.plan_for(value.schema, value.example()).convert_columns
        assert convert_columns is not None
        convert_columns(value, batch)

    def apply_rows(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
        results: list[ConnectRecord] = []
        last: Any = self
        key_schema: Schema | None = None
        convert: Callable[[Any, ConnectRecord], Any] | None = None
        for record in records:
            schema = record.value_schema
            if convert is None or schema is not last:
                key_schema, convert, *_ = self.plan_for(schema, record.value)
                last = schema
            key = convert(record.value, record)
            new = copy_record(record)
            new.key_schema = key_schema
            new.key = key
            results.append(new)
        return results


def _select_from_map(value: dict[Any, Any], names: list[str]) -> dict[Any, Any]:
    return {name: value.get(name) for name in names}
