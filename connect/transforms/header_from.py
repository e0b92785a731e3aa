"""HeaderFrom: copies or moves fields of the key or value into headers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import one_of
from connect.data.headers import Header, Headers
from connect.data.schema import Field, Schema
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError
from connect.record import ConnectRecord
from connect.strict import STRICT, is_strict
from connect.transforms.columnar.columns import Column, NotColumnar, PartColumns, RecordColumns, column_filler, has_null
from connect.transforms.config import FIELDS, NonEmptyList, define_replace_null, read_replace_null
from connect.transforms.key_or_value import ConvertColumns, KeyOrValueTransformation, OnKey, OnValue, Plan, with_check
from connect.transforms.lossless import format_value
from connect.transforms.structs import (
    fill_nulls,
    new_struct,
    require_fields,
    require_map,
    require_struct,
    require_struct_of,
    struct_schema_like,
)

_CONFIG_DEF = define_replace_null(
    ConfigDef()
    .define(
        FIELDS, ConfigType.LIST, validator=NonEmptyList(), importance=Importance.HIGH,
        doc="Field names in the record whose values are to be copied or moved to headers.",
    )
    .define(
        "headers", ConfigType.LIST, validator=NonEmptyList(), importance=Importance.HIGH,
        doc="Header names, in the same order as the field names listed in the fields configuration property.",
    )
    .define(
        "operation", ConfigType.STRING, validator=one_of("move", "copy"), importance=Importance.HIGH,
        doc="Either <code>move</code> if the fields are to be moved to the headers (removed from the key/value), "
        "or <code>copy</code> if the fields are to be copied to the headers (retained in the key/value).",
    )
)  # fmt: skip

_make = tuple.__new__  # creates a header without calling its class
_Split = tuple[Any, list[Header]]


class HeaderFrom(KeyOrValueTransformation):
    """Adds a header per field; ``move`` removes the fields. Raises DataError for null and, with a schema, for a missing field."""

    passes_null = False

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        fields, headers = values[FIELDS], values["headers"]
        if len(fields) != len(headers):
            raise ConfigError("'fields' config must have the same number of elements as 'headers' config.")
        self._pairs: list[tuple[str, str]] = list(zip(fields, headers, strict=True))
        self._is_move = values["operation"] == "move"
        self._purpose = f"header {values['operation']}"
        self._replace_null = read_replace_null(values)
        self._strict = is_strict(configs)

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None:
            require_struct(schema, datum, self._purpose)

    def convert_part(self, part: PartColumns, batch: RecordColumns) -> None:
        if not part.has_uniform_nulls() or part.all_null:
            raise NotColumnar  # nulls are errors
        super().convert_part(part, batch)

    def plan(self, schema: Schema | None) -> Plan:
        """Plans a conversion to pairs of new datum and headers, which the two variants split."""
        if schema is not None:
            return self._struct_plan(schema)
        plan = Plan(None, self._map_converter(), None, self._map_columns_converter())
        return with_check(plan, self._check_fields_exist) if self._strict else plan

    def _check_fields_exist(self, datum: Any) -> None:
        for field, header in self._pairs:
            if isinstance(datum, dict) and field not in datum:
                raise DataError(
                    f'The {self.part} has no field "{field}", so header {header} would be null; it has: '
                    f"{format_value(list(datum))} ({STRICT} is on)"
                )

    def _map_columns_converter(self) -> ConvertColumns:
        convert = self._map_converter()

        def convert_columns(part: PartColumns, batch: RecordColumns) -> None:
            splits = [convert(datum, record) for datum, record in zip(part.data(), batch.records, strict=True)]
            part.set_data([datum for datum, _ in splits])
            batch.headers = [_with_added(old, added) for old, (_, added) in zip(batch.headers, splits, strict=True)]

        return convert_columns

    def _map_converter(self) -> Callable[[Any, ConnectRecord], _Split]:
        pairs, moves, purpose = self._pairs, self._is_move, self._purpose

        def convert(datum: Any, _: ConnectRecord) -> _Split:
            value = require_map(datum, purpose)
            changed = dict(value)
            if moves:
                for field, _name in pairs:
                    changed.pop(field, None)
            return changed, [Header(name, None, value.get(field)) for field, name in pairs]

        return convert

    def _struct_plan(self, schema: Schema) -> Plan:
        purpose, replace_null = self._purpose, self._replace_null
        moved = {field for field, _ in self._pairs}
        changed, remaining = schema, list(require_fields(schema))
        if self._is_move:
            remaining = [f for f in remaining if f.name not in moved]
            changed = struct_schema_like(schema, [(f.name, f.schema) for f in remaining])
        sources = [(name, self._require_field(schema, field)) for field, name in self._pairs]
        indexes, moves = [f.index for f in remaining], self._is_move

        def convert(datum: Any, _: ConnectRecord) -> _Split:
            if datum.__class__ is not Struct or datum.schema is not schema:
                datum = require_struct_of(schema, datum, purpose)
            old = datum.values
            headers = []
            for name, field in sources:
                value = old[field.index]
                if value is None and replace_null:
                    value = field.schema.default
                if value is None and not field.schema.optional:
                    raise _null_header_error(field)
                headers.append(Header(name, field.schema, value))
            if not moves:
                return datum, headers
            values = [old[i] for i in indexes]
            if None in values:
                fill_nulls(values, remaining, replace_null)
            return new_struct(changed, values), headers

        fill_columns = column_filler(remaining, replace_null)

        def convert_columns(part: PartColumns, batch: RecordColumns) -> None:
            added = [self._header_column(name, field, part.column(field.index)) for name, field in sources]
            if moves:
                columns = part.columns()
                part.set_columns(fill_columns([columns[i] for i in indexes]))
            pairs = zip(batch.headers, zip(*added, strict=True), strict=True)
            batch.headers = [_with_added(old, new) for old, new in pairs]

        return Plan(changed, convert, None, convert_columns)

    def _header_column(self, name: str, field: Field, column: Column) -> Iterable[Header]:
        default = field.schema.default if self._replace_null else None
        values = column if default is None else [default if value is None else value for value in column]
        if default is None and not field.schema.optional and has_null(column):
            raise _null_header_error(field)
        return map(_make, repeat(Header), zip(repeat(name), repeat(field.schema), values, strict=False))

    def _require_field(self, schema: Schema, name: str) -> Field:
        field = schema.field(name)
        if field is None:
            # A NullPointerException in Apache (vector chain-0048).
            raise DataError(f"No field {name} for [{self._purpose}]; fields: {', '.join(schema.field_names)}")
        return field


def _null_header_error(field: Field) -> DataError:
    return DataError(f"A null value requires an optional schema but was {field.schema!r}")


def _with_added(headers: Headers | None, added: Iterable[Header]) -> Headers:
    return Headers(added) if headers is None else headers.with_added(added)


def _add_headers(record: Any, headers: list[Header]) -> None:
    record.headers = _with_added(record.headers, headers)


class HeaderFromKey(OnKey, HeaderFrom):
    """HeaderFrom on the record's key."""

    def apply_rows(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
        results = super().apply_rows(records)
        for record in results:
            record.key, headers = record.key
            _add_headers(record, headers)
        return results


class HeaderFromValue(OnValue, HeaderFrom):
    """HeaderFrom on the record's value."""

    def apply_rows(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
        results = super().apply_rows(records)
        for record in results:
            record.value, headers = record.value
            _add_headers(record, headers)
        return results
