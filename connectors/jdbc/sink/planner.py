"""Plans a batch for the tables by the rules of Confluent's and Aiven's connectors, in their words where a record does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from connect.data.java_class_names import java_class_name
from connect.data.schema import Schema, Type
from connect.errors import ConfigError, DataError, SchemaError
from connect.record import SinkRecord
from connectors.jdbc.sink.row_changes import Changes, Refuse
from connectors.jdbc.sink.rows import FieldRules, KeyMode, RowPlan, plan_deletes, plan_writes
from connectors.jdbc.sink.table_names import TableNames
from connectors.jdbc.table_name import TableName

_Kind = tuple[str, Schema | None, Schema | None]


@dataclass(frozen=True, slots=True)
class PlanRules:
    """What one connector asks of records."""

    connector: str
    """Its name, for messages."""
    fields: FieldRules
    tables: TableNames
    deletes: bool = False


class FieldPlanner:
    """Implements :class:`connectors.jdbc.sink.row_changes.Planner`. What is found out about a pair of schemas is kept."""

    def __init__(self, rules: PlanRules, parse_name: Callable[[str], TableName]) -> None:
        self._rules = rules
        self._parse_name = parse_name
        self._tables: dict[str, TableName] = {}
        self._plans: dict[_Kind, RowPlan | str] = {}

    def plan(self, records: Sequence[SinkRecord], refuse: Refuse) -> list[Changes]:
        found: list[Changes] = []
        for run in _runs(records):
            plan = self._plan_of(run[0])
            if isinstance(plan, RowPlan):
                found.append(Changes(plan.shape, plan.rows(run), run))
                continue
            for record in run:
                refuse(record, SchemaError(plan) if plan is not None else self._unfit(record))
        return found

    def _plan_of(self, record: SinkRecord) -> RowPlan | str | None:
        """How to make rows of the record, or why its schemas do not serve; None when it lacks a key or a value."""
        rules = self._rules
        key, value = record.key_schema, record.value_schema
        if rules.fields.key_mode is KeyMode.RECORD_KEY and not _is_key(record):
            return None
        if record.value is None:
            if not rules.deletes:
                return None
            value = None
        elif value is None or value.type not in (Type.STRUCT, Type.STRING):
            return None
        kind = record.topic, key if rules.fields.key_mode is KeyMode.RECORD_KEY else None, value
        plan = self._plans.get(kind)
        if plan is None:
            try:
                plan = self._made(record.topic, key, value)
            except SchemaError as e:
                plan = e.message
            self._plans[kind] = plan
        return plan

    def _made(self, topic: str, key: Schema | None, value: Schema | None) -> RowPlan:
        table = self._table(topic)
        if value is not None:
            return plan_writes(self._rules.fields, topic, table, key, value)
        assert key is not None
        return plan_deletes(self._rules.fields, topic, table, key)

    def _table(self, topic: str) -> TableName:
        found = self._tables.get(topic)
        if found is None:
            name = self._rules.tables.name_for(topic)
            try:
                found = self._parse_name(name)
            except ConfigError as e:
                raise ConfigError(
                    f"Topic {topic!r} has no table: {e.message}; table.name.format, topics.to.tables.mapping and "
                    "table.name.normalize=true make a name of it"
                ) from e
            self._tables[topic] = found
        return found

    def _unfit(self, record: SinkRecord) -> DataError:
        rules = self._rules
        head = (
            f"Sink connector '{rules.connector}' is configured with 'delete.enabled={'true' if rules.deletes else 'false'}' and "
            f"'pk.mode={rules.fields.key_mode.value}' and therefore requires records with a"
        )
        place = (
            f"but found record at (topic='{record.topic}',partition={record.partition},offset={record.offset},"
            f"timestamp={record.timestamp})"
        )
        if rules.fields.key_mode is KeyMode.RECORD_KEY and not _is_key(record):
            if record.key_schema is None:
                table = self._table(record.topic).name
                head = f"PK mode for table '{table}' is RECORD_KEY, but record key schema is missing. {head}"
            return DataError(
                f"{head} non-null key and non-null Struct or primitive key schema, {place} with a {_named(record.key)} key and "
                f"{_typed(record.key_schema)} key schema." + (_SCHEMALESS.format("key") if record.key is not None else "")
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
            f"{head} non-null Struct value and non-null Struct schema, {place} with a {_named(record.value)} value and "
            f"{_typed(record.value_schema)} value schema.{hint}"
        )


_SCHEMALESS = (
    " Columns need a schema: take a {0}.converter that gives one (JsonConverter with {0}.converter.schemas.enable=true for "
    "messages that carry theirs, AvroConverter, ProtobufConverter, JsonSchemaConverter)."
)


def _is_key(record: SinkRecord) -> bool:
    schema = record.key_schema
    return record.key is not None and schema is not None and (schema.type.is_primitive or schema.type is Type.STRUCT)


def _named(value: Any) -> str:
    return java_class_name(value).rpartition(".")[2]


def _typed(schema: Schema | None) -> str:
    return "null" if schema is None else schema.type.value


def _runs(records: Sequence[SinkRecord]) -> Iterator[Sequence[SinkRecord]]:
    """The records in runs of one topic, one pair of schema objects, with keys or without, with values or without."""
    start = 0
    first = records[0]
    for at, record in enumerate(records):
        if (
            record.value_schema is not first.value_schema
            or record.key_schema is not first.key_schema
            or record.topic != first.topic
            or (record.value is None) is not (first.value is None)
            or (record.key is None) is not (first.key is None)
        ):
            yield records[start:at]
            start, first = at, record
    yield records[start:] if start else records
