"""Plans a batch for the tables by the rules of Debezium's sink."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from connect.errors import ConfigError, ConnectError, DataError, SchemaError
from connect.generated_code import evaluate
from connect.record import SinkRecord
from connectors.jdbc.debezium_sink.record_kinds import Envelope, Flat, Form, SchemaChange, form_of
from connectors.jdbc.debezium_sink.rows import Kind
from connectors.jdbc.debezium_sink.rules import KeyMode, Rules
from connectors.jdbc.debezium_sink.table_plans import DeletePlan, Target, WritePlan, delete_plan, truncation, write_plan
from connectors.jdbc.sink.row_changes import Changes, Refuse
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)

_READS_AND_CREATES = frozenset("rc")
_WRITES = frozenset("cru")
_OTHERS = {"m": "logical messages of the database, which are no rows"}

_Run = tuple[Kind, Sequence[SinkRecord]]


class DebeziumPlanner:
    """Implements :class:`connectors.jdbc.sink.row_changes.Planner`. What is found out about a kind of records is kept."""

    def __init__(self, rules: Rules, target: Target, parse_name: Callable[[str], TableName]) -> None:
        self._rules = rules
        self._target = target
        self._parse_name = parse_name
        self._readers: dict[Kind, _Reader] = {}
        self._tables: dict[tuple[str, tuple[str, ...]], TableName] = {}
        self._warned: set[tuple[str, str]] = set()

    def plan(self, records: Sequence[SinkRecord], refuse: Refuse) -> list[Changes]:
        found: list[Changes] = []
        for kind, run in _runs(records, with_headers=self._rules.key_mode is KeyMode.RECORD_HEADER):
            reader = self._readers.get(kind)
            if reader is None:
                reader = self._readers[kind] = _Reader(self, self._rules, self._target, kind)
            if run[0].value is None:
                found += reader.tombstones(run, refuse)
            else:
                found += reader.values(run, refuse)
        return found

    def table(self, topic: str, source: tuple[str, ...] = ()) -> TableName:
        """The table of a topic's records. Raises ConfigError for a name that is none."""
        found = self._tables.get((topic, source))
        if found is None:
            name = self._rules.names.name_for(topic, source)
            try:
                parsed = self._parse_name(name)
            except ConfigError as e:
                raise ConfigError(f"Topic {topic!r} has no table: {e.message}; collection.name.format makes a name of it") from e
            found = self._tables[topic, source] = self._target.folding.table(parsed)
        return found

    def skip(self, records: Sequence[SinkRecord], why: str) -> None:
        """Records that are no changes of rows; told once a topic."""
        first = records[0]
        if (first.topic, why) not in self._warned:
            self._warned.add((first.topic, why))
            log.warning(
                "Ignored the record of topic '%s' partition '%s' offset '%s', and will ignore more of its kind: %s",
                first.topic, first.partition, first.offset, why,
            )  # fmt: skip


class _Reader:
    """The records of one kind."""

    def __init__(self, planner: DebeziumPlanner, rules: Rules, target: Target, kind: Kind) -> None:
        self._planner = planner
        self._rules = rules
        self._target = target
        self._kind = kind
        self._form: Form | str = form_of(rules, kind.value)
        self._writes: dict[TableName, WritePlan | str] = {}
        self._deletes: dict[TableName, DeletePlan | str] = {}
        self._source = self._source_places()

    def tombstones(self, records: Sequence[SinkRecord], refuse: Refuse) -> list[Changes]:
        """Records without a value. As in the original they only mean something to the key."""
        rules = self._rules
        if not rules.deletes or rules.key_mode is not KeyMode.RECORD_KEY:
            return []
        if rules.names.source_fields:
            self._planner.skip(records, "a tombstone has no source, and collection.name.format asks for fields of it")
            return []
        return self._deleted(self._planner.table(self._kind.topic), records, None, refuse)

    def values(self, records: Sequence[SinkRecord], refuse: Refuse) -> list[Changes]:
        form = self._form
        if isinstance(form, str):
            for record in records:
                refuse(record, DataError(f"The record cannot become a row: {form}"))
            return []
        if isinstance(form, SchemaChange):
            self._planner.skip(records, "it is a schema change event; leave its topic out, the rows' topics say what is needed")
            return []
        if isinstance(form, Flat):
            if self._rules.names.source_fields:
                self._planner.skip(records, "it isn't a Debezium record, so that fields of its source cannot name a table")
                return []
            return self._written(self._planner.table(self._kind.topic), records, form.schema, form.row, refuse, updates=True)
        return self._events(form, records, refuse)

    # --- change events

    def _events(self, form: Envelope, records: Sequence[SinkRecord], refuse: Refuse) -> list[Changes]:
        if self._source is None:
            return self._of_table(form, self._planner.table(self._kind.topic), records, refuse)
        found: list[Changes] = []
        for source, run in _grouped(records, self._source):
            missing = [name for name, value in zip(self._rules.names.source_fields, source, strict=True) if value is None]
            if missing:
                for record in run:
                    text = f"collection.name.format has ${{source.{missing[0]}}}, which the event's source has not"
                    refuse(record, SchemaError(text))
                continue
            table = self._planner.table(self._kind.topic, tuple(map(str, source)))
            found += self._of_table(form, table, run, refuse)
        return found

    def _of_table(self, form: Envelope, table: TableName, records: Sequence[SinkRecord], refuse: Refuse) -> list[Changes]:
        ops = form.ops(records)
        kinds = set(ops)
        if kinds <= _WRITES:
            return self._rows_after(form, table, records, refuse, updates="u" in kinds)
        found: list[Changes] = []
        first = 0
        while first < len(records):
            op, end = ops[first], first + 1
            while end < len(records) and (ops[end] == op or (ops[end] in _WRITES and op in _WRITES)):
                end += 1
            found += self._of_op(form, table, str(op), records[first:end], refuse)
            first = end
        return found

    def _of_op(self, form: Envelope, table: TableName, op: str, records: Sequence[SinkRecord], refuse: Refuse) -> list[Changes]:
        if op in _WRITES:
            return self._rows_after(form, table, records, refuse, updates=True)
        if op == "d":
            return self._deleted(table, records, form, refuse) if self._rules.deletes else []
        if op == "t":
            return [truncation(table, records)] if self._rules.truncates else []
        if op in _OTHERS:
            self._planner.skip(records, _OTHERS[op])
            return []
        for record in records:
            refuse(record, DataError(f"The change event has op {op!r}; expected c, r, u, d, t or m"))
        return []

    def _rows_after(
        self, form: Envelope, table: TableName, records: Sequence[SinkRecord], refuse: Refuse, *, updates: bool
    ) -> list[Changes]:
        if form.after < 0:
            for record in records:
                refuse(record, DataError("The change event has no field 'after' that is a struct"))
            return []
        row = f"{form.event}[{form.after}]"
        return self._written(table, records, form.row_schema, f"{row}.values", refuse, updates=updates)

    # --- rows

    def _written(
        self, table: TableName, records: Sequence[SinkRecord], schema: Any, row: str, refuse: Refuse, *, updates: bool
    ) -> list[Changes]:
        plan = self._writes.get(table)
        if plan is None:
            try:
                plan = write_plan(self._rules, self._kind, table, self._target, schema, row)
            except SchemaError as e:
                plan = e.message
            self._writes[table] = plan
        if isinstance(plan, str):
            return _refused(records, SchemaError(plan), refuse)
        whole = plan
        return _without_gaps(lambda those: (whole.updates if updates else whole.changes)(those), records, refuse)

    def _deleted(self, table: TableName, records: Sequence[SinkRecord], form: Envelope | None, refuse: Refuse) -> list[Changes]:
        plan = self._deletes.get(table)
        if plan is None:
            try:
                plan = self._delete_plan(table, form)
            except SchemaError as e:
                plan = e.message
            self._deletes[table] = plan
        if isinstance(plan, str):
            return _refused(records, SchemaError(plan), refuse)
        return _without_gaps(plan.changes, records, refuse)

    def _delete_plan(self, table: TableName, form: Envelope | None) -> DeletePlan:
        if self._rules.key_mode is not KeyMode.RECORD_VALUE:
            return delete_plan(self._rules, self._kind, table, self._target, None, "")
        if form is None or form.before is None:
            raise SchemaError("Cannot extract primary key from a null record value")
        assert form.schema.fields is not None
        row = form.schema.fields[form.before].schema
        return delete_plan(self._rules, self._kind, table, self._target, row, f"{form.event}[{form.before}].values")

    def _source_places(self) -> Callable[[SinkRecord], tuple[Any, ...]] | None:
        """Gives the values of an event that its table's name has; None when it has none."""
        names, form = self._rules.names.source_fields, self._form
        if not names or not isinstance(form, Envelope):
            return None
        source = form.schema.field("source")
        members = [source.schema.field(name) if source is not None and source.schema.fields else None for name in names]
        if source is None or None in members:
            return lambda record: (None,) * len(names)
        places = ", ".join(f"s[{member.index}]" for member in members if member is not None)
        made: Callable[[SinkRecord], tuple[Any, ...]] = evaluate(
            f"lambda r: [({places},) for s in ({form.event}[{source.index}].values,)][0]", title="source fields"
        )
        return made


def _refused(records: Sequence[SinkRecord], error: ConnectError, refuse: Refuse) -> list[Changes]:
    for record in records:
        refuse(record, error)
    return []


def _without_gaps(
    changes: Callable[[Sequence[SinkRecord]], list[Changes]], records: Sequence[SinkRecord], refuse: Refuse
) -> list[Changes]:
    """The changes of records, without those that lack the key or the row that their schemas promise."""
    try:
        return changes(records)
    except (AttributeError, TypeError):
        found: list[Changes] = []
        for record in records:
            try:
                found += changes([record])
            except (AttributeError, TypeError):
                refuse(record, DataError("The record lacks its key, or its event lacks the row ('after', of deletes 'before')"))
        return found


def _grouped(
    records: Sequence[SinkRecord], by: Callable[[SinkRecord], tuple[Any, ...]]
) -> Iterator[tuple[tuple[Any, ...], Sequence[SinkRecord]]]:
    start, current = 0, by(records[0])
    for at, record in enumerate(records):
        one = by(record)
        if one != current:
            yield current, records[start:at]
            start, current = at, one
    yield current, records[start:]


def _runs(records: Sequence[SinkRecord], *, with_headers: bool) -> Iterator[_Run]:
    """The records in runs of one kind, with values or without."""
    start = 0
    first = records[0]
    headers = _header_schemas(first) if with_headers else ()
    for at, record in enumerate(records):
        if (
            record.value_schema is not first.value_schema
            or record.key_schema is not first.key_schema
            or record.topic != first.topic
            or (record.value is None) is not (first.value is None)
            or (with_headers and _header_schemas(record) != headers)
        ):
            yield Kind(first.topic, first.key_schema, first.value_schema, headers), records[start:at]
            start, first = at, record
            headers = _header_schemas(first) if with_headers else ()
    yield Kind(first.topic, first.key_schema, first.value_schema, headers), records[start:] if start else records


def _header_schemas(record: SinkRecord) -> tuple[Any, ...]:
    return tuple((header.key, header.schema) for header in record.headers or ())
