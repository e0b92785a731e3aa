"""ValueToKey: makes the key from fields of the value."""

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
from connect.transforms.columnar.columns import RecordColumns, SideColumns, Unfit, column_settler
from connect.transforms.config import FIELDS, replaces_nulls, with_replace_null
from connect.transforms.key_or_value import Plan, SideTransformation, checked_plan
from connect.transforms.record_copies import copy_record
from connect.transforms.strict_casting import shown
from connect.transforms.structs import (
    fields_of,
    new_struct,
    require_map,
    require_struct,
    settle_nulls,
    struct_schema_like,
    struct_under,
)

PURPOSE = "copying fields from value to key"
_TABLE = with_replace_null(
    ConfigDef().define(
        FIELDS, ConfigType.LIST, validator=DistinctList(), importance=Importance.HIGH,
        doc="Field names on the record value to extract as the record key.",
    )
)  # fmt: skip


class ValueToKey(SideTransformation):
    """The key becomes a struct (a map without a schema) of those fields. Needs a value."""

    passes_null = False
    reads_value = True

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _TABLE

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _TABLE.parse(configs)
        self._fields: list[str] = values[FIELDS]
        self._replace_null = replaces_nulls(values)
        self._strict = is_strict(configs)

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None:
            require_struct(schema, datum, PURPOSE)

    def plan(self, schema: Schema | None) -> Plan:
        names = self._fields
        if schema is None:
            plan = Plan(None, lambda datum, _: _key_map(require_map(datum, PURPOSE), names), None, self._of_maps)
            return checked_plan(plan, self._check_there) if self._strict else plan
        chosen = []
        for name in names:
            field = schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            chosen.append(field)
        key_schema = struct_schema_like(None, [(f.name, f.schema) for f in chosen])
        fields, indexes, replace_null = fields_of(key_schema), [f.index for f in chosen], self._replace_null

        def convert(datum: Any, _: ConnectRecord) -> Any:
            if datum.__class__ is not Struct or datum.schema is not schema:
                datum = struct_under(schema, datum, PURPOSE)
            old = datum.values
            values = [old[i] for i in indexes]
            if None in values:
                settle_nulls(values, fields, replace_null)
            return new_struct(key_schema, values)

        settle = column_settler(fields, replace_null)

        def in_columns(value: SideColumns, batch: RecordColumns) -> None:
            batch.key = SideColumns.of_columns(key_schema, settle([value.column(i) for i in indexes]), value.size)

        return Plan(key_schema, convert, None, in_columns)

    def _check_there(self, datum: Any) -> None:
        for name in self._fields:
            if isinstance(datum, dict) and name not in datum:
                raise DataError(
                    f'The value has no field "{name}", which would be null in the key; it has: '
                    f"{shown(list(datum))} ({STRICT} is on)"
                )

    def _of_maps(self, value: SideColumns, batch: RecordColumns) -> None:
        names = self._fields
        batch.key = SideColumns(None, [_key_map(require_map(datum, PURPOSE), names) for datum in value.data()])
        batch.key.changed = True

    def apply_columns(self, batch: RecordColumns) -> None:
        value = batch.value
        assert value is not None
        if not value.is_settled() or value.all_null:
            raise Unfit  # nulls are refused
        in_columns = self.plan_for(value.schema, value.example()).in_columns
        assert in_columns is not None
        in_columns(value, batch)

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


def _key_map(value: dict[Any, Any], names: list[str]) -> dict[Any, Any]:
    return {name: value.get(name) for name in names}
