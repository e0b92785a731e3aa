"""Key and value: the two sides of a record that a transformation can work on, and copies of records with one of them replaced.

A transformation with two variants (``Cast$Key``, ``Cast$Value``) is written once as a :class:`SideTransformation` that says what
becomes of one datum; the variants differ only in which side they read and write. What it does is compiled once per schema.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.record import ConnectRecord
from connect.transforms.columnar.batches import ColumnTransformation
from connect.transforms.columnar.columns import RecordColumns, SideColumns, Unfit
from connect.transforms.record_copies import copy_record
from connect.transforms.structs import struct_under

_new: Callable[[type[Struct]], Any] = object.__new__
"""Typed loosely: the struct gets its slots below, without the call of a constructor for each record."""
_MOST_PLANS = 64
"""Plans kept per transformation. Sources share a handful of schemas; a stream of ever new ones must not fill the memory."""


Convert = Callable[[Any, ConnectRecord], Any]
InColumns = Callable[[SideColumns, RecordColumns], None]


class Plan(NamedTuple):
    """What becomes of data of one schema: the new schema, and the new datum from the old one and its record.

    With ``purpose`` both are structs, and ``convert`` makes a fresh list of values from the old list, which it leaves alone. The
    purpose is how an error names the operation. ``in_columns`` does the same as ``convert`` to a whole batch whose data are not
    null, by holding its results in the side; where there is none, ``convert`` is called for each. A ``convert`` that looks at its
    record needs it: a record of a batch is as it came in, and what transformations before did to it is in the batch.
    """

    schema: Schema | None
    convert: Convert
    purpose: str | None = None
    in_columns: InColumns | None = None


def checked_plan(plan: Plan, check: Callable[[Any], None]) -> Plan:
    """A plan for data without a schema that shows every datum to ``check`` first, which may raise DataError."""
    convert, in_columns = plan.convert, plan.in_columns

    def convert_checked(datum: Any, record: ConnectRecord) -> Any:
        check(datum)
        return convert(datum, record)

    def in_columns_checked(side: SideColumns, batch: RecordColumns) -> None:
        for datum in side.data():
            check(datum)
        if in_columns is not None:
            in_columns(side, batch)

    return plan._replace(convert=convert_checked, in_columns=None if in_columns is None else in_columns_checked)


class SideTransformation(ColumnTransformation):
    """A transformation of one side. Concrete classes also derive from :class:`KeySide` or :class:`ValueSide`."""

    side: ClassVar[str] = "value"
    """How errors name the side."""
    passes_null = True
    """A null datum leaves the record as it is, whatever its schema."""

    def __init__(self) -> None:
        self._plans: dict[int, tuple[Schema | None, Plan]] = {}

    @abstractmethod
    def plan(self, schema: Schema | None) -> Plan:
        """Compiles what to do with data of that schema (None: schemaless). Raises DataError when the schema does not do."""

    def plan_for(self, schema: Schema | None, datum: Any) -> Plan:
        """The plan, from the cache or compiled now. The cache goes by identity and holds its schemas, so that ids stay theirs."""
        known = self._plans.get(id(schema))
        if known is not None:
            return known[1]
        self.check(schema, datum)
        plan = self.plan(schema)
        if len(self._plans) >= _MOST_PLANS:
            del self._plans[next(iter(self._plans))]
        self._plans[id(schema)] = (schema, plan)
        return plan

    def check(self, schema: Schema | None, datum: Any) -> None:
        """Called before a plan is compiled: errors of the datum that the original raises before those of its schema."""

    def convert_null(self, schema: Schema | None) -> Any:
        """What becomes of a null where data are structs, unless ``passes_null``. Raises DataError where it is refused."""
        return None

    def change_side(self, side: SideColumns, batch: RecordColumns) -> None:
        """Does to one side of a batch what :meth:`apply_rows` does to that side of records. Raises Unfit, or an error."""
        is_mixed = not side.is_settled()
        if self.passes_null:
            if side.all_null:
                return
            if is_mixed:
                raise Unfit  # the nulls would keep the old schema
        schema, convert, purpose, in_columns = self.plan_for(side.schema, side.example())
        if in_columns is not None and not is_mixed and not side.all_null:
            in_columns(side, batch)
        elif purpose is None:
            side.hold_data([convert(datum, r) for datum, r in zip(side.data(), batch.records, strict=True)])
        elif is_mixed:
            raise Unfit
        elif not side.all_null:
            side.hold_rows([convert(values, r) for values, r in zip(side.rows(), batch.records, strict=True)])
        side.schema, side.changed = schema, True

    def close(self) -> None:
        self._plans.clear()


_UNKNOWN: Any = object()


class KeySide(SideTransformation):
    """Works on the key."""

    side = "key"
    reads_key = True

    def apply_columns(self, batch: RecordColumns) -> None:
        assert batch.key is not None
        self.change_side(batch.key, batch)

    def apply_rows(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
        # Written out for each side: an accessor for the side would be two more calls a record.
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
                    datum = struct_under(schema, datum, purpose)
                values = convert(datum.values, record)
                converted = _new(Struct)
                converted.schema = new_schema
                converted.values = values
            new = copy_record(record)
            new.key_schema = new_schema
            new.key = converted
            results.append(new)
        return results


class ValueSide(SideTransformation):
    """Works on the value."""

    side = "value"
    reads_value = True

    def apply_columns(self, batch: RecordColumns) -> None:
        assert batch.value is not None
        self.change_side(batch.value, batch)

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
                    datum = struct_under(schema, datum, purpose)
                values = convert(datum.values, record)
                converted = _new(Struct)
                converted.schema = new_schema
                converted.values = values
            new = copy_record(record)
            new.value_schema = new_schema
            new.value = converted
            results.append(new)
        return results
