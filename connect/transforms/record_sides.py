"""Key and value: the two sides of a record that a transformation can work on, and copies of records with one of them replaced.

A transformation with two variants (``Cast$Key``, ``Cast$Value``) is written once as a :class:`SideTransformation` that says what
becomes of one datum; the variants differ only in which side they read and write. What it does is compiled once per schema.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.record import ConnectRecord, SinkRecord, SourceRecord
from connect.transforms.api import Transformation
from connect.transforms.structs import struct_under

_new = object.__new__
_MOST_PLANS = 64
"""Plans kept per transformation. Sources share a handful of schemas; a stream of ever new ones must not fill the memory."""


def copy_record(record: ConnectRecord) -> Any:
    """A record of the same class with the same members; headers are its own. Typed loosely, for the caller then sets members."""
    # Slots are copied one by one: that is three times as fast as copy.copy, and every record of every transform comes by.
    kind = record.__class__
    given: Any = record  # its class is told by `kind`, which a type checker does not follow
    if kind is SourceRecord:
        source = _new(SourceRecord)
        source.source_partition = given.source_partition
        source.source_offset = given.source_offset
        source.topic = record.topic
        source.partition = record.partition
        source.key_schema = record.key_schema
        source.key = record.key
        source.value_schema = record.value_schema
        source.value = record.value
        source.timestamp = record.timestamp
        headers = record.headers
        source.headers = headers if headers is None else headers.copy()
        return source
    if kind is SinkRecord:
        sink = _new(SinkRecord)
        sink.topic = record.topic
        sink.partition = given.partition
        sink.key_schema = record.key_schema
        sink.key = record.key
        sink.value_schema = record.value_schema
        sink.value = record.value
        sink.timestamp = record.timestamp
        sink.offset = given.offset
        sink.timestamp_type = given.timestamp_type
        sink.original_topic = given.original_topic
        sink.original_partition = given.original_partition
        headers = record.headers
        sink.headers = headers if headers is None else headers.copy()
        return sink
    other = copy.copy(record)
    if record.headers is not None:
        other.headers = record.headers.copy()
    return other


Convert = Callable[[Any, ConnectRecord], Any]


class Plan(NamedTuple):
    """What becomes of data of one schema: the new schema, and the new datum from the old one and its record.

    With ``purpose`` both are structs, and ``convert`` makes a fresh list of values from the old list, which it leaves alone. The
    purpose is how an error names the operation.
    """

    schema: Schema | None
    convert: Convert
    purpose: str | None = None


class SideTransformation(Transformation):
    """A transformation of one side. Concrete classes also derive from :class:`KeySide` or :class:`ValueSide`."""

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

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        return self.apply_batch((record,))[0]

    def close(self) -> None:
        self._plans.clear()


_UNKNOWN: Any = object()


class KeySide(SideTransformation):
    """Works on the key."""

    def apply_batch(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        # Written out for each side: an accessor for the side would be two more calls a record.
        results: list[ConnectRecord | None] = []
        passes_null, last = self.passes_null, _UNKNOWN
        new_schema, convert, purpose = Plan(None, _UNKNOWN)
        for record in records:
            datum = record.key
            if datum is None and passes_null:
                results.append(record)
                continue
            schema = record.key_schema
            if schema is not last:
                new_schema, convert, purpose = self.plan_for(schema, datum)
                last = schema
            if purpose is None:
                converted = convert(datum, record)
            elif datum is None:
                converted = None
            else:
                if datum.__class__ is not Struct or datum.schema is not schema:
                    datum = struct_under(schema, datum, purpose)
                values = convert(datum.values, record)
                converted = _new(Struct)
                converted.schema = new_schema  # type: ignore[assignment]
                converted.values = values
            new = copy_record(record)
            new.key_schema = new_schema
            new.key = converted
            results.append(new)
        return results


class ValueSide(SideTransformation):
    """Works on the value."""

    def apply_batch(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        results: list[ConnectRecord | None] = []
        passes_null, last = self.passes_null, _UNKNOWN
        new_schema, convert, purpose = Plan(None, _UNKNOWN)
        for record in records:
            datum = record.value
            if datum is None and passes_null:
                results.append(record)
                continue
            schema = record.value_schema
            if schema is not last:
                new_schema, convert, purpose = self.plan_for(schema, datum)
                last = schema
            if purpose is None:
                converted = convert(datum, record)
            elif datum is None:
                converted = None
            else:
                if datum.__class__ is not Struct or datum.schema is not schema:
                    datum = struct_under(schema, datum, purpose)
                values = convert(datum.values, record)
                converted = _new(Struct)
                converted.schema = new_schema  # type: ignore[assignment]
                converted.values = values
            new = copy_record(record)
            new.value_schema = new_schema
            new.value = converted
            results.append(new)
        return results
