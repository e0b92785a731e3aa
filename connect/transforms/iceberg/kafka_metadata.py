"""KafkaMetadataTransform: adds topic, partition, offset, and timestamp of a sink record to its value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.data.schema import Schema
from connect.errors import ConfigError, DataError
from connect.java.sized_numbers import Int32
from connect.record import ConnectRecord, SinkRecord
from connect.strict import STRICT, is_strict
from connect.transforms.columnar.columns import Column, PartColumns, RecordColumns, column_filler, constant
from connect.transforms.config import require_non_null
from connect.transforms.key_or_value import OnValue, Plan
from connect.transforms.lossless import format_value
from connect.transforms.structs import copier, new_struct, require_fields, require_map, require_struct, struct_schema_like

PURPOSE = "KafkaMetadataTransform"
_MAP_PURPOSE = "KafkaMetadata transform"
_NAME, _NESTED, _EXTERNAL = "field_name", "nested", "external_field"
_CONFIG_DEF = (
    ConfigDef()
    .define(
        _NAME, ConfigType.STRING, "_kafka_metadata", importance=Importance.LOW,
        doc="Field with the metadata if nested=true, otherwise the prefix of the fields.",
    )
    .define(
        _NESTED, ConfigType.BOOLEAN, False, importance=Importance.LOW,
        doc="Whether the metadata are a struct of their own, rather than fields of the value.",
    )
    .define(
        _EXTERNAL, ConfigType.STRING, None, importance=Importance.LOW,
        doc="A further field with a fixed text, as name,text: for example the name of the cluster.",
    )
)  # fmt: skip
_FIELDS = (
    ("topic", Schema.STRING),
    ("partition", Schema.INT32),
    ("offset", Schema.INT64),
    ("timestamp", Schema.OPTIONAL_INT64),
)


class KafkaMetadataTransform(OnValue):
    """Adds the fields after the existing ones. A null value passes. Raises DataError for records of source connectors."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        require_non_null(values, _NAME, _NESTED)
        self._name: str = values[_NAME]
        self._nested: bool = values[_NESTED]
        self._external = _parse_external(values[_EXTERNAL])
        fields = [*_FIELDS, *((name, Schema.STRING) for name, _ in self._external)]
        self._names = [name if self._nested else f"{self._name}_{name}" for name, _ in fields]
        self._added = list(zip(self._names, [schema for _, schema in fields], strict=True))
        self._block = struct_schema_like(None, self._added) if self._nested else None
        self._strict = is_strict(configs)
        self._fixed = [text for _, text in self._external]

    def check(self, schema: Schema | None, datum: Any) -> None:
        if schema is not None:
            require_struct(schema, datum, PURPOSE)

    def plan(self, schema: Schema | None) -> Plan:
        return Plan(None, self._add_to_map, convert_columns=self._add_to_maps) if schema is None else self._struct_plan(schema)

    def _struct_plan(self, schema: Schema) -> Plan:
        fields = require_fields(schema)
        block = self._block
        new = self._added if block is None else [(self._name, block)]
        changed = struct_schema_like(schema, [*((f.name, f.schema) for f in fields), *new])
        copy, fill_columns = copier(fields, True), column_filler(fields, True)

        def convert(values: list[Any], record: ConnectRecord) -> list[Any]:
            found = [record.topic, *self._of_record(record)]
            return [*copy(values), *(found if block is None else [new_struct(block, found)])]

        def convert_columns(part: PartColumns, batch: RecordColumns) -> None:
            columns = self._columns(batch)
            if block is not None:
                columns = [[new_struct(block, list(row)) for row in zip(*columns, strict=True)]]
            part.set_columns([*fill_columns(part.columns()), *columns])

        return Plan(changed, convert, PURPOSE, convert_columns)

    def _of_record(self, record: ConnectRecord) -> list[Any]:
        """What does not change with other transformations of the chain: everything but the topic."""
        if not isinstance(record, SinkRecord):
            raise DataError("KafkaMetadataTransform supports only records of sink connectors: others have no offset in Kafka")
        return [record.partition, record.offset, record.timestamp, *self._fixed]

    def _columns(self, batch: RecordColumns) -> list[Column]:
        found = list(zip(*map(self._of_record, batch.records), strict=True))
        fixed = [constant(text, len(batch.records)) for text in self._fixed]
        return [batch.topics, *found[: len(found) - len(fixed)], *fixed]

    def _add_to_map(self, datum: Any, record: ConnectRecord) -> Any:
        return self._add(datum, record.topic, record)

    def _add_to_maps(self, part: PartColumns, batch: RecordColumns) -> None:
        given = zip(part.data(), batch.topics, batch.records, strict=True)
        part.set_data([self._add(datum, topic, record) for datum, topic, record in given])

    def _add(self, datum: Any, topic: str, record: ConnectRecord) -> Any:
        value = dict(require_map(datum, _MAP_PURPOSE))
        partition, offset, timestamp, *fixed = self._of_record(record)
        found = dict(zip(self._names, [topic, Int32(partition), offset, timestamp, *fixed], strict=True))
        if timestamp is None:
            del found[self._names[3]]
        added: dict[str, Any] = {self._name: found} if self._nested else found
        if self._strict and (overwritten := [name for name in added if name in value]):
            raise DataError(
                f'KafkaMetadataTransform would overwrite field "{overwritten[0]}" of the value: '
                f"{format_value(value[overwritten[0]])} ({STRICT} is on)"
            )
        value.update(added)
        return value


def _parse_external(spec: str | None) -> list[tuple[str, str]]:
    if spec is None:
        return []
    name, comma, text = spec.partition(",")
    if not comma or "," in text:
        raise ConfigError(f"Could not parse {spec} for {_EXTERNAL}", key=_EXTERNAL)
    return [(name, text)]
