"""ReplaceField: leaves out and renames fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import DistinctList
from connect.data.logical import LOGICAL_CLASSES
from connect.data.schema import Field, Schema, Type
from connect.data.struct import validate_field_value
from connect.errors import ConfigError, DataError
from connect.java.hash_order import hash_map_order
from connect.record import ConnectRecord
from connect.strict import STRICT, is_strict
from connect.transforms.columnar.columns import RecordColumns, SideColumns, column_settler
from connect.transforms.config import list_text, replaces_nulls, with_replace_null
from connect.transforms.key_or_value import KeySide, Plan, SideTransformation, ValueSide, checked_plan
from connect.transforms.spec_text import split_spec
from connect.transforms.strict_casting import shown
from connect.transforms.structs import (
    class_name_under,
    fields_of,
    null_error,
    null_test,
    require_map,
    require_struct,
    struct_schema_like,
)

PURPOSE = "field replacement"


class _Renames:
    """Pairs of old and new name."""

    def __call__(self, name: str, value: Any) -> None:
        _renames(value)

    def __str__(self) -> str:
        return "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"


def _renames(mappings: list[str] | None) -> dict[str, str]:
    if mappings is None:
        raise ConfigError.invalid("renames", None, "it may be empty, but not null")
    renames = {}
    for mapping in mappings:
        parts = split_spec(mapping)
        if len(parts) != 2:
            raise ConfigError.invalid("renames", list_text(mappings), f"Invalid rename mapping: {mapping}")
        renames[parts[0]] = parts[1]
    return renames


_TABLE = with_replace_null(
    ConfigDef()
    .define(
        "exclude", ConfigType.LIST, [], validator=DistinctList(may_be_empty=True), importance=Importance.MEDIUM,
        doc="Fields to exclude. This takes precedence over the fields to include.",
    )
    .define(
        "include", ConfigType.LIST, [], validator=DistinctList(may_be_empty=True), importance=Importance.MEDIUM,
        doc="Fields to include. If specified, only these fields will be used.",
    )
    .define("renames", ConfigType.LIST, [], validator=_Renames(), importance=Importance.MEDIUM, doc="Field rename mappings.")
)  # fmt: skip


class ReplaceField(SideTransformation):
    """Keeps the fields of ``include`` (all, if there are none) that are not in ``exclude``, under their new names."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _TABLE

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _TABLE.parse(configs)
        self._exclude = frozenset(values["exclude"])
        self._include = frozenset(values["include"])
        self._renames = _renames(values["renames"])
        self._originals = {self._renames[old]: old for old in hash_map_order(list(self._renames))}
        self._replace_null = replaces_nulls(values)
        self._strict = is_strict(configs)

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None:
            require_struct(schema, datum, PURPOSE)

    def plan(self, schema: Schema | None) -> Plan:
        if schema is not None:
            return self._of_struct(schema)
        plan = Plan(None, self._of_map())
        return checked_plan(plan, self._check_distinct) if self._strict else plan

    def _check_distinct(self, datum: Any) -> None:
        origins: dict[Any, Any] = {}
        for name in filter(self._keeps, datum if isinstance(datum, dict) else ()):
            new = self._renames.get(name, name)
            if new in origins:
                raise DataError(
                    f'ReplaceField would make fields "{origins[new]}" and "{name}" of the {self.side} one field "{new}": '
                    f"{shown(datum[origins[new]])} would be lost ({STRICT} is on)"
                )
            origins[new] = name

    def _of_map(self) -> Callable[[Any, ConnectRecord], Any]:
        # What becomes of a name is found out once; names of a stream are few, but a map may be keyed by data.
        targets: dict[Any, Any] = {}
        left_out = object()  # not None, which is a key like others

        def target(name: Any) -> Any:
            if len(targets) > 10_000:
                targets.clear()
            targets[name] = self._renames.get(name, name) if self._keeps(name) else left_out
            return targets[name]

        def convert(datum: Any, _: ConnectRecord) -> Any:
            changed = {}
            for name, value in require_map(datum, PURPOSE).items():
                new = targets[name] if name in targets else target(name)
                if new is not left_out:
                    changed[new] = value
            return changed

        return convert

    def _of_struct(self, schema: Schema) -> Plan:
        kept = [(self._renames.get(f.name, f.name), f) for f in fields_of(schema) if self._keeps(f.name)]
        changed = struct_schema_like(schema, [(name, f.schema) for name, f in kept])
        sources = [self._source(schema, field) for field in fields_of(changed)]
        indexes = [source.index for source in sources]
        pick = _picker(indexes)
        replace_null = self._replace_null
        # A field that takes the value of another (renamed onto a name that was left out) may get what it cannot hold.
        strangers = [i for i, (_, field) in enumerate(kept) if field.index != indexes[i]]
        if strangers and self._strict:
            name, field = kept[strangers[0]]
            raise DataError(
                f'ReplaceField would give field "{name}" of the {self.side} the values of field "{sources[strangers[0]].name}" '
                f'and lose those of "{field.name}" ({field.schema.type.name}; {STRICT} is on)'
            )

        def settle(values: list[Any]) -> None:
            for i, (field, source) in enumerate(zip(fields_of(changed), sources, strict=True)):
                if values[i] is None and replace_null:
                    values[i] = source.schema.default
                if values[i] is None and not field.schema.optional:
                    raise null_error(field.name, field.schema)
                if i in strangers:
                    _validate_stranger(field, source, values[i])

        has_null = null_test(sources, replace_null)
        settle_columns = column_settler(sources, replace_null)

        def in_columns(side: SideColumns, _: RecordColumns) -> None:
            columns = side.columns()
            side.hold_columns(settle_columns([columns[i] for i in indexes]))

        if has_null is None and not strangers:
            return Plan(changed, lambda values, _: pick(values), PURPOSE, in_columns)

        def convert(old: list[Any], _: ConnectRecord) -> list[Any]:
            values = pick(old)
            if strangers or (has_null is not None and has_null(values)):
                settle(values)
            return values

        return Plan(changed, convert, PURPOSE, None if strangers else in_columns)

    def _source(self, schema: Schema, field: Field) -> Field:
        name = self._originals.get(field.name, field.name)
        source = schema.field(name)
        if source is None:
            raise DataError(f"{name} is not a valid field name")
        return source


_ZEROS: dict[Type, Any] = {
    Type.INT8: 0, Type.INT16: 0, Type.INT32: 0, Type.INT64: 0, Type.FLOAT32: 0.0, Type.FLOAT64: 0.0,
}  # fmt: skip


def _validate_stranger(field: Field, source: Field, value: Any) -> None:
    """Raises DataError, in the original's words, when the value of one field cannot be that of another. Numbers of another width
    are no less strange than text."""
    schema = field.schema
    found = class_name_under(source.schema, value)
    is_plain_number = value is not None and schema.type in _ZEROS and schema.name not in LOGICAL_CLASSES
    if not is_plain_number or found == class_name_under(schema, _ZEROS[schema.type]):
        try:
            validate_field_value(field.name, schema, value)
        except DataError as e:
            if not (e.message.startswith("Invalid Python object") and e.message.endswith(f' for field: "{field.name}"')):
                raise
        else:
            return
    named = "schema" if schema.name is None else f'schema "{schema.name}"'
    raise DataError(f'Invalid Java object for {named} with type {schema.type.name}: class {found} for field: "{field.name}"')


def _picker(indexes: list[int]) -> Callable[[list[Any]], list[Any]]:
    if len(indexes) < 2:
        return lambda values: [values[i] for i in indexes]
    get = itemgetter(*indexes)
    return lambda values: list(get(values))


class ReplaceFieldKey(KeySide, ReplaceField):
    """ReplaceField on the record's key."""


class ReplaceFieldValue(ValueSide, ReplaceField):
    """ReplaceField on the record's value."""
