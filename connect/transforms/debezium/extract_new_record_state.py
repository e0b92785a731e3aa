"""ExtractNewRecordState: a change event becomes the row as it is after the change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect.change_events.envelope import (
    AFTER,
    BEFORE,
    DELETE,
    OPERATION,
    envelope_struct,
    is_envelope_map,
    is_envelope_schema,
    text_field,
)
from connect.config.definition import ConfigDef
from connect.data.headers import Header, Headers
from connect.data.schema import Field, Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import ConnectRecord
from connect.transforms.api import Transformation
from connect.transforms.debezium.extract_config import CONFIG_DEF, DeleteHandling, ExtractSettings, read_settings
from connect.transforms.debezium.field_dropper import FieldDropper
from connect.transforms.debezium.field_references import FieldReference, ReadValues
from connect.transforms.record_copies import copy_record
from connect.transforms.structs import copier, new_struct, require_fields, require_struct_of, struct_schema_like

DELETED_FIELD = "__deleted"
PURPOSE = "source field insertion"
_MAX_PLANS = 64
_REWRITES = (DeleteHandling.REWRITE, DeleteHandling.REWRITE_WITH_TOMBSTONE)


@dataclass(frozen=True, slots=True)
class _RowPlan:
    """What becomes of one of the two rows: the new schema, and the new values from the row's, the mark and the envelope's."""

    row: Schema
    schema: Schema
    values: Callable[[list[Any], str, list[Any]], list[Any]]


@dataclass(slots=True)
class _EventPlan:
    """What becomes of events of one envelope schema. The plans of its rows are made when the first row is to be put: what
    cannot be added to a row is no matter to a truncate, nor to a delete that becomes a tombstone."""

    envelope: Schema
    after: Field
    before: Field | None
    headers: tuple[tuple[str, Schema, ReadValues], ...]
    after_row: _RowPlan | None = None
    before_row: _RowPlan | None = None


class ExtractNewRecordState(Transformation):
    """Inserts, updates and snapshot rows become ``after``; deletes and tombstones what ``delete.tombstone.handling.mode`` says.

    Truncates are dropped. What is no change event passes. Events without schema, as maps, are taken apart in the same way; the
    original lets them pass.
    """

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._settings: ExtractSettings = read_settings(configs)
        self._rewrites = self._settings.deletes in _REWRITES
        self._added_names = frozenset(one.new_name for one in self._settings.fields)
        self._plans: dict[int, _EventPlan] = {}
        name = self._settings.drop_fields_header
        self._dropper = (
            FieldDropper(name, self._settings.drop_from_key, self._settings.drop_keeps_compatible) if name else None
        )  # fmt: skip

    def close(self) -> None:
        self._plans.clear()

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        return self.apply_batch((record,))[0]

    def apply_batch(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        results: list[ConnectRecord | None] = []
        simple = self._settings.route_by_field is None and self._dropper is None and not self._settings.headers
        last: Schema | None = None
        plan: _EventPlan | None = None
        for record in records:
            value, schema = record.value, record.value_schema
            if value is None:
                results.append(self._tombstone(record))
                continue
            if plan is None or schema is not last:
                if schema is None or not is_envelope_schema(schema):
                    results.append(self._unwrap_map(record, value) if is_envelope_map(schema, value) else record)
                    continue
                plan, last = self._plan_for(schema), schema
            event = envelope_struct(plan.envelope, value).values
            after = event[plan.after.index]
            if after is None or not simple:
                results.append(self._unwrap_event(plan, record, event))
                continue
            row = plan.after_row or self._after_row(plan)
            if after.__class__ is not Struct or after.schema is not row.row:
                after = require_struct_of(row.row, after, PURPOSE)
            new = copy_record(record)
            new.value_schema = row.schema
            new.value = new_struct(row.schema, row.values(after.values, "false", event))
            results.append(new)
        return results

    # -- plans

    def _plan_for(self, schema: Schema) -> _EventPlan:
        """From the cache, which goes by identity and is bounded, or compiled now."""
        known = self._plans.get(id(schema))
        if known is not None:
            return known
        after, before = schema.field(AFTER), schema.field(BEFORE)
        if after is None:
            raise DataError(f"Unknown field: {AFTER}, in a change event of schema {schema.name}")
        plan = _EventPlan(
            schema,
            after,
            before,
            tuple((one.new_name, *found) for one in self._settings.headers if (found := one.in_schema(schema)) is not None),
        )
        if len(self._plans) >= _MAX_PLANS:
            del self._plans[next(iter(self._plans))]
        self._plans[id(schema)] = plan
        return plan

    def _after_row(self, plan: _EventPlan) -> _RowPlan:
        plan.after_row = self._row_plan(plan.envelope, plan.after.schema)
        return plan.after_row

    def _row_plan(self, envelope: Schema, row: Schema) -> _RowPlan:
        if row.fields is None:
            raise DataError(
                f"The rows of {envelope.name} are of type {row.type.name} and no structs, so they cannot be taken out"
            )
        operation = envelope.field(OPERATION)
        if operation is None or operation.schema.type is not Type.STRING:
            raise DataError(f"A change event of schema {envelope.name} has no text {OPERATION} that tells the operation")
        added = [(one.new_name, *found) for one in self._settings.fields if (found := one.in_schema(envelope)) is not None]
        mark = [(DELETED_FIELD, Schema.OPTIONAL_STRING)] if self._rewrites else []
        fields = require_fields(row)
        schema = struct_schema_like(row, [*((f.name, f.schema) for f in fields), *mark, *((name, s) for name, s, _ in added)])
        copy = copier(fields, self._rewrites and self._settings.replace_null)
        readers = [read for _, _, read in added]
        if self._rewrites:
            return _RowPlan(row, schema, lambda old, deleted, event: [*copy(old), deleted, *[read(event) for read in readers]])
        if readers:
            return _RowPlan(row, schema, lambda old, _, event: [*copy(old), *[read(event) for read in readers]])
        return _RowPlan(row, schema, lambda old, _, __: copy(old))

    # -- one record

    def _tombstone(self, record: ConnectRecord) -> ConnectRecord | None:
        if self._settings.deletes is not DeleteHandling.REWRITE_WITH_TOMBSTONE:
            return None
        added = [Header(one.new_name, Schema.STRING, DELETE) for one in self._settings.headers if one.field == OPERATION]
        return _with_headers(copy_record(record), added) if added else record

    def _unwrap_event(self, plan: _EventPlan, record: ConnectRecord, event: list[Any]) -> ConnectRecord | None:
        """All that there may be to do, step by step in the original's order."""
        after = event[plan.after.index]
        if after is None and plan.before is None:
            raise DataError(f"Unknown field: {BEFORE}, in a change event of schema {plan.envelope.name}")
        before = None if plan.before is None else event[plan.before.index]
        if after is None and before is None:
            return None  # a truncate
        new = _with_headers(copy_record(record), [Header(name, schema, read(event)) for name, schema, read in plan.headers])
        if after is not None:
            row = require_struct_of(plan.after.schema, after, PURPOSE)
            # A row that was rewritten has its defaults by the time at which the original reads the topic.
            self._route(new, row, or_default=self._rewrites and self._settings.replace_null)
            self._put_row(new, plan.after_row or self._after_row(plan), row, "false", event)
            return new if self._dropper is None else self._dropper.dropped(new)
        assert plan.before is not None
        if self._settings.deletes is DeleteHandling.DROP:
            return None
        row = require_struct_of(plan.before.schema, before, PURPOSE)
        self._route(new, row, or_default=False)
        if self._rewrites:
            if plan.before_row is None:
                plan.before_row = self._row_plan(plan.envelope, plan.before.schema)
            self._put_row(new, plan.before_row, row, "true", event)
        else:
            # A delete that becomes a tombstone keeps the row's schema, unless it is to be a tombstone in form too.
            new.value_schema = None if self._settings.deletes is DeleteHandling.DELETE_TO_TOMBSTONE else plan.after.schema
            new.value = None
        # The original drops fields of a delete before it adds others, and of other events after.
        return new if self._dropper is None else self._dropper.dropped(new, self._added_names)

    def _put_row(self, record: Any, plan: _RowPlan, row: Struct, deleted: str, event: list[Any]) -> None:
        record.value_schema = plan.schema
        record.value = new_struct(plan.schema, plan.values(row.values, deleted, event))

    def _route(self, record: Any, row: Struct, *, or_default: bool) -> None:
        if self._settings.route_by_field is not None:
            topic = text_field(row, self._settings.route_by_field, "topic routing", or_default=or_default)
            if topic is not None and topic.strip():
                record.topic = topic

    def _unwrap_map(self, record: ConnectRecord, event: dict[Any, Any]) -> ConnectRecord | None:
        """The same for an event without schema."""
        after, before = event.get(AFTER), event.get(BEFORE)
        row = before if after is None else after
        if row is None:
            return None
        if not isinstance(row, dict):
            raise DataError(f"The row of a change event without schema is {type(row).__name__}, and a map is needed")
        if after is None and self._settings.deletes is DeleteHandling.DROP:
            return None
        headers = [Header(name, None, value) for name, value in _members(self._settings.headers, event)]
        new = _with_headers(copy_record(record), headers)
        if self._settings.route_by_field is not None:
            topic = row.get(self._settings.route_by_field)
            if isinstance(topic, str) and topic.strip():
                new.topic = topic
        if after is None and not self._rewrites:
            new.value = None
        else:
            mark = {DELETED_FIELD: "false" if after is not None else "true"} if self._rewrites else {}
            added = {**mark, **dict(_members(self._settings.fields, event))}
            lost = next((name for name in added if name in row), None)
            if lost is not None and self._settings.strict:
                raise DataError(f"The row has a field {lost}, which would be lost: an added field has the same name")
            new.value = {**row, **added}
        return new if self._dropper is None else self._dropper.dropped(new)


def _with_headers(record: Any, added: list[Header]) -> Any:
    # The record is a copy with headers of its own.
    if added:
        record.headers = Headers([*(record.headers or ()), *added])
    return record


def _members(references: Sequence[FieldReference], event: dict[Any, Any]) -> list[tuple[str, Any]]:
    return [(one.new_name, found[1]) for one in references if (found := one.in_map(event))[0]]
