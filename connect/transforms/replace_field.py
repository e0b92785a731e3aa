"""ReplaceField: removes and renames fields."""

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
from connect.transforms.columnar.columns import PartColumns, RecordColumns, column_filler
from connect.transforms.config import define_replace_null, java_list_text, read_replace_null, split_at_colons
from connect.transforms.key_or_value import KeyOrValueTransformation, OnKey, OnValue, Plan, with_check
from connect.transforms.lossless import format_value
from connect.transforms.structs import (
    java_class_name,
    null_error,
    null_test,
    require_fields,
    require_map,
    require_struct,
    struct_schema_like,
)

PURPOSE = "field replacement"


class _Renames:
    """Validates pairs of old and new names."""

    def __call__(self, name: str, value: Any) -> None:
        _parse_renames(value)

    def __str__(self) -> str:
        return "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"


def _parse_renames(mappings: list[str] | None) -> dict[str, str]:
    """The new name of each renamed field. Raises ConfigError."""
    if mappings is None:
        raise ConfigError.invalid("renames", None, "it must not be null, but may be empty")
    renames = {}
    for mapping in mappings:
        parts = split_at_colons(mapping)
        if len(parts) != 2:
            raise ConfigError.invalid("renames", java_list_text(mappings), f"Invalid rename mapping: {mapping}")
        renames[parts[0]] = parts[1]
    return renames


_CONFIG_DEF = define_replace_null(
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


class ReplaceField(KeyOrValueTransformation):
    """Keeps the fields in ``include`` (all if it is empty) that are not in ``exclude``, and renames them."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        self._exclude = frozenset(values["exclude"])
        self._include = frozenset(values["include"])
        self._renames = _parse_renames(values["renames"])
        self._originals = {self._renames[old]: old for old in hash_map_order(list(self._renames))}
        self._replace_null = read_replace_null(values)
        self._strict = is_strict(configs)

    def _is_selected(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None:
            require_struct(schema, datum, PURPOSE)

    def plan(self, schema: Schema | None) -> Plan:
        if schema is not None:
            return self._struct_plan(schema)
        plan = Plan(None, self._map_converter())
        return with_check(plan, self._check_distinct) if self._strict else plan

    def _check_distinct(self, datum: Any) -> None:
        origins: dict[Any, Any] = {}
        for name in filter(self._is_selected, datum if isinstance(datum, dict) else ()):
            new = self._renames.get(name, name)
            if new in origins:
                raise DataError(
                    f'ReplaceField would merge fields "{origins[new]}" and "{name}" of the {self.part} into field "{new}": '
                    f"{format_value(datum[origins[new]])} would be lost ({STRICT} is on)"
                )
            origins[new] = name

    def _map_converter(self) -> Callable[[Any, ConnectRecord], Any]:
        # Caches the new name of each field; bounded because a map may have data as keys.
        targets: dict[Any, Any] = {}
        left_out = object()  # None is a valid key

        def target(name: Any) -> Any:
            if len(targets) > 10_000:
                targets.clear()
            targets[name] = self._renames.get(name, name) if self._is_selected(name) else left_out
            return targets[name]

        def convert(datum: Any, _: ConnectRecord) -> Any:
            changed = {}
            for name, value in require_map(datum, PURPOSE).items():
                new = targets[name] if name in targets else target(name)
                if new is not left_out:
                    changed[new] = value
            return changed

        return convert

    def _struct_plan(self, schema: Schema) -> Plan:
        selected = [(self._renames.get(f.name, f.name), f) for f in require_fields(schema) if self._is_selected(f.name)]
        changed = struct_schema_like(schema, [(name, f.schema) for name, f in selected])
        sources = [self._source_field(schema, field) for field in require_fields(changed)]
        indexes = [source.index for source in sources]
        pick = _build_picker(indexes)
        replace_null = self._replace_null
        # A field renamed to the name of an excluded one gets its values, which may not fit the schema.
        reassigned = [i for i, (_, field) in enumerate(selected) if field.index != indexes[i]]
        if reassigned and self._strict:
            name, field = selected[reassigned[0]]
            raise DataError(
                f'ReplaceField would give field "{name}" of the {self.part} the values of field "{sources[reassigned[0]].name}" '
                f'and lose the values of "{field.name}" ({field.schema.type.name}; {STRICT} is on)'
            )

        def fill_and_validate(values: list[Any]) -> None:
            for i, (field, source) in enumerate(zip(require_fields(changed), sources, strict=True)):
                if values[i] is None and replace_null:
                    values[i] = source.schema.default
                if values[i] is None and not field.schema.optional:
                    raise null_error(field.name, field.schema)
                if i in reassigned:
                    _validate_reassigned(field, source, values[i])

        has_null = null_test(sources, replace_null)
        fill_columns = column_filler(sources, replace_null)

        def convert_columns(part: PartColumns, _: RecordColumns) -> None:
            columns = part.columns()
            part.set_columns(fill_columns([columns[i] for i in indexes]))

        if has_null is None and not reassigned:
            return Plan(changed, lambda values, _: pick(values), PURPOSE, convert_columns)

        def convert(old: list[Any], _: ConnectRecord) -> list[Any]:
            values = pick(old)
            if reassigned or (has_null is not None and has_null(values)):
                fill_and_validate(values)
            return values

        return Plan(changed, convert, PURPOSE, None if reassigned else convert_columns)

    def _source_field(self, schema: Schema, field: Field) -> Field:
        name = self._originals.get(field.name, field.name)
        source = schema.field(name)
        if source is None:
            raise DataError(f"{name} is not a valid field name")
        return source


_ZEROS: dict[Type, Any] = {
    Type.INT8: 0, Type.INT16: 0, Type.INT32: 0, Type.INT64: 0, Type.FLOAT32: 0.0, Type.FLOAT64: 0.0,
}  # fmt: skip


def _validate_reassigned(field: Field, source: Field, value: Any) -> None:
    """Raises DataError, with Apache's text, if a value does not fit another field. A number of another width does not fit."""
    schema = field.schema
    found = java_class_name(source.schema, value)
    is_plain_number = value is not None and schema.type in _ZEROS and schema.name not in LOGICAL_CLASSES
    if not is_plain_number or found == java_class_name(schema, _ZEROS[schema.type]):
        try:
            validate_field_value(field.name, schema, value)
        except DataError as e:
            if not (e.message.startswith("Invalid Python object") and e.message.endswith(f' for field: "{field.name}"')):
                raise
        else:
            return
    named = "schema" if schema.name is None else f'schema "{schema.name}"'
    raise DataError(f'Invalid Java object for {named} with type {schema.type.name}: class {found} for field: "{field.name}"')


def _build_picker(indexes: list[int]) -> Callable[[list[Any]], list[Any]]:
    if len(indexes) < 2:
        return lambda values: [values[i] for i in indexes]
    get = itemgetter(*indexes)
    return lambda values: list(get(values))


class ReplaceFieldKey(OnKey, ReplaceField):
    """ReplaceField on the record's key."""


class ReplaceFieldValue(OnValue, ReplaceField):
    """ReplaceField on the record's value."""
