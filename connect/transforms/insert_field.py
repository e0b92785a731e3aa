"""InsertField: adds topic, partition, offset, timestamp or a fixed text to a struct or map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.data.logical import instant_of, timestamp_schema
from connect.data.narrow import Int32
from connect.data.schema import Schema
from connect.errors import ConfigError, DataError
from connect.record import ConnectRecord, SinkRecord, SourceRecord
from connect.transforms.record_sides import KeySide, Plan, SideTransformation, ValueSide
from connect.transforms.settings import REPLACE_NULL, with_replace_null
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
    the field out of a map, and is refused for a required field of a struct only if ``null_counts``."""

    name: str
    schema: Schema
    read: Callable[[ConnectRecord], Any]
    read_typed: Callable[[ConnectRecord], Any]
    null_counts: bool = False


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
        timestamp = timestamp_schema()
        sources: tuple[tuple[str, Schema, Callable[[ConnectRecord], Any], Callable[[ConnectRecord], Any]], ...] = (
            ("topic.field", Schema.STRING, lambda r: r.topic, lambda r: r.topic),
            ("partition.field", Schema.INT32, _partition, lambda r: r.partition),
            ("offset.field", Schema.INT64, _offset, _offset),
            ("timestamp.field", timestamp, lambda r: r.timestamp, _timestamp),
            ("static.field", Schema.STRING, lambda _: static, lambda _: static),
        )
        if all(values[key] is None for key, *_ in sources):
            raise ConfigError("No field insertion configured")
        if values["static.field"] is not None and static is None:
            field = values["static.field"]
            raise ConfigError.invalid("static.value", None, f"No value specified for static field: {field}")
        self._replace_null: bool = values[REPLACE_NULL]
        self._insertions = [
            _insertion(values[key], schema, read, read_typed, null_counts=key == "topic.field")
            for key, schema, read, read_typed in sources
            if values[key] is not None
        ]

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None:
            require_struct(schema, datum, PURPOSE)

    def plan(self, schema: Schema | None) -> Plan:
        return Plan(None, self._into_map()) if schema is None else self._into_struct(schema)

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

        if refused or len(readers) > 1:
            return Plan(changed, insert, PURPOSE)
        read = readers[0]
        return Plan(changed, lambda values, record: [*copy(values), read(record)], PURPOSE)


def _insertion(
    spec: str,
    schema: Schema,
    read: Callable[[ConnectRecord], Any],
    read_typed: Callable[[ConnectRecord], Any],
    *,
    null_counts: bool,
) -> _Insertion:
    required = spec.endswith("!")
    name = spec[:-1] if spec.endswith(("!", "?")) else spec
    return _Insertion(name, schema if required else schema.as_optional(), read, read_typed, null_counts)


class InsertFieldKey(KeySide, InsertField):
    """InsertField on the record's key."""


class InsertFieldValue(ValueSide, InsertField):
    """InsertField on the record's value."""
