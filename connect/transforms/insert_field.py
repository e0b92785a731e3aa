"""InsertField: adds topic, partition, offset, timestamp, or a fixed text to a struct or map."""

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
from connect.transforms.columnar.columns import Column, NotColumnar, PartColumns, RecordColumns, column_filler, constant, has_null
from connect.transforms.config import define_replace_null, read_replace_null
from connect.transforms.key_or_value import ConvertColumns, KeyOrValueTransformation, OnKey, OnValue, Plan, with_check
from connect.transforms.lossless import format_value
from connect.transforms.structs import (
    copier,
    null_error,
    require_fields,
    require_map,
    require_struct,
    struct_schema_like,
)

PURPOSE = "field insertion"
_OPTIONALITY = "Suffix with <code>!</code> to make this a required field, or <code>?</code> to keep it optional (the default)."
_ReadValue = Callable[[ConnectRecord], Any]
_DOCS = {
    "topic.field": f"Field name for Kafka topic. {_OPTIONALITY}",
    "partition.field": f"Field name for Kafka partition. {_OPTIONALITY}",
    "offset.field": f"Field name for Kafka offset - only applicable to sink connectors.<br/>{_OPTIONALITY}",
    "timestamp.field": f"Field name for record timestamp. {_OPTIONALITY}",
    "static.field": f"Field name for static data field. {_OPTIONALITY}",
    "static.value": "Static field value, if field name configured.",
}


def _build_config_def() -> ConfigDef:
    table = ConfigDef()
    for name, doc in _DOCS.items():
        table.define(name, ConfigType.STRING, None, importance=Importance.MEDIUM, doc=doc)
    return define_replace_null(table)


_CONFIG_DEF = _build_config_def()


@dataclass(frozen=True, slots=True)
class _Insertion:
    """One field to add. ``read`` gets its value for a map, ``read_typed`` for a struct. If ``null_counts``, null is added to
    a map and is an error for a required field of a struct; otherwise null is left out of a map. ``read_column`` gets the values
    of a batch if the original records do not have them, or not as fast."""

    name: str
    schema: Schema
    read: _ReadValue
    read_typed: _ReadValue
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
            # Many records of a batch share a timestamp.
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


class InsertField(KeyOrValueTransformation):
    """Adds fields after the existing ones. A null key or value passes."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        static = values["static.value"]
        sources: tuple[tuple[str, Schema, _ReadValue, _ReadValue, Callable[[RecordColumns], Column] | None], ...] = (
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
        self._replace_null = read_replace_null(values)
        self._strict = is_strict(configs)
        self._insertions = [
            _parse_insertion(values[key], schema, read, read_typed, read_column, null_counts=key == "topic.field")
            for key, schema, read, read_typed, read_column in sources
            if values[key] is not None
        ]

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None:
            require_struct(schema, datum, PURPOSE)

    def plan(self, schema: Schema | None) -> Plan:
        if schema is not None:
            return self._struct_plan(schema)
        plan = Plan(None, self._map_converter(), convert_columns=self._map_columns_converter())
        return with_check(plan, self._check_not_overwritten) if self._strict else plan

    def _check_not_overwritten(self, datum: Any) -> None:
        existing: set[Any] = set(datum) if isinstance(datum, dict) else set()
        for insertion in self._insertions:
            if insertion.name in existing:
                raise DataError(
                    f'InsertField would overwrite field "{insertion.name}" of the {self.part}: '
                    f"{format_value(datum.get(insertion.name))} ({STRICT} is on)"
                )
            existing.add(insertion.name)

    def _map_columns_converter(self) -> ConvertColumns:
        insertions = self._insertions

        def convert_columns(part: PartColumns, batch: RecordColumns) -> None:
            changed = [dict(require_map(datum, PURPOSE)) for datum in part.data()]
            for insertion in insertions:
                name, null_counts = insertion.name, insertion.null_counts
                for datum, value in zip(changed, insertion.column(batch), strict=True):
                    if value is not None or null_counts:
                        datum[name] = value
            part.set_data(changed)

        return convert_columns

    def _map_converter(self) -> Callable[[Any, ConnectRecord], Any]:
        insertions = [(i.name, i.read, i.null_counts) for i in self._insertions]

        def convert(datum: Any, record: ConnectRecord) -> Any:
            changed = dict(require_map(datum, PURPOSE))
            for name, read, null_counts in insertions:
                value = read(record)
                if value is not None or null_counts:
                    changed[name] = value
            return changed

        return convert

    def _struct_plan(self, schema: Schema) -> Plan:
        fields = require_fields(schema)
        added = [(i.name, i.schema) for i in self._insertions]
        changed = struct_schema_like(schema, [*((f.name, f.schema) for f in fields), *added])
        copy = copier(fields, self._replace_null)
        non_null = [i for i in self._insertions if i.null_counts and not i.schema.optional]
        readers = [i.read_typed for i in self._insertions]

        def insert(old: list[Any], record: ConnectRecord) -> list[Any]:
            for insertion in non_null:
                if insertion.read_typed(record) is None:
                    raise null_error(insertion.name, insertion.schema)
            values = copy(old)
            for read in readers:
                values.append(read(record))
            return values

        fill_columns = column_filler(fields, self._replace_null)
        insertions = self._insertions

        def convert_columns(part: PartColumns, batch: RecordColumns) -> None:
            added = [insertion.typed_column(batch) for insertion in insertions]
            for insertion, column in zip(insertions, added, strict=True):
                if insertion in non_null and has_null(column):
                    raise NotColumnar
            part.set_columns([*fill_columns(part.columns()), *added])

        return Plan(changed, insert, PURPOSE, convert_columns)


def _parse_insertion(
    spec: str,
    schema: Schema,
    read: _ReadValue,
    read_typed: _ReadValue,
    read_column: Callable[[RecordColumns], Column] | None,
    *,
    null_counts: bool,
) -> _Insertion:
    required = spec.endswith("!")
    name = spec[:-1] if spec.endswith(("!", "?")) else spec
    return _Insertion(name, schema if required else schema.as_optional(), read, read_typed, read_column, null_counts)


class InsertFieldKey(OnKey, InsertField):
    """InsertField on the record's key."""


class InsertFieldValue(OnValue, InsertField):
    """InsertField on the record's value."""
