"""Flatten: brings the fields of nested structs or maps to the top, under joined names."""

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
from connect.transforms.casting import inferred_type
from connect.transforms.columnar.columns import Column, RecordColumns, SideColumns, Unfit, has_null
from connect.transforms.key_or_value import KeySide, Plan, SideTransformation, ValueSide, checked_plan
from connect.transforms.strict_casting import shown
from connect.transforms.structs import (
    NullTest,
    class_name_under,
    fields_of,
    null_error,
    null_test_at,
    require_map,
    require_struct,
    struct_schema_like,
)

PURPOSE = "flattening"
_TABLE = ConfigDef().define(
    "delimiter", ConfigType.STRING, ".", importance=Importance.MEDIUM,
    doc="Delimiter to insert between field names from the input record when generating field names for the output record",
)  # fmt: skip


_PLAIN = {str, int, float, bool, bytes, list, type(None)}


@dataclass(frozen=True, slots=True)
class _Level:
    """One struct level: per field its level if it is a struct itself, else None; and how many flat fields come of it.

    ``leaves`` are the other fields: place, default, and the flat field it becomes; ``has_null`` tells if a null there matters.
    """

    inner: tuple[_Level | None, ...]
    width: int
    leaves: tuple[tuple[int, Any, str, Schema], ...]
    has_null: NullTest | None

    def settled(self, values: list[Any]) -> list[Any]:
        """A copy with defaults in place of nulls. Raises DataError for a null where the flat field may not have it."""
        copied = values[:]
        for i, default, name, schema in self.leaves:
            if copied[i] is None:
                copied[i] = default
                if default is None and not schema.optional:
                    raise null_error(name, schema)
        return copied


class Flatten(SideTransformation):
    """Lists stay as they are; a struct that has a map is refused. What lies under an optional struct becomes optional, and the
    default of a struct gives defaults to its fields."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _TABLE

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._strict = is_strict(configs)
        delimiter: str | None = _TABLE.parse(configs)["delimiter"]
        # Java writes null as text when it joins names (vector Flatten.Value-0041).
        self._delimiter = "null" if delimiter is None else delimiter

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None:
            require_struct(schema, datum, PURPOSE)

    def plan(self, schema: Schema | None) -> Plan:
        if schema is not None:
            return self._of_struct(schema)
        plan = Plan(None, self._of_map())
        return checked_plan(plan, self._check_kept) if self._strict else plan

    def _joined(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _of_map(self) -> Callable[[Any, ConnectRecord], Any]:
        def convert(datum: Any, _: ConnectRecord) -> Any:
            flat: dict[str, Any] = {}
            try:
                self._flatten_map(require_map(datum, PURPOSE), "", flat)
            except RecursionError as e:
                raise DataError("A map is nested too deeply to be flattened") from e
            return flat

        return convert

    def _check_kept(self, datum: Any) -> None:
        if isinstance(datum, dict):
            with contextlib.suppress(RecursionError):  # flattening then says so
                self._check_names(datum, "", {})

    def _check_names(self, value: dict[Any, Any], prefix: str, names: dict[str, Any]) -> None:
        for key, member in value.items():
            name = self._joined(prefix, key)
            if isinstance(member, dict):
                if not member:
                    raise DataError(
                        f'Field "{name}" of the {self.side} is an empty map, of which Flatten leaves nothing ({STRICT} is on)'
                    )
                self._check_names(member, name, names)
            elif name in names:
                raise DataError(
                    f'Flatten would make two fields of the {self.side} one field "{name}": '
                    f"{shown(names[name])} would be lost ({STRICT} is on)"
                )
            else:
                names[name] = member

    def _flatten_map(self, value: dict[Any, Any], prefix: str, flat: dict[str, Any]) -> None:
        start = f"{prefix}{self._delimiter}" if prefix else ""
        for key, member in value.items():
            name = start + key if key.__class__ is str else _named(start, key)
            if member.__class__ in _PLAIN:
                flat[name] = member
                continue
            if isinstance(member, dict):
                self._flatten_map(member, name, flat)
                continue
            kind = inferred_type(member)
            if kind is None:
                raise DataError(
                    f"Flatten transformation was passed a value of type class {class_name_under(None, member)} "
                    "which is not supported by Connect's data API"
                )
            if kind is Type.STRUCT:
                raise DataError(
                    f"Flatten transformation does not support class {class_name_under(None, member)} for record without "
                    f"schemas (for field {name})."
                )
            flat[name] = member

    def _of_struct(self, schema: Schema) -> Plan:
        members: list[tuple[str, Schema]] = []
        default = schema.default if isinstance(schema.default, Struct) else None
        level = self._level(schema, "", schema.optional, default, members)
        changed = struct_schema_like(schema, members)

        def convert(old: list[Any], _: ConnectRecord) -> list[Any]:
            values: list[Any] = []
            _collect(old, level, values)
            return values

        def in_columns(side: SideColumns, _: RecordColumns) -> None:
            columns: list[Column] = []
            _collect_columns(side.columns(), level, columns)
            side.hold_columns(columns)

        return Plan(changed, convert, PURPOSE, in_columns)

    def _level(
        self, schema: Schema, prefix: str, optional: bool, default: Struct | None, members: list[tuple[str, Schema]]
    ) -> _Level:
        inner: list[_Level | None] = []
        leaves: list[tuple[int, Any, str, Schema]] = []
        before = len(members)
        for field in fields_of(schema):
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
            # Only the field's own default takes the place of a null; what it has from its parent is in the schema alone.
            leaves.append((field.index, field.schema.default, name, flat))
        matter = [i for i, own, _, flat in leaves if own is not None or not flat.optional]
        return _Level(tuple(inner), len(members) - before, tuple(leaves), null_test_at(matter))


def _collect(old: list[Any], level: _Level, values: list[Any]) -> None:
    """Appends the flat values of a struct with these values. A struct that is null leaves its fields null, whatever their
    schemas say, and is not replaced by its default (vector Flatten.Value-0021)."""
    if level.has_null is not None and level.has_null(old):
        old = level.settled(old)
    for value, inner in zip(old, level.inner, strict=True):
        if inner is None:
            values.append(value)
        elif value is None:
            values.extend([None] * inner.width)
        else:
            _collect(value.values, inner, values)


def _collect_columns(old: list[Column], level: _Level, columns: list[Column]) -> None:
    """The same for columns: appends the flat ones. ``old`` is the caller's own. Raises Unfit."""
    for place, default, _, schema in level.leaves:
        column = old[place]
        if (default is not None or not schema.optional) and has_null(column):
            if default is None:
                raise Unfit
            old[place] = [default if v is None else v for v in column]
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


def _named(start: str, key: Any) -> Any:
    """The name for a key that is no text: a null joins as "null", the rest is refused, as in the original."""
    if key is not None:
        raise DataError(f"Flatten can only join names that are text, and a map has the key {key!r}")
    return f"{start}null" if start else None


class FlattenKey(KeySide, Flatten):
    """Flatten on the record's key."""


class FlattenValue(ValueSide, Flatten):
    """Flatten on the record's value."""
