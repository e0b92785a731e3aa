"""ExtractField: the key or value becomes one of its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import one_of
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import ConnectRecord
from connect.strict import STRICT, is_strict
from connect.transforms.columnar.columns import RecordColumns, SideColumns
from connect.transforms.config import FIELD, replaces_nulls, require_given, with_replace_null
from connect.transforms.field_path import parse_field_path
from connect.transforms.key_or_value import KeySide, Plan, SideTransformation, ValueSide, checked_plan
from connect.transforms.strict_casting import shown
from connect.transforms.structs import read_field, require_map, require_struct, struct_under

PURPOSE = "field extraction"
NESTED = "nested field access"
_TABLE = with_replace_null(
    ConfigDef().define(FIELD, ConfigType.STRING, importance=Importance.MEDIUM, doc="Field name to extract.")
).define(
    "field.syntax.version", ConfigType.STRING, "V1", validator=one_of("V1", "V2", ignore_case=True), importance=Importance.HIGH,
    doc="Defines the version of the syntax to access fields. If set to <code>V1</code>, then the field paths are limited to "
    "access the elements at the root level of the struct or map. If set to <code>V2</code>, the syntax will support accessing "
    "nested elements. To access nested elements, dotted notation is used. If dots are already included in the field name, then "
    "backtick pairs can be used to wrap field names containing dots. E.g. to access the subfield <code>baz</code> from a field "
    'named "foo.bar" in a struct/map the following format can be used to access its elements: "<code>foo.bar</code>.baz".',
)  # fmt: skip


class ExtractField(SideTransformation):
    """Takes out one field; a null datum gives null under the field's schema. Raises DataError when the schema has no such
    field; a map without it gives null."""

    passes_null = False

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _TABLE

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _TABLE.parse(configs)
        require_given(values, FIELD)
        self._path: str = values[FIELD]
        self._steps = parse_field_path(self._path, values["field.syntax.version"])
        self._replace_null = replaces_nulls(values)
        self._strict = is_strict(configs)

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None and datum is not None:
            require_struct(schema, datum, PURPOSE)

    def plan(self, schema: Schema | None) -> Plan:
        if schema is None:
            plan = Plan(None, self._from_map())
            return checked_plan(plan, self._check_there) if self._strict else plan
        found: Schema | None = schema
        for step in self._steps:
            if found is None:
                break
            if found.fields is None:
                raise DataError("Cannot look up fields on non-struct type")
            field = found.field(step)
            found = None if field is None else field.schema
        if found is None or not self._steps:
            raise DataError(f"Unknown field: {self._path}")
        index = schema.index_of(self._steps[-1]) if len(self._steps) == 1 else None
        if index is None:
            return Plan(found, self._from_struct(schema, found))
        place, default = index, found.default if self._replace_null else None

        def in_columns(side: SideColumns, _: RecordColumns) -> None:
            column = side.column(place)
            side.hold_data(column if default is None else [default if v is None else v for v in column])

        return Plan(found, self._from_struct(schema, found), None, in_columns)

    def _check_there(self, datum: Any) -> None:
        for step in self._steps:
            if not isinstance(datum, dict):
                return
            if step not in datum:
                raise DataError(
                    f'The {self.side} has no field "{self._path}" to extract, and would become null; it has: '
                    f"{shown(list(datum))} ({STRICT} is on)"
                )
            datum = datum[step]

    def _from_map(self) -> Callable[[Any, ConnectRecord], Any]:
        parents, name = self._steps[:-1], self._steps[-1] if self._steps else None

        def convert(datum: Any, _: ConnectRecord) -> Any:
            if datum is None:
                return None
            current = require_map(datum, PURPOSE)
            if name is None:
                raise DataError(f"Unknown field: {self._path}")
            for step in parents:
                inner = current.get(step)
                if inner is None:
                    return None
                current = require_map(inner, NESTED)
            return current.get(name)

        return convert

    def _from_struct(self, schema: Schema, found: Schema) -> Callable[[Any, ConnectRecord], Any]:
        parents, name, replace_null = self._steps[:-1], self._steps[-1], self._replace_null
        index = schema.index_of(name)
        default = found.default if replace_null else None
        if parents or index is None:

            def nested(datum: Any, _: ConnectRecord) -> Any:
                for step in parents:
                    if datum is None:
                        return None
                    datum = read_field(require_struct(None, datum, NESTED), step, replace_null)
                return None if datum is None else read_field(require_struct(found, datum, NESTED), name, replace_null)

            return nested

        def direct(datum: Any, _: ConnectRecord) -> Any:
            if datum is None:
                return None
            if datum.__class__ is not Struct or datum.schema is not schema:
                datum = struct_under(schema, datum, PURPOSE)
            value = datum.values[index]
            return default if value is None else value

        return direct


class ExtractFieldKey(KeySide, ExtractField):
    """ExtractField on the record's key."""


class ExtractFieldValue(ValueSide, ExtractField):
    """ExtractField on the record's value."""
