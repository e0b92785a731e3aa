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
from connect.transforms.columnar.columns import Column, RecordColumns, SideColumns, Unfit, column_settler, has_null
from connect.transforms.config import FIELDS, NonEmptyList, replaces_nulls, with_replace_null
from connect.transforms.key_or_value import InColumns, KeySide, Plan, SideTransformation, ValueSide, checked_plan
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

_TABLE = with_replace_null(
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

_make = tuple.__new__  # a header without the call of its class
_Split = tuple[Any, list[Header]]


class HeaderFrom(SideTransformation):
    """Adds a header per field; ``move`` takes the fields away. Needs a datum, and with a schema every field."""

    passes_null = False

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _TABLE

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _TABLE.parse(configs)
        fields, headers = values[FIELDS], values["headers"]
        if len(fields) != len(headers):
            raise ConfigError("'fields' config must have the same number of elements as 'headers' config.")
        self._pairs: list[tuple[str, str]] = list(zip(fields, headers, strict=True))
        self._moves = values["operation"] == "move"
        self._purpose = f"header {values['operation']}"
        self._replace_null = replaces_nulls(values)
        self._strict = is_strict(configs)

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None:
            require_struct(schema, datum, self._purpose)

    def change_side(self, side: SideColumns, batch: RecordColumns) -> None:
        if not side.is_settled() or side.all_null:
            raise Unfit  # nulls are refused
        super().change_side(side, batch)

    def plan(self, schema: Schema | None) -> Plan:
        """The conversion gives the new datum together with its headers; the two variants part them."""
        if schema is not None:
            return self._of_struct(schema)
        plan = Plan(None, self._of_map(), None, self._of_maps())
        return checked_plan(plan, self._check_there) if self._strict else plan

    def _check_there(self, datum: Any) -> None:
        for field, header in self._pairs:
            if isinstance(datum, dict) and field not in datum:
                raise DataError(
                    f'The {self.side} has no field "{field}", and header {header} would be null; it has: '
                    f"{shown(list(datum))} ({STRICT} is on)"
                )

    def _of_maps(self) -> InColumns:
        convert = self._of_map()

        def in_columns(side: SideColumns, batch: RecordColumns) -> None:
            splits = [convert(datum, record) for datum, record in zip(side.data(), batch.records, strict=True)]
            side.hold_data([datum for datum, _ in splits])
            batch.headers = [_with_added(old, added) for old, (_, added) in zip(batch.headers, splits, strict=True)]

        return in_columns

    def _of_map(self) -> Callable[[Any, ConnectRecord], _Split]:
        pairs, moves, purpose = self._pairs, self._moves, self._purpose

        def convert(datum: Any, _: ConnectRecord) -> _Split:
            value = require_map(datum, purpose)
            changed = dict(value)
            if moves:
                for field, _name in pairs:
                    changed.pop(field, None)
            return changed, [Header(name, None, value.get(field)) for field, name in pairs]

        return convert

    def _of_struct(self, schema: Schema) -> Plan:
        purpose, replace_null = self._purpose, self._replace_null
        moved = {field for field, _ in self._pairs}
        changed, kept = schema, list(fields_of(schema))
        if self._moves:
            kept = [f for f in kept if f.name not in moved]
            changed = struct_schema_like(schema, [(f.name, f.schema) for f in kept])
        sources = [(name, self._field(schema, field)) for field, name in self._pairs]
        indexes, moves = [f.index for f in kept], self._moves

        def convert(datum: Any, _: ConnectRecord) -> _Split:
            if datum.__class__ is not Struct or datum.schema is not schema:
                datum = struct_under(schema, datum, purpose)
            old = datum.values
            headers = []
            for name, field in sources:
                value = old[field.index]
                if value is None and replace_null:
                    value = field.schema.default
                if value is None and not field.schema.optional:
                    raise _null_header(field)
                headers.append(Header(name, field.schema, value))
            if not moves:
                return datum, headers
            values = [old[i] for i in indexes]
            if None in values:
                settle_nulls(values, kept, replace_null)
            return new_struct(changed, values), headers

        settle = column_settler(kept, replace_null)

        def in_columns(side: SideColumns, batch: RecordColumns) -> None:
            added = [self._header_column(name, field, side.column(field.index)) for name, field in sources]
            if moves:
                columns = side.columns()
                side.hold_columns(settle([columns[i] for i in indexes]))
            pairs = zip(batch.headers, zip(*added, strict=True), strict=True)
            batch.headers = [_with_added(old, new) for old, new in pairs]

        return Plan(changed, convert, None, in_columns)

    def _header_column(self, name: str, field: Field, column: Column) -> Iterable[Header]:
        default = field.schema.default if self._replace_null else None
        values = column if default is None else [default if value is None else value for value in column]
        if default is None and not field.schema.optional and has_null(column):
            raise _null_header(field)
        return map(_make, repeat(Header), zip(repeat(name), repeat(field.schema), values, strict=False))

    def _field(self, schema: Schema, name: str) -> Field:
        field = schema.field(name)
        if field is None:
            # A NullPointerException in the original (vector chain-0048).
            raise DataError(f"No field {name} for [{self._purpose}], there are: {', '.join(schema.field_names)}")
        return field


def _null_header(field: Field) -> DataError:
    return DataError(f"A null value requires an optional schema but was {field.schema!r}")


def _with_added(headers: Headers | None, added: Iterable[Header]) -> Headers:
    return Headers(added) if headers is None else headers.with_added(added)


def _add_headers(record: Any, headers: list[Header]) -> None:
    record.headers = _with_added(record.headers, headers)


class HeaderFromKey(KeySide, HeaderFrom):
    """HeaderFrom on the record's key."""

    def apply_rows(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
        results = super().apply_rows(records)
        for record in results:
            record.key, headers = record.key
            _add_headers(record, headers)
        return results


class HeaderFromValue(ValueSide, HeaderFrom):
    """HeaderFrom on the record's value."""

    def apply_rows(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
        results = super().apply_rows(records)
        for record in results:
            record.value, headers = record.value
            _add_headers(record, headers)
        return results
