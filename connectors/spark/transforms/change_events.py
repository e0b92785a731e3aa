"""Compiles ExtractNewRecordState."""

from __future__ import annotations

from dataclasses import replace

from connect.change_events.envelope import AFTER, BEFORE, is_envelope_schema
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.record import SinkRecord
from connect.transforms.debezium.extract_config import DeleteHandling, FieldReference, read_config
from connect.transforms.debezium.extract_new_record_state import ExtractNewRecordState
from connect.transforms.structs import require_fields
from connectors.spark.transforms.branches import VALUE, Branch, Datum, Nullness, member_of
from connectors.spark.transforms.errors import NotCompilable
from connectors.spark.transforms.sql import quote_text
from connectors.spark.transforms.step import CompiledStep
from connectors.spark.transforms.stored_types import example_value

_REWRITE_MODES = (DeleteHandling.REWRITE, DeleteHandling.REWRITE_WITH_TOMBSTONE)


def extract_new_record_state(step: CompiledStep, branch: Branch) -> list[Branch]:
    assert isinstance(step.transformation, ExtractNewRecordState)
    config = read_config(step.settings)
    if config.headers or config.drop_fields_header or config.route_by_field:
        raise NotCompilable("it adds or reads headers, or routes by a field")
    if branch.value.nullness is Nullness.NULL:
        return [replace(branch, dropped=config.deletes is not DeleteHandling.REWRITE_WITH_TOMBSTONE)]
    envelope = branch.value.require_schema(VALUE)
    if not is_envelope_schema(envelope):
        return [branch]
    members = branch.value.read_members()
    after, before = envelope.field(AFTER), envelope.field(BEFORE)
    if after is None or before is None or before.schema != after.schema or after.schema.type is not Type.STRUCT:
        raise NotCompilable("the event has no rows before and after the change of the same schema")
    after_sql, before_sql = members[after.index], members[before.index]
    changed = branch.where_present(after_sql)
    deleted = branch.where(f"{after_sql} IS NULL").where_present(before_sql)
    truncated = replace(branch.where(f"{after_sql} IS NULL").where(f"{before_sql} IS NULL"), dropped=True)
    added = [_read(ref, envelope, members) for ref in config.fields if ref.find_in_schema(envelope) is not None]
    replaces_null = config.deletes in _REWRITE_MODES and config.replace_null

    def set_row(selected: Branch, row: Schema, sql: str, mark: str) -> Branch:
        schema = _row_schema(step, envelope, row)
        fields = require_fields(row)
        selected, read = selected.fill_nulls(fields, [member_of(sql, f) for f in fields], replace_null=replaces_null)
        marks = [quote_text(mark)] if config.deletes in _REWRITE_MODES else []
        return selected.with_datum(VALUE, Datum.of_members(schema, [*read, *marks, *added]))

    changed = set_row(changed, after.schema, after_sql, "false")
    match config.deletes:
        case DeleteHandling.DROP:
            deleted = replace(deleted, dropped=True)
        case DeleteHandling.DELETE_TO_TOMBSTONE:
            deleted = deleted.with_datum(VALUE, Datum.null(None))
        case DeleteHandling.TOMBSTONE:
            deleted = deleted.with_datum(VALUE, Datum.null(after.schema))
        case _:
            deleted = set_row(deleted, before.schema, before_sql, "true")
    return [changed, deleted, truncated]


def _row_schema(step: CompiledStep, envelope: Schema, row: Schema) -> Schema:
    """The schema that the transformation gives rows; rows before and after a change get the same."""
    event = Struct(envelope, [example_value(f.schema) for f in require_fields(envelope)])
    unwrapped = step.transformation.apply(SinkRecord("t", 0, None, None, envelope, event, 0))
    assert unwrapped is not None
    assert unwrapped.value_schema is not None
    return unwrapped.value_schema


def _read(reference: FieldReference, envelope: Schema, members: list[str]) -> str:
    """The value of an added field."""
    own = envelope.field(reference.field)
    if reference.block is None:
        assert own is not None
        return members[own.index]
    block = envelope.field(reference.block)
    assert block is not None
    inner = block.schema.field(reference.field)
    if inner is not None:
        return member_of(members[block.index], inner)
    assert own is not None
    return f"CASE WHEN {members[block.index]} IS NOT NULL THEN {members[own.index]} END"
