"""ExtractNewRecordState: replaces a change event by the row after the change."""

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
from connect.transforms.debezium.extract_config import (
    CONFIG_DEF,
    DeleteHandling,
    ExtractConfig,
    FieldReference,
    ReadValues,
    read_config,
)
from connect.transforms.record_copies import copy_record
from connect.transforms.replace_field import ReplaceFieldKey, ReplaceFieldValue
from connect.transforms.structs import copier, new_struct, require_fields, require_struct_of, struct_schema_like

DELETED_FIELD = "__deleted"
PURPOSE = "source field insertion"
_MAX_PLANS = 64
_REWRITE_MODES = (DeleteHandling.REWRITE, DeleteHandling.REWRITE_WITH_TOMBSTONE)


@dataclass(frozen=True, slots=True)
class _RowPlan:
    """How the row before or after is converted: the new schema, and the values from row values, deleted mark, and event."""

    row: Schema
    schema: Schema
    values: Callable[[list[Any], str, list[Any]], list[Any]]


@dataclass(slots=True)
class _EventPlan:
    """How events of one envelope schema are converted. Row plans are created for the first row: fields that cannot be added to
    a row are not an error for a truncate or for a delete that becomes a tombstone."""

    envelope: Schema
    after: Field
    before: Field | None
    headers: tuple[tuple[str, Schema, ReadValues], ...]
    after_row: _RowPlan | None = None
    before_row: _RowPlan | None = None


class ExtractNewRecordState(Transformation):
    """Replaces inserts, updates, and snapshot rows by ``after``, and handles deletes by ``delete.tombstone.handling.mode``.

    Truncates are dropped. Records that are not change events pass. Events without schema (maps) are unwrapped in the same way;
    in Debezium they pass.
    """

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._config: ExtractConfig = read_config(configs)
        self._rewrites_deletes = self._config.deletes in _REWRITE_MODES
        self._added_names = frozenset(one.new_name for one in self._config.fields)
        self._plans: dict[int, _EventPlan] = {}
        name = self._config.drop_fields_header
        self._dropper = (
            FieldDropper(name, self._config.drop_from_key, self._config.drop_keeps_compatible) if name else None
        )  # fmt: skip

    def close(self) -> None:
        self._plans.clear()

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        return self.apply_batch((record,))[0]

    def apply_batch(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        results: list[ConnectRecord | None] = []
        simple = self._config.route_by_field is None and self._dropper is None and not self._config.headers
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
            row = plan.after_row or self._plan_after_row(plan)
            if after.__class__ is not Struct or after.schema is not row.row:
                after = require_struct_of(row.row, after, PURPOSE)
            new = copy_record(record)
            new.value_schema = row.schema
            new.value = new_struct(row.schema, row.values(after.values, "false", event))
            results.append(new)
        return results

    # -- plans

    def _plan_for(self, schema: Schema) -> _EventPlan:
        """Returns the plan, from a bounded cache by schema identity."""
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
            tuple((one.new_name, *found) for one in self._config.headers if (found := one.find_in_schema(schema)) is not None),
        )
        if len(self._plans) >= _MAX_PLANS:
            del self._plans[next(iter(self._plans))]
        self._plans[id(schema)] = plan
        return plan

    def _plan_after_row(self, plan: _EventPlan) -> _RowPlan:
        plan.after_row = self._plan_row(plan.envelope, plan.after.schema)
        return plan.after_row

    def _plan_row(self, envelope: Schema, row: Schema) -> _RowPlan:
        if row.fields is None:
            raise DataError(f"The rows of {envelope.name} are of type {row.type.name}; expected structs")
        operation = envelope.field(OPERATION)
        if operation is None or operation.schema.type is not Type.STRING:
            raise DataError(f"A change event of schema {envelope.name} has no string field {OPERATION}")
        added = [(one.new_name, *found) for one in self._config.fields if (found := one.find_in_schema(envelope)) is not None]
        mark = [(DELETED_FIELD, Schema.OPTIONAL_STRING)] if self._rewrites_deletes else []
        fields = require_fields(row)
        schema = struct_schema_like(row, [*((f.name, f.schema) for f in fields), *mark, *((name, s) for name, s, _ in added)])
        copy = copier(fields, self._rewrites_deletes and self._config.replace_null)
        readers = [read for _, _, read in added]
        if self._rewrites_deletes:
            return _RowPlan(row, schema, lambda old, deleted, event: [*copy(old), deleted, *[read(event) for read in readers]])
        if readers:
            return _RowPlan(row, schema, lambda old, _, event: [*copy(old), *[read(event) for read in readers]])
        return _RowPlan(row, schema, lambda old, _, __: copy(old))

    # -- one record

    def _tombstone(self, record: ConnectRecord) -> ConnectRecord | None:
        if self._config.deletes is not DeleteHandling.REWRITE_WITH_TOMBSTONE:
            return None
        added = [Header(one.new_name, Schema.STRING, DELETE) for one in self._config.headers if one.field == OPERATION]
        return _add_headers(copy_record(record), added) if added else record

    def _unwrap_event(self, plan: _EventPlan, record: ConnectRecord, event: list[Any]) -> ConnectRecord | None:
        """Converts an event in the general case, in Debezium's order of steps."""
        after = event[plan.after.index]
        if after is None and plan.before is None:
            raise DataError(f"Unknown field: {BEFORE}, in a change event of schema {plan.envelope.name}")
        before = None if plan.before is None else event[plan.before.index]
        if after is None and before is None:
            return None  # a truncate
        new = _add_headers(copy_record(record), [Header(name, schema, read(event)) for name, schema, read in plan.headers])
        if after is not None:
            row = require_struct_of(plan.after.schema, after, PURPOSE)
            # When Debezium reads the topic, a rewritten row already has its defaults.
            self._route(new, row, or_default=self._rewrites_deletes and self._config.replace_null)
            self._set_row(new, plan.after_row or self._plan_after_row(plan), row, "false", event)
            return new if self._dropper is None else self._dropper.drop_fields(new)
        assert plan.before is not None
        if self._config.deletes is DeleteHandling.DROP:
            return None
        row = require_struct_of(plan.before.schema, before, PURPOSE)
        self._route(new, row, or_default=False)
        if self._rewrites_deletes:
            if plan.before_row is None:
                plan.before_row = self._plan_row(plan.envelope, plan.before.schema)
            self._set_row(new, plan.before_row, row, "true", event)
        else:
            # A delete that becomes a tombstone keeps the schema of the row, except with delete-to-tombstone.
            new.value_schema = None if self._config.deletes is DeleteHandling.DELETE_TO_TOMBSTONE else plan.after.schema
            new.value = None
        # Debezium drops fields of a delete before it adds fields; of other events, after.
        return new if self._dropper is None else self._dropper.drop_fields(new, self._added_names)

    def _set_row(self, record: Any, plan: _RowPlan, row: Struct, deleted: str, event: list[Any]) -> None:
        record.value_schema = plan.schema
        record.value = new_struct(plan.schema, plan.values(row.values, deleted, event))

    def _route(self, record: Any, row: Struct, *, or_default: bool) -> None:
        if self._config.route_by_field is not None:
            topic = text_field(row, self._config.route_by_field, "topic routing", or_default=or_default)
            if topic is not None and topic.strip():
                record.topic = topic

    def _unwrap_map(self, record: ConnectRecord, event: dict[Any, Any]) -> ConnectRecord | None:
        """Converts an event without schema."""
        after, before = event.get(AFTER), event.get(BEFORE)
        row = before if after is None else after
        if row is None:
            return None
        if not isinstance(row, dict):
            raise DataError(f"The row of a change event without schema is a value of type {type(row).__name__}; expected a map")
        if after is None and self._config.deletes is DeleteHandling.DROP:
            return None
        headers = [Header(name, None, value) for name, value in _read_members(self._config.headers, event)]
        new = _add_headers(copy_record(record), headers)
        if self._config.route_by_field is not None:
            topic = row.get(self._config.route_by_field)
            if isinstance(topic, str) and topic.strip():
                new.topic = topic
        if after is None and not self._rewrites_deletes:
            new.value = None
        else:
            mark = {DELETED_FIELD: "false" if after is not None else "true"} if self._rewrites_deletes else {}
            added = {**mark, **dict(_read_members(self._config.fields, event))}
            lost = next((name for name in added if name in row), None)
            if lost is not None and self._config.strict:
                raise DataError(f"The row has a field {lost}, which would be lost because an added field has the same name")
            new.value = {**row, **added}
        return new if self._dropper is None else self._dropper.drop_fields(new)


def _add_headers(record: Any, added: list[Header]) -> Any:
    # The record is a copy that owns its headers.
    if added:
        record.headers = Headers([*(record.headers or ()), *added])
    return record


def _read_members(references: Sequence[FieldReference], event: dict[Any, Any]) -> list[tuple[str, Any]]:
    return [(one.new_name, found[1]) for one in references if (found := one.find_in_map(event))[0]]


_MAX_REPLACERS = 64


class FieldDropper:
    """Drops the fields that a header of the record names, as ReplaceField does. If ``compatible``, required fields stay."""

    def __init__(self, header: str, from_key: bool, compatible: bool) -> None:
        self._header = header
        self._from_key = from_key
        self._compatible = compatible
        self._replacers: dict[tuple[bool, tuple[str, ...]], Transformation] = {}

    def drop_fields(self, record: ConnectRecord, retained: frozenset[str] = frozenset()) -> ConnectRecord | None:
        """Drops the fields, except those in ``retained``. Raises DataError if the header is not a list of strings."""
        header = next((h for h in record.headers or () if h.key == self._header), None)
        if header is None or header.value is None:
            return record
        if not isinstance(header.value, list) or not all(isinstance(name, str) for name in header.value):
            raise DataError(f"The header {self._header} must be a list of the fields to drop, but is {header.value!r:.80}")
        names = [name for name in header.value if name not in retained]
        current: ConnectRecord | None = record
        if self._from_key and record.key is not None:
            current = self._drop_from(record, record.key_schema, names, is_key=True)
        if current is not None and record.value is not None:
            current = self._drop_from(current, record.value_schema, names, is_key=False)
        return current

    def _drop_from(self, record: ConnectRecord, schema: Schema | None, names: list[str], *, is_key: bool) -> ConnectRecord | None:
        dropped = tuple(dict.fromkeys(names))
        if self._compatible and dropped and schema is not None:
            if schema.fields is None:
                part = "key" if is_key else "value"
                raise DataError(f"Fields cannot be dropped from the {part}: expected a struct, found {schema.type.name}")
            dropped = tuple(f.name for f in schema.fields or () if f.schema.optional and f.name in dropped)
        if not dropped:
            return record
        replacer = self._replacers.get((is_key, dropped))
        if replacer is None:
            variant: Callable[[], Any] = ReplaceFieldKey if is_key else ReplaceFieldValue
            replacer = variant()
            replacer.configure({"exclude": list(dropped)})
            if len(self._replacers) >= _MAX_REPLACERS:
                del self._replacers[next(iter(self._replacers))]
            self._replacers[is_key, dropped] = replacer
        return replacer.apply(record)
