"""InsertField: adds topic, partition, offset, timestamp or a fixed text to a struct or map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.data.logical import instant_of, timestamp_schema
from connect.data.schema import Schema
from connect.errors import ConfigError, DataError
from connect.java.sized_numbers import Int32
from connect.record import ConnectRecord, SinkRecord, SourceRecord
from connect.strict import STRICT, is_strict
from connect.transforms.columnar.columns import Column, RecordColumns, SideColumns, Unfit, column_settler, constant, has_null
from connect.transforms.config import replaces_nulls, with_replace_null
from connect.transforms.key_or_value import InColumns, KeySide, Plan, SideTransformation, ValueSide, checked_plan
from connect.transforms.strict_casting import shown
from connect.transforms.structs import (
    copier,
    fields_of,
    null_error,
    require_map,
    require_struct,
    struct_schema_like,
)

PURPOSE = "field insertion"
_OPTIONALITY = "Suffix with <code>!</code> to make this a required field, or <code>?</code> to keep it optional (the default)."
_Read = Callable[[ConnectRecord], Any]
_DOCS = {
    "topic.field": f"Field name for Kafka topic. {_OPTIONALITY}",
    "partition.field": f"Field name for Kafka partition. {_OPTIONALITY}",
    "offset.field": f"Field name for Kafka offset - only applicable to sink connectors.<br/>{_OPTIONALITY}",
    "timestamp.field": f"Field name for record timestamp. {_OPTIONALITY}",
    "static.field": f"Field name for static data field. {_OPTIONALITY}",
    "static.value": "Static field value, if field name configured.",
}


def _table() -> ConfigDef:
    table = ConfigDef()
    for name, doc in _DOCS.items():
        table.define(name, ConfigType.STRING, None, importance=Importance.MEDIUM, doc=doc)
    return with_replace_null(table)


_TABLE = _table()


@dataclass(frozen=True, slots=True)
class _Insertion:
    """One field to add: where its value comes from, as it is in a map (``read``) and in a struct (``read_typed``). None leaves
    the field out of a map, and is refused for a required field of a struct only if ``null_counts``. ``read_column`` gives the
    values of a whole batch where the records as they came in do not tell them, or not as fast."""

    name: str
    schema: Schema
    read: _Read
    read_typed: _Read
    read_column: Callable[[RecordColumns], Column] | None = None
    null_counts: bool = False

    def column(self, batch: RecordColumns) -> Column:
        read = self.read
        return [read(r) for r in batch.records] if self.read_column is None else self.read_column(batch)

    def typed_column(self, batch: RecordColumns) -> Column:
        read = self.read_typed
        if self.read_column is not None:
            return self.read_column(batch)
        if read is _timestamp:
            # The records of a batch often have one timestamp.
            instants = {millis: None if millis is None else instant_of(millis) for millis in {r.timestamp for r in batch.records}}
            return [instants[r.timestamp] for r in batch.records]
        return [read(r) for r in batch.records]


def _partition(record: ConnectRecord) -> Any:
    return None if record.partition is None else Int32(record.partition)


def _offset(record: ConnectRecord) -> Any:
    if not isinstance(record, SinkRecord):
        is_source = isinstance(record, SourceRecord)
        found = "org.apache.kafka.connect.source.SourceRecord" if is_source else type(record).__name__
        raise DataError(f"Only SinkRecord supported for [{PURPOSE}], found: {found}")
    return record.offset


def _timestamp(record: ConnectRecord) -> Any:
    return None if record.timestamp is None else instant_of(record.timestamp)


class InsertField(SideTransformation):
    """Adds fields after those that are there. A null datum passes."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _TABLE

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _TABLE.parse(configs)
        static = values["static.value"]
        sources: tuple[tuple[str, Schema, _Read, _Read, Callable[[RecordColumns], Column] | None], ...] = (
            ("topic.field", Schema.STRING, lambda r: r.topic, lambda r: r.topic, lambda batch: batch.topics),
            ("partition.field", Schema.INT32, _partition, lambda r: r.partition, None),
            ("offset.field", Schema.INT64, _offset, _offset, None),
            ("timestamp.field", timestamp_schema(), lambda r: r.timestamp, _timestamp, None),
            ("static.field", Schema.STRING, lambda _: static, lambda _: static, lambda b: constant(static, len(b.records))),
        )
        if all(values[key] is None for key, *_ in sources):
            raise ConfigError("No field insertion configured")
        if values["static.field"] is not None and static is None:
            field = values["static.field"]
            raise ConfigError.invalid("static.value", None, f"No value specified for static field: {field}")
        self._replace_null = replaces_nulls(values)
        self._strict = is_strict(configs)
        self._insertions = [
            _insertion(values[key], schema, read, read_typed, read_column, null_counts=key == "topic.field")
            for key, schema, read, read_typed, read_column in sources
            if values[key] is not None
        ]

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None:
            require_struct(schema, datum, PURPOSE)

    def plan(self, schema: Schema | None) -> Plan:
        if schema is not None:
            return self._into_struct(schema)
        plan = Plan(None, self._into_map(), in_columns=self._into_maps())
        return checked_plan(plan, self._check_free) if self._strict else plan

    def _check_free(self, datum: Any) -> None:
        taken: set[Any] = set(datum) if isinstance(datum, dict) else set()
        for insertion in self._insertions:
            if insertion.name in taken:
                raise DataError(
                    f'InsertField would overwrite field "{insertion.name}" of the {self.side}: '
                    f"{shown(datum.get(insertion.name))} ({STRICT} is on)"
                )
            taken.add(insertion.name)

    def _into_maps(self) -> InColumns:
        insertions = self._insertions

        def in_columns(side: SideColumns, batch: RecordColumns) -> None:
            changed = [dict(require_map(datum, PURPOSE)) for datum in side.data()]
            for insertion in insertions:
                name, null_counts = insertion.name, insertion.null_counts
                for datum, value in zip(changed, insertion.column(batch), strict=True):
                    if value is not None or null_counts:
                        datum[name] = value
            side.hold_data(changed)

        return in_columns

    def _into_map(self) -> Callable[[Any, ConnectRecord], Any]:
        insertions = [(i.name, i.read, i.null_counts) for i in self._insertions]

        def convert(datum: Any, record: ConnectRecord) -> Any:
            changed = dict(require_map(datum, PURPOSE))
            for name, read, null_counts in insertions:
                value = read(record)
                if value is not None or null_counts:
                    changed[name] = value
            return changed

        return convert

    def _into_struct(self, schema: Schema) -> Plan:
        fields = fields_of(schema)
        added = [(i.name, i.schema) for i in self._insertions]
        changed = struct_schema_like(schema, [*((f.name, f.schema) for f in fields), *added])
        copy = copier(fields, self._replace_null)
        refused = [i for i in self._insertions if i.null_counts and not i.schema.optional]
        readers = [i.read_typed for i in self._insertions]

        def insert(old: list[Any], record: ConnectRecord) -> list[Any]:
            for insertion in refused:
                if insertion.read_typed(record) is None:
                    raise null_error(insertion.name, insertion.schema)
            values = copy(old)
            for read in readers:
                values.append(read(record))
            return values

        settle = column_settler(fields, self._replace_null)
        insertions = self._insertions

        def in_columns(side: SideColumns, batch: RecordColumns) -> None:
            added = [insertion.typed_column(batch) for insertion in insertions]
            for insertion, column in zip(insertions, added, strict=True):
                if insertion in refused and has_null(column):
                    raise Unfit
            side.hold_columns([*settle(side.columns()), *added])

        return Plan(changed, insert, PURPOSE, in_columns)


def _insertion(
    spec: str,
    schema: Schema,
    read: _Read,
    read_typed: _Read,
    read_column: Callable[[RecordColumns], Column] | None,
    *,
    null_counts: bool,
) -> _Insertion:
    required = spec.endswith("!")
    name = spec[:-1] if spec.endswith(("!", "?")) else spec
    return _Insertion(name, schema if required else schema.as_optional(), read, read_typed, read_column, null_counts)


class InsertFieldKey(KeySide, InsertField):
    """InsertField on the record's key."""


class InsertFieldValue(ValueSide, InsertField):
    """InsertField on the record's value."""
