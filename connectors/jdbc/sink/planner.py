"""Plans the changes of a batch by the rules of the Confluent and Aiven connectors, with their error messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from connect.data.java_class_names import java_class_name
from connect.data.schema import Schema, Type
from connect.errors import ConfigError, DataError, SchemaError
from connect.record import SinkRecord
from connectors.jdbc.sink.naming import TableNaming
from connectors.jdbc.sink.row_changes import Reject, RowChanges
from connectors.jdbc.sink.rows import FieldConfig, KeyMode, RowPlan, plan_deletes, plan_writes
from connectors.jdbc.table_name import TableName

_PlanKey = tuple[str, Schema | None, Schema | None]


@dataclass(frozen=True, slots=True)
class JdbcSinkPlannerConfig:
    """How records become changes."""

    connector: str
    """Name of the connector, for messages."""
    fields: FieldConfig
    tables: TableNaming
    deletes: bool = False


class JdbcSinkPlanner:
    """Implements :class:`connectors.jdbc.sink.row_changes.ChangePlanner`. Caches one plan per topic and pair of schemas."""

    def __init__(self, config: JdbcSinkPlannerConfig, parse_name: Callable[[str], TableName]) -> None:
        self._config = config
        self._parse_name = parse_name
        self._tables: dict[str, TableName] = {}
        self._plans: dict[_PlanKey, RowPlan | str] = {}

    def plan(self, records: Sequence[SinkRecord], reject: Reject) -> list[RowChanges]:
        found: list[RowChanges] = []
        for run in _runs(records):
            plan = self._find_plan(run[0])
            if isinstance(plan, RowPlan):
                found.append(RowChanges(plan.shape, plan.rows(run), run))
                continue
            for record in run:
                reject(record, SchemaError(plan) if plan is not None else self._explain(record))
        return found

    def _find_plan(self, record: SinkRecord) -> RowPlan | str | None:
        """Returns the plan for the record, or why its schemas do not fit; None if it lacks a key or a value."""
        config = self._config
        key, value = record.key_schema, record.value_schema
        if config.fields.key_mode is KeyMode.RECORD_KEY and not _is_key(record):
            return None
        if record.value is None:
            if not config.deletes:
                return None
            value = None
        elif value is None or value.type not in (Type.STRUCT, Type.STRING):
            return None
        plan_key = record.topic, key if config.fields.key_mode is KeyMode.RECORD_KEY else None, value
        plan = self._plans.get(plan_key)
        if plan is None:
            try:
                plan = self._create_plan(record.topic, key, value)
            except SchemaError as e:
                plan = e.message
            self._plans[plan_key] = plan
        return plan

    def _create_plan(self, topic: str, key: Schema | None, value: Schema | None) -> RowPlan:
        table = self._table_for(topic)
        if value is not None:
            return plan_writes(self._config.fields, topic, table, key, value)
        assert key is not None
        return plan_deletes(self._config.fields, topic, table, key)

    def _table_for(self, topic: str) -> TableName:
        found = self._tables.get(topic)
        if found is None:
            name = self._config.tables.name_for(topic)
            try:
                found = self._parse_name(name)
            except ConfigError as e:
                raise ConfigError(
                    f"Topic {topic!r} has no table: {e.message}; table.name.format, topics.to.tables.mapping and "
                    "table.name.normalize=true change its name"
                ) from e
            self._tables[topic] = found
        return found

    def _explain(self, record: SinkRecord) -> DataError:
        config = self._config
        head = (
            f"Sink connector '{config.connector}' is configured with 'delete.enabled={'true' if config.deletes else 'false'}' "
            f"and 'pk.mode={config.fields.key_mode.value}' and therefore requires records with a"
        )
        location = (
            f"but found record at (topic='{record.topic}',partition={record.partition},offset={record.offset},"
            f"timestamp={record.timestamp})"
        )
        if config.fields.key_mode is KeyMode.RECORD_KEY and not _is_key(record):
            if record.key_schema is None:
                table = self._table_for(record.topic).name
                head = f"PK mode for table '{table}' is RECORD_KEY, but record key schema is missing. {head}"
            return DataError(
                f"{head} non-null key and non-null Struct or primitive key schema, {location} with a {_java_name(record.key)} "
                f"key and {_type_name(record.key_schema)} key schema."
                + (_SCHEMALESS.format("key") if record.key is not None else "")
            )
        hint = ""
        if record.value is None:
            hint = (
                " It is a tombstone: set delete.enabled=true (with pk.mode=record_key) to delete the row of its key, or drop "
                "such records with a Filter transformation and the predicate RecordIsTombstone."
            )
        elif record.value_schema is None:
            hint = _SCHEMALESS.format("value")
        return DataError(
            f"{head} non-null Struct value and non-null Struct schema, {location} with a {_java_name(record.value)} value and "
            f"{_type_name(record.value_schema)} value schema.{hint}"
        )


_SCHEMALESS = (
    " Columns need a schema: use a {0}.converter that provides one (JsonConverter with {0}.converter.schemas.enable=true for "
    "messages that carry theirs, AvroConverter, ProtobufConverter, JsonSchemaConverter)."
)


def _is_key(record: SinkRecord) -> bool:
    schema = record.key_schema
    return record.key is not None and schema is not None and (schema.type.is_primitive or schema.type is Type.STRUCT)


def _java_name(value: Any) -> str:
    return java_class_name(value).rpartition(".")[2]


def _type_name(schema: Schema | None) -> str:
    return "null" if schema is None else schema.type.value


def _runs(records: Sequence[SinkRecord]) -> Iterator[Sequence[SinkRecord]]:
    """Splits records into runs with the same topic, schema objects, and presence of keys and values."""
    start = 0
    first = records[0]
    for index, record in enumerate(records):
        if (
            record.value_schema is not first.value_schema
            or record.key_schema is not first.key_schema
            or record.topic != first.topic
            or (record.value is None) is not (first.value is None)
            or (record.key is None) is not (first.key is None)
        ):
            yield records[start:index]
            start, first = index, record
    yield records[start:] if start else records
