"""Transformations with a variant for the key and one for the value (``Cast$Key``, ``Cast$Value``).

A :class:`KeyOrValueTransformation` defines how a datum is converted; the variants differ only in whether they read and write the
key or the value. The conversion is compiled once per schema.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.record import ConnectRecord
from connect.transforms.columnar.column_transformation import ColumnTransformation
from connect.transforms.columnar.columns import NotColumnar, PartColumns, RecordColumns
from connect.transforms.record_copies import copy_record
from connect.transforms.structs import require_struct_of

_new: Callable[[type[Struct]], Any] = object.__new__
"""Creates a struct without calling its constructor for each record."""
_MAX_PLANS = 64
"""Plans cached per transformation, bounded in case every record has a new schema."""


Convert = Callable[[Any, ConnectRecord], Any]
ConvertColumns = Callable[[PartColumns, RecordColumns], None]


class Plan(NamedTuple):
    """How data of one schema are converted: the new schema, and the function from a datum and its record to the new datum.

    If ``purpose`` is set, data are structs, and ``convert`` creates a new list of values from the old one, which it does not
    change; errors name the operation by the purpose. ``convert_columns`` converts a whole batch without nulls in place; if it is
    None, ``convert`` is called for each datum. A ``convert`` that reads the record needs ``convert_columns``: in a batch, the
    record is the original one, without the changes by earlier transformations.
    """

    schema: Schema | None
    convert: Convert
    purpose: str | None = None
    convert_columns: ConvertColumns | None = None


def with_check(plan: Plan, check: Callable[[Any], None]) -> Plan:
    """Adds a check, which may raise DataError, to a plan for data without a schema."""
    convert, convert_columns = plan.convert, plan.convert_columns

    def convert_checked(datum: Any, record: ConnectRecord) -> Any:
        check(datum)
        return convert(datum, record)

    def convert_columns_checked(part: PartColumns, batch: RecordColumns) -> None:
        for datum in part.data():
            check(datum)
        if convert_columns is not None:
            convert_columns(part, batch)

    return plan._replace(convert=convert_checked, convert_columns=None if convert_columns is None else convert_columns_checked)


class KeyOrValueTransformation(ColumnTransformation):
    """A transformation of the key or the value. Concrete classes also derive from :class:`OnKey` or :class:`OnValue`."""

    part: ClassVar[str] = "value"
    """``key`` or ``value``, for errors."""
    passes_null = True
    """Whether a record with a null datum is returned unchanged."""

    def __init__(self) -> None:
        self._plans: dict[int, tuple[Schema | None, Plan]] = {}

    @abstractmethod
    def plan(self, schema: Schema | None) -> Plan:
        """Compiles the conversion for a schema (None: schemaless). Raises DataError if the schema is not supported."""

    def plan_for(self, schema: Schema | None, datum: Any) -> Plan:
        """Returns the plan, cached by schema identity. The cache holds the schemas, so their ids stay valid."""
        known = self._plans.get(id(schema))
        if known is not None:
            return known[1]
        self.check(schema, datum)
        plan = self.plan(schema)
        if len(self._plans) >= _MAX_PLANS:
            del self._plans[next(iter(self._plans))]
        self._plans[id(schema)] = (schema, plan)
        return plan

    def check(self, schema: Schema | None, datum: Any) -> None:
        """Called before a plan is compiled: raises errors of the datum that Apache raises before those of its schema."""

    def convert_null(self, schema: Schema | None) -> Any:
        """Converts a null where data are structs, unless ``passes_null``. Raises DataError if null is not allowed."""
        return None

    def convert_part(self, part: PartColumns, batch: RecordColumns) -> None:
        """Converts the keys or values of a batch as :meth:`apply_rows` does for records. Raises NotColumnar or another error."""
        has_some_nulls = not part.has_uniform_nulls()
        if self.passes_null:
            if part.all_null:
                return
            if has_some_nulls:
                raise NotColumnar  # records with null keep the old schema
        schema, convert, purpose, convert_columns = self.plan_for(part.schema, part.example())
        if convert_columns is not None and not has_some_nulls and not part.all_null:
            convert_columns(part, batch)
        elif purpose is None:
            part.set_data([convert(datum, r) for datum, r in zip(part.data(), batch.records, strict=True)])
        elif has_some_nulls:
            raise NotColumnar
        elif not part.all_null:
            part.set_rows([convert(values, r) for values, r in zip(part.rows(), batch.records, strict=True)])
        part.schema, part.changed = schema, True

    def close(self) -> None:
        self._plans.clear()


_UNKNOWN: Any = object()


class OnKey(KeyOrValueTransformation):
    """Reads and writes the key."""

    part = "key"
    reads_key = True

    def apply_columns(self, batch: RecordColumns) -> None:
        assert batch.key is not None
        self.convert_part(batch.key, batch)

    def apply_rows(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
        # Written out for key and value: an accessor would cost two more calls per record.
        results: list[ConnectRecord] = []
        passes_null, last = self.passes_null, _UNKNOWN
        new_schema, convert, purpose, _ = Plan(None, _UNKNOWN)
        for record in records:
            datum = record.key
            if datum is None and passes_null:
                results.append(record)
                continue
            schema = record.key_schema
            if schema is not last:
                new_schema, convert, purpose, _ = self.plan_for(schema, datum)
                last = schema
            if purpose is None:
                converted = convert(datum, record)
            elif datum is None:
                converted = self.convert_null(schema)
            else:
                if datum.__class__ is not Struct or datum.schema is not schema:
                    datum = require_struct_of(schema, datum, purpose)
                values = convert(datum.values, record)
                converted = _new(Struct)
                converted.schema = new_schema
                converted.values = values
            new = copy_record(record)
            new.key_schema = new_schema
            new.key = converted
            results.append(new)
        return results


class OnValue(KeyOrValueTransformation):
    """Reads and writes the value."""

    part = "value"
    reads_value = True

    def apply_columns(self, batch: RecordColumns) -> None:
        assert batch.value is not None
        self.convert_part(batch.value, batch)

    def apply_rows(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
        results: list[ConnectRecord] = []
        passes_null, last = self.passes_null, _UNKNOWN
        new_schema, convert, purpose, _ = Plan(None, _UNKNOWN)
        for record in records:
            datum = record.value
            if datum is None and passes_null:
                results.append(record)
                continue
            schema = record.value_schema
            if schema is not last:
                new_schema, convert, purpose, _ = self.plan_for(schema, datum)
                last = schema
            if purpose is None:
                converted = convert(datum, record)
            elif datum is None:
                converted = self.convert_null(schema)
            else:
                if datum.__class__ is not Struct or datum.schema is not schema:
                    datum = require_struct_of(schema, datum, purpose)
                values = convert(datum.values, record)
                converted = _new(Struct)
                converted.schema = new_schema
                converted.values = values
            new = copy_record(record)
            new.value_schema = new_schema
            new.value = converted
            results.append(new)
        return results
