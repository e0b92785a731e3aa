"""ExtractField: replaces the key or value by one of its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import one_of
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError
from connect.record import ConnectRecord
from connect.strict import STRICT, is_strict
from connect.transforms.columnar.columns import PartColumns, RecordColumns
from connect.transforms.config import FIELD, define_replace_null, read_replace_null, require_non_null
from connect.transforms.key_or_value import KeyOrValueTransformation, OnKey, OnValue, Plan, with_check
from connect.transforms.lossless import format_value
from connect.transforms.structs import read_field, require_map, require_struct, require_struct_of

PURPOSE = "field extraction"
NESTED = "nested field access"
_CONFIG_DEF = define_replace_null(
    ConfigDef().define(FIELD, ConfigType.STRING, importance=Importance.MEDIUM, doc="Field name to extract.")
).define(
    "field.syntax.version", ConfigType.STRING, "V1", validator=one_of("V1", "V2", ignore_case=True), importance=Importance.HIGH,
    doc="Defines the version of the syntax to access fields. If set to <code>V1</code>, then the field paths are limited to "
    "access the elements at the root level of the struct or map. If set to <code>V2</code>, the syntax will support accessing "
    "nested elements. To access nested elements, dotted notation is used. If dots are already included in the field name, then "
    "backtick pairs can be used to wrap field names containing dots. E.g. to access the subfield <code>baz</code> from a field "
    'named "foo.bar" in a struct/map the following format can be used to access its elements: "<code>foo.bar</code>.baz".',
)  # fmt: skip


class ExtractField(KeyOrValueTransformation):
    """Extracts one field. Null becomes null with the schema of the field. Raises DataError if the schema has no such field; a map
    without it becomes null."""

    passes_null = False

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        require_non_null(values, FIELD)
        self._path: str = values[FIELD]
        self._steps = parse_field_path(self._path, values["field.syntax.version"])
        self._replace_null = read_replace_null(values)
        self._strict = is_strict(configs)

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None and datum is not None:
            require_struct(schema, datum, PURPOSE)

    def plan(self, schema: Schema | None) -> Plan:
        if schema is None:
            plan = Plan(None, self._map_converter())
            return with_check(plan, self._check_fields_exist) if self._strict else plan
        field_schema: Schema | None = schema
        for step in self._steps:
            if field_schema is None:
                break
            if field_schema.fields is None:
                raise DataError("Cannot look up fields on non-struct type")
            field = field_schema.field(step)
            field_schema = None if field is None else field.schema
        if field_schema is None or not self._steps:
            raise DataError(f"Unknown field: {self._path}")
        index = schema.index_of(self._steps[-1]) if len(self._steps) == 1 else None
        if index is None:
            return Plan(field_schema, self._struct_converter(schema, field_schema))
        column_index, default = index, field_schema.default if self._replace_null else None

        def convert_columns(part: PartColumns, _: RecordColumns) -> None:
            column = part.column(column_index)
            part.set_data(column if default is None else [default if v is None else v for v in column])

        return Plan(field_schema, self._struct_converter(schema, field_schema), None, convert_columns)

    def _check_fields_exist(self, datum: Any) -> None:
        for step in self._steps:
            if not isinstance(datum, dict):
                return
            if step not in datum:
                raise DataError(
                    f'The {self.part} has no field "{self._path}" to extract, and would become null; it has: '
                    f"{format_value(list(datum))} ({STRICT} is on)"
                )
            datum = datum[step]

    def _map_converter(self) -> Callable[[Any, ConnectRecord], Any]:
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

    def _struct_converter(self, schema: Schema, field_schema: Schema) -> Callable[[Any, ConnectRecord], Any]:
        parents, name, replace_null = self._steps[:-1], self._steps[-1], self._replace_null
        index = schema.index_of(name)
        default = field_schema.default if replace_null else None
        if parents or index is None:

            def nested(datum: Any, _: ConnectRecord) -> Any:
                for step in parents:
                    if datum is None:
                        return None
                    datum = read_field(require_struct(None, datum, NESTED), step, replace_null)
                return None if datum is None else read_field(require_struct(field_schema, datum, NESTED), name, replace_null)

            return nested

        def direct(datum: Any, _: ConnectRecord) -> Any:
            if datum is None:
                return None
            if datum.__class__ is not Struct or datum.schema is not schema:
                datum = require_struct_of(schema, datum, PURPOSE)
            value = datum.values[index]
            return default if value is None else value

        return direct


def parse_field_path(path: str, version: str) -> tuple[str, ...]:
    """Splits a path into field names: V1 has plain names, V2 dotted ones with backticks around names that contain dots (KIP-821).

    In V2, a backtick closes a name only before a dot or at the end, unless a backslash precedes it. Raises ConfigError for a
    backtick that is not closed.
    """
    if version.upper() == "V1":
        return (path,)
    steps: list[str] = []
    at = 0
    while at < len(path):
        if path[at] == "`":
            step, at = _quoted_step(path, at)
            steps.append(step)
            continue
        dot = path.find(".", at)
        if dot < 0:
            steps.append(path[at:])
            break
        steps.append(path[at:dot])
        at = dot + 1
    if path.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted_step(path: str, backtick: int) -> tuple[str, int]:
    name = ""
    start = at = backtick + 1
    while True:
        at = path.find("`", at)
        escaped = at > 0 and path[at - 1] == "\\"
        if at < 0 or (at == len(path) - 1 and escaped):
            raise ConfigError(
                f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at position "
                f"{backtick} to escape it"
            )
        if at == len(path) - 1:
            return name + path[start:at], at + 1
        if path[at + 1] != ".":
            at += 1
        elif escaped:
            name += path[start : at - 1] + "`"
            at += 1
            start = at
        else:
            return name + path[start:at], at + 2


class ExtractFieldKey(OnKey, ExtractField):
    """ExtractField on the record's key."""


class ExtractFieldValue(OnValue, ExtractField):
    """ExtractField on the record's value."""
