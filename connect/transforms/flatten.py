"""Flatten: moves the fields of nested structs or maps to the top level, under joined names."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import ConnectRecord
from connect.strict import STRICT, is_strict
from connect.transforms.columnar.columns import Column, NotColumnar, PartColumns, RecordColumns, has_null
from connect.transforms.key_or_value import KeyOrValueTransformation, OnKey, OnValue, Plan, with_check
from connect.transforms.lossless import format_value
from connect.transforms.structs import (
    NullTest,
    java_class_name,
    null_error,
    null_test_at,
    require_fields,
    require_map,
    require_struct,
    struct_schema_like,
)
from connect.transforms.value_casts import infer_type

PURPOSE = "flattening"
_CONFIG_DEF = ConfigDef().define(
    "delimiter", ConfigType.STRING, ".", importance=Importance.MEDIUM,
    doc="Delimiter to insert between field names from the input record when generating field names for the output record",
)  # fmt: skip


_LEAF_CLASSES = {str, int, float, bool, bytes, list, type(None)}


@dataclass(frozen=True, slots=True)
class _Level:
    """One level of structs.

    ``inner`` has the level of each field that is a struct, None for others; ``width`` is the number of flat fields. ``leaves``
    are the other fields: index, default, and name and schema of the flat field; ``has_null`` tests them for nulls to fill.
    """

    inner: tuple[_Level | None, ...]
    width: int
    leaves: tuple[tuple[int, Any, str, Schema], ...]
    has_null: NullTest | None

    def with_defaults(self, values: list[Any]) -> list[Any]:
        """Copies the values and replaces nulls by defaults. Raises DataError for a null in a required flat field."""
        copied = values[:]
        for i, default, name, schema in self.leaves:
            if copied[i] is None:
                copied[i] = default
                if default is None and not schema.optional:
                    raise null_error(name, schema)
        return copied


class Flatten(KeyOrValueTransformation):
    """Keeps lists, and rejects structs with a map. Fields of an optional struct become optional; the default of a struct becomes
    the default of its fields."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._strict = is_strict(configs)
        delimiter: str | None = _CONFIG_DEF.parse(configs)["delimiter"]
        # Java joins null as the text null (vector Flatten.Value-0041).
        self._delimiter = "null" if delimiter is None else delimiter

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None:
            require_struct(schema, datum, PURPOSE)

    def plan(self, schema: Schema | None) -> Plan:
        if schema is not None:
            return self._struct_plan(schema)
        plan = Plan(None, self._map_converter())
        return with_check(plan, self._check_lossless) if self._strict else plan

    def _joined(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _map_converter(self) -> Callable[[Any, ConnectRecord], Any]:
        def convert(datum: Any, _: ConnectRecord) -> Any:
            flat: dict[str, Any] = {}
            try:
                self._flatten_map(require_map(datum, PURPOSE), "", flat)
            except RecursionError as e:
                raise DataError("A map is nested too deeply to be flattened") from e
            return flat

        return convert

    def _check_lossless(self, datum: Any) -> None:
        if isinstance(datum, dict):
            with contextlib.suppress(RecursionError):  # flattening reports it
                self._check_names(datum, "", {})

    def _check_names(self, value: dict[Any, Any], prefix: str, names: dict[str, Any]) -> None:
        for key, member in value.items():
            name = self._joined(prefix, key)
            if isinstance(member, dict):
                if not member:
                    raise DataError(
                        f'Field "{name}" of the {self.part} is an empty map, which Flatten would lose ({STRICT} is on)'
                    )
                self._check_names(member, name, names)
            elif name in names:
                raise DataError(
                    f'Flatten would merge two fields of the {self.part} into field "{name}": '
                    f"{format_value(names[name])} would be lost ({STRICT} is on)"
                )
            else:
                names[name] = member

    def _flatten_map(self, value: dict[Any, Any], prefix: str, flat: dict[str, Any]) -> None:
        start = f"{prefix}{self._delimiter}" if prefix else ""
        for key, member in value.items():
            name = start + key if key.__class__ is str else _joined_key(start, key)
            if member.__class__ in _LEAF_CLASSES:
                flat[name] = member
                continue
            if isinstance(member, dict):
                self._flatten_map(member, name, flat)
                continue
            kind = infer_type(member)
            if kind is None:
                raise DataError(
                    f"Flatten transformation was passed a value of type class {java_class_name(None, member)} "
                    "which is not supported by Connect's data API"
                )
            if kind is Type.STRUCT:
                raise DataError(
                    f"Flatten transformation does not support class {java_class_name(None, member)} for record without "
                    f"schemas (for field {name})."
                )
            flat[name] = member

    def _struct_plan(self, schema: Schema) -> Plan:
        members: list[tuple[str, Schema]] = []
        default = schema.default if isinstance(schema.default, Struct) else None
        level = self._level(schema, "", schema.optional, default, members)
        changed = struct_schema_like(schema, members)

        def convert(old: list[Any], _: ConnectRecord) -> list[Any]:
            values: list[Any] = []
            _collect(old, level, values)
            return values

        def convert_columns(part: PartColumns, _: RecordColumns) -> None:
            columns: list[Column] = []
            _collect_columns(part.columns(), level, columns)
            part.set_columns(columns)

        return Plan(changed, convert, PURPOSE, convert_columns)

    def _level(
        self, schema: Schema, prefix: str, optional: bool, default: Struct | None, members: list[tuple[str, Schema]]
    ) -> _Level:
        inner: list[_Level | None] = []
        leaves: list[tuple[int, Any, str, Schema]] = []
        before = len(members)
        for field in require_fields(schema):
            name = self._joined(prefix, field.name)
            is_optional = optional or field.schema.optional
            own_default = field.schema.default
            if own_default is None and default is not None:
                own_default = default.get(field.name)
            if field.schema.type is Type.MAP:
                raise DataError(f"Flatten transformation does not support MAP for record with schemas (for field {name}).")
            if field.schema.type is Type.STRUCT:
                inner.append(self._level(field.schema, name, is_optional, own_default, members))
                continue
            inner.append(None)
            same = is_optional == field.schema.optional and own_default is field.schema.default
            flat = field.schema if same else field.schema.replace(optional=is_optional, default=own_default)
            members.append((name, flat))
            # Only the field's own default replaces a null; one from its parent is only in the schema.
            leaves.append((field.index, field.schema.default, name, flat))
        null_sensitive = [i for i, own, _, flat in leaves if own is not None or not flat.optional]
        return _Level(tuple(inner), len(members) - before, tuple(leaves), null_test_at(null_sensitive))


def _collect(old: list[Any], level: _Level, values: list[Any]) -> None:
    """Appends the flat values of a struct. The fields of a null struct become null even if they are required; its default is
    not used (vector Flatten.Value-0021)."""
    if level.has_null is not None and level.has_null(old):
        old = level.with_defaults(old)
    for value, inner in zip(old, level.inner, strict=True):
        if inner is None:
            values.append(value)
        elif value is None:
            values.extend([None] * inner.width)
        else:
            _collect(value.values, inner, values)


def _collect_columns(old: list[Column], level: _Level, columns: list[Column]) -> None:
    """Appends the flat columns; may change the list ``old``. Raises NotColumnar."""
    for index, default, _, schema in level.leaves:
        column = old[index]
        if (default is not None or not schema.optional) and has_null(column):
            if default is None:
                raise NotColumnar
            old[index] = [default if v is None else v for v in column]
    for column, inner in zip(old, level.inner, strict=True):
        if inner is None:
            columns.append(column)
        elif not inner.width:
            continue
        elif has_null(column):
            columns += zip(*[_flat_values(struct, inner) for struct in column], strict=True)
        else:
            _collect_columns(list(zip(*[struct.values for struct in column], strict=True)), inner, columns)


def _flat_values(struct: Struct | None, level: _Level) -> list[Any]:
    if struct is None:
        return [None] * level.width
    values: list[Any] = []
    _collect(struct.values, level, values)
    return values


def _joined_key(start: str, key: Any) -> Any:
    """The name for a key that is not text: null becomes "null", anything else is an error, as in Apache."""
    if key is not None:
        raise DataError(f"Flatten can only join names that are text, but a map has the key {key!r}")
    return f"{start}null" if start else None


class FlattenKey(OnKey, Flatten):
    """Flatten on the record's key."""


class FlattenValue(OnValue, Flatten):
    """Flatten on the record's value."""
