"""Plans the changes of a batch by the rules of the Debezium sink."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from connect.errors import ConfigError, ConnectError, DataError, SchemaError
from connect.generated_code import evaluate
from connect.record import SinkRecord
from connectors.jdbc.debezium_sink.config import DebeziumKeyMode, DebeziumPlannerConfig
from connectors.jdbc.debezium_sink.record_kinds import ChangeEvent, FlatRecord, RecordKind, SchemaChangeEvent, classify_values
from connectors.jdbc.debezium_sink.rows import RecordSchemas
from connectors.jdbc.debezium_sink.table_plans import (
    DeletePlan,
    TargetDatabase,
    WritePlan,
    plan_deletes,
    plan_truncate,
    plan_writes,
)
from connectors.jdbc.sink.row_changes import Reject, RowChanges
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)

_WRITES = frozenset("cru")
_SKIPPED = {"m": "logical messages of the database are no rows"}

_Run = tuple[RecordSchemas, Sequence[SinkRecord]]


class DebeziumPlanner:
    """Implements :class:`connectors.jdbc.sink.row_changes.ChangePlanner`. Caches a planner per topic and schemas."""

    def __init__(self, config: DebeziumPlannerConfig, target: TargetDatabase, parse_name: Callable[[str], TableName]) -> None:
        self._config = config
        self._target = target
        self._parse_name = parse_name
        self._planners: dict[RecordSchemas, _RecordPlanner] = {}
        self._tables: dict[tuple[str, tuple[str, ...]], TableName] = {}
        self._warned: set[tuple[str, str]] = set()

    def plan(self, records: Sequence[SinkRecord], reject: Reject) -> list[RowChanges]:
        found: list[RowChanges] = []
        for schemas, run in _runs(records, with_headers=self._config.key_mode is DebeziumKeyMode.RECORD_HEADER):
            planner = self._planners.get(schemas)
            if planner is None:
                planner = self._planners[schemas] = _RecordPlanner(self, self._config, self._target, schemas)
            if run[0].value is None:
                found += planner.plan_tombstones(run, reject)
            else:
                found += planner.plan_values(run, reject)
        return found

    def table(self, topic: str, source: tuple[str, ...] = ()) -> TableName:
        """Returns the table of a topic's records. Raises ConfigError if its name is invalid."""
        found = self._tables.get((topic, source))
        if found is None:
            name = self._config.names.name_for(topic, source)
            try:
                parsed = self._parse_name(name)
            except ConfigError as e:
                raise ConfigError(f"Topic {topic!r} has no table: {e.message}; set its name with collection.name.format") from e
            found = self._tables[topic, source] = self._target.identifier_case.table(parsed)
        return found

    def skip(self, records: Sequence[SinkRecord], reason: str) -> None:
        """Skips records that are no row changes; warns once per topic and reason."""
        first = records[0]
        if (first.topic, reason) not in self._warned:
            self._warned.add((first.topic, reason))
            log.warning(
                "Ignored the record of topic '%s' partition '%s' offset '%s', and will ignore more of its kind: %s",
                first.topic, first.partition, first.offset, reason,
            )  # fmt: skip


class _RecordPlanner:
    """Plans records with the same topic and schemas."""

    def __init__(
        self, planner: DebeziumPlanner, config: DebeziumPlannerConfig, target: TargetDatabase, schemas: RecordSchemas
    ) -> None:
        self._planner = planner
        self._config = config
        self._target = target
        self._schemas = schemas
        self._record_kind: RecordKind | str = classify_values(config, schemas.value)
        self._writes: dict[TableName, WritePlan | str] = {}
        self._deletes: dict[TableName, DeletePlan | str] = {}
        self._read_source = self._compile_source_reader()

    def plan_tombstones(self, records: Sequence[SinkRecord], reject: Reject) -> list[RowChanges]:
        """Plans records without a value. As in Debezium, they delete rows only with ``record_key``."""
        config = self._config
        if not config.deletes or config.key_mode is not DebeziumKeyMode.RECORD_KEY:
            return []
        if config.names.source_fields:
            self._planner.skip(records, "a tombstone has no source block, and collection.name.format has fields of it")
            return []
        return self._plan_deletes(self._planner.table(self._schemas.topic), records, None, reject)

    def plan_values(self, records: Sequence[SinkRecord], reject: Reject) -> list[RowChanges]:
        kind = self._record_kind
        if isinstance(kind, str):
            for record in records:
                reject(record, DataError(f"The record cannot become a row: {kind}"))
            return []
        if isinstance(kind, SchemaChangeEvent):
            self._planner.skip(
                records, "it is a schema change event; remove its topic, because row events have all that is needed"
            )
            return []
        if isinstance(kind, FlatRecord):
            if self._config.names.source_fields:
                self._planner.skip(records, "it isn't a Debezium record, so fields of its source cannot name a table")
                return []
            return self._plan_writes(
                self._planner.table(self._schemas.topic), records, kind.schema, kind.row, reject, updates=True
            )
        return self._plan_events(kind, records, reject)

    # --- change events

    def _plan_events(self, event: ChangeEvent, records: Sequence[SinkRecord], reject: Reject) -> list[RowChanges]:
        if self._read_source is None:
            return self._plan_table_events(event, self._planner.table(self._schemas.topic), records, reject)
        found: list[RowChanges] = []
        for source, run in _group_runs(records, self._read_source):
            missing = [name for name, value in zip(self._config.names.source_fields, source, strict=True) if value is None]
            if missing:
                for record in run:
                    text = f"collection.name.format has ${{source.{missing[0]}}}, which the event's source does not have"
                    reject(record, SchemaError(text))
                continue
            table = self._planner.table(self._schemas.topic, tuple(map(str, source)))
            found += self._plan_table_events(event, table, run, reject)
        return found

    def _plan_table_events(
        self, event: ChangeEvent, table: TableName, records: Sequence[SinkRecord], reject: Reject
    ) -> list[RowChanges]:
        ops = event.ops(records)
        kinds = set(ops)
        if kinds <= _WRITES:
            return self._plan_rows_after(event, table, records, reject, updates="u" in kinds)
        found: list[RowChanges] = []
        first = 0
        while first < len(records):
            op, end = ops[first], first + 1
            while end < len(records) and (ops[end] == op or (ops[end] in _WRITES and op in _WRITES)):
                end += 1
            found += self._plan_operation(event, table, str(op), records[first:end], reject)
            first = end
        return found

    def _plan_operation(
        self, event: ChangeEvent, table: TableName, op: str, records: Sequence[SinkRecord], reject: Reject
    ) -> list[RowChanges]:
        if op in _WRITES:
            return self._plan_rows_after(event, table, records, reject, updates=True)
        if op == "d":
            return self._plan_deletes(table, records, event, reject) if self._config.deletes else []
        if op == "t":
            return [plan_truncate(table, records)] if self._config.truncates else []
        if op in _SKIPPED:
            self._planner.skip(records, _SKIPPED[op])
            return []
        for record in records:
            reject(record, DataError(f"The change event has op {op!r}; expected c, r, u, d, t or m"))
        return []

    def _plan_rows_after(
        self, event: ChangeEvent, table: TableName, records: Sequence[SinkRecord], reject: Reject, *, updates: bool
    ) -> list[RowChanges]:
        if event.after < 0:
            for record in records:
                reject(record, DataError("The change event has no struct field 'after'"))
            return []
        row = f"{event.code}[{event.after}]"
        return self._plan_writes(table, records, event.row_schema, f"{row}.values", reject, updates=updates)

    # --- rows

    def _plan_writes(
        self, table: TableName, records: Sequence[SinkRecord], schema: Any, row: str, reject: Reject, *, updates: bool
    ) -> list[RowChanges]:
        plan = self._writes.get(table)
        if plan is None:
            try:
                plan = plan_writes(self._config, self._schemas, table, self._target, schema, row)
            except SchemaError as e:
                plan = e.message
            self._writes[table] = plan
        if isinstance(plan, str):
            return _reject_all(records, SchemaError(plan), reject)
        return _skip_incomplete(plan.updates if updates else plan.changes, records, reject)

    def _plan_deletes(
        self, table: TableName, records: Sequence[SinkRecord], event: ChangeEvent | None, reject: Reject
    ) -> list[RowChanges]:
        plan = self._deletes.get(table)
        if plan is None:
            try:
                plan = self._create_delete_plan(table, event)
            except SchemaError as e:
                plan = e.message
            self._deletes[table] = plan
        if isinstance(plan, str):
            return _reject_all(records, SchemaError(plan), reject)
        return _skip_incomplete(plan.changes, records, reject)

    def _create_delete_plan(self, table: TableName, event: ChangeEvent | None) -> DeletePlan:
        if self._config.key_mode is not DebeziumKeyMode.RECORD_VALUE:
            return plan_deletes(self._config, self._schemas, table, self._target, None, "")
        if event is None or event.before is None:
            raise SchemaError("Cannot extract primary key from a null record value")
        assert event.schema.fields is not None
        row = event.schema.fields[event.before].schema
        return plan_deletes(self._config, self._schemas, table, self._target, row, f"{event.code}[{event.before}].values")

    def _compile_source_reader(self) -> Callable[[SinkRecord], tuple[Any, ...]] | None:
        """Compiles a function that reads the source fields of the table's name; None if the name has none."""
        names, kind = self._config.names.source_fields, self._record_kind
        if not names or not isinstance(kind, ChangeEvent):
            return None
        source = kind.schema.field("source")
        members = [source.schema.field(name) if source is not None and source.schema.fields else None for name in names]
        if source is None or None in members:
            return lambda record: (None,) * len(names)
        values = ", ".join(f"s[{member.index}]" for member in members if member is not None)
        read_source: Callable[[SinkRecord], tuple[Any, ...]] = evaluate(
            f"lambda r: [({values},) for s in ({kind.code}[{source.index}].values,)][0]", title="source fields"
        )
        return read_source


def _reject_all(records: Sequence[SinkRecord], error: ConnectError, reject: Reject) -> list[RowChanges]:
    for record in records:
        reject(record, error)
    return []


def _skip_incomplete(
    changes: Callable[[Sequence[SinkRecord]], list[RowChanges]], records: Sequence[SinkRecord], reject: Reject
) -> list[RowChanges]:
    """Returns the changes; rejects records that lack the key or row that their schemas promise."""
    try:
        return changes(records)
    except (AttributeError, TypeError):
        found: list[RowChanges] = []
        for record in records:
            try:
                found += changes([record])
            except (AttributeError, TypeError):
                reject(
                    record, DataError("The record lacks its key, or its event lacks the row ('after', or 'before' of a delete)")
                )
        return found


def _group_runs(
    records: Sequence[SinkRecord], by: Callable[[SinkRecord], tuple[Any, ...]]
) -> Iterator[tuple[tuple[Any, ...], Sequence[SinkRecord]]]:
    start, current = 0, by(records[0])
    for index, record in enumerate(records):
        one = by(record)
        if one != current:
            yield current, records[start:index]
            start, current = index, one
    yield current, records[start:]


def _runs(records: Sequence[SinkRecord], *, with_headers: bool) -> Iterator[_Run]:
    """Splits records into runs with the same topic, schemas, and presence of values."""
    start = 0
    first = records[0]
    headers = _header_schemas(first) if with_headers else ()
    for index, record in enumerate(records):
        if (
            record.value_schema is not first.value_schema
            or record.key_schema is not first.key_schema
            or record.topic != first.topic
            or (record.value is None) is not (first.value is None)
            or (with_headers and _header_schemas(record) != headers)
        ):
            yield RecordSchemas(first.topic, first.key_schema, first.value_schema, headers), records[start:index]
            start, first = index, record
            headers = _header_schemas(first) if with_headers else ()
    yield RecordSchemas(first.topic, first.key_schema, first.value_schema, headers), records[start:] if start else records


def _header_schemas(record: SinkRecord) -> tuple[Any, ...]:
    return tuple((header.key, header.schema) for header in record.headers or ())
