"""Compiles the transformations that move, add, and remove fields."""

from __future__ import annotations

from dataclasses import replace

from connect.data.schema import Field, Schema, Type
from connect.errors import DataError
from connect.record import SinkRecord
from connect.transforms.config import FIELD, FIELDS
from connect.transforms.extract_field import ExtractField, parse_field_path
from connect.transforms.flatten import Flatten
from connect.transforms.header_from import HeaderFrom
from connect.transforms.hoist_field import HoistField
from connect.transforms.insert_field import InsertField
from connect.transforms.mask_field import MaskField
from connect.transforms.replace_field import ReplaceField, parse_renames
from connect.transforms.set_schema_metadata import SetSchemaMetadata
from connect.transforms.structs import require_fields
from connect.transforms.value_to_key import ValueToKey
from connectors.spark.transforms.branches import KEY, AddedHeader, Branch, Datum, Nullness, member_of
from connectors.spark.transforms.errors import NotCompilable
from connectors.spark.transforms.sql import quote_text
from connectors.spark.transforms.step import CompiledStep
from connectors.spark.transforms.stored_types import example_value, literal


def replace_field(step: CompiledStep, branch: Branch) -> list[Branch]:
    assert isinstance(step.transformation, ReplaceField)
    schema, changed = step.schemas(branch)
    values = step.values
    renames = parse_renames(values["renames"])
    excluded, included = set(values["exclude"]), set(values["include"])
    originals: dict[str, list[str]] = {}
    for old, new in renames.items():
        originals.setdefault(new, []).append(old)
    selected = [f for f in require_fields(schema) if f.name not in excluded and (not included or f.name in included)]
    for source, target in zip(selected, require_fields(changed), strict=True):
        if originals.get(target.name, [source.name]) != [source.name]:
            raise NotCompilable(f"several fields can become field {target.name}")
    members = branch.datum(step.part).read_members()
    branch, read = branch.fill_nulls(selected, [members[f.index] for f in selected], replace_null=step.replace_null)
    return [branch.with_datum(step.part, Datum.of_members(changed, read))]


def insert_field(step: CompiledStep, branch: Branch) -> list[Branch]:
    assert isinstance(step.transformation, InsertField)
    schema, changed = step.schemas(branch)
    if step.values["offset.field"] is not None and not step.is_sink:
        raise NotCompilable("only records of sinks have an offset")
    sources = {
        "topic.field": branch.topic_sql,
        "partition.field": step.column("partition"),
        "offset.field": step.column("offset"),
        "timestamp.field": step.column("timestamp"),
        "static.field": quote_text(step.values["static.value"] or ""),
    }
    added = [sql for name, sql in sources.items() if step.values[name] is not None]
    branch, read = branch.fill_nulls(
        require_fields(schema), branch.datum(step.part).read_members(), replace_null=step.replace_null
    )
    return [branch.with_datum(step.part, Datum.of_members(changed, [*read, *added]))]


def hoist_field(step: CompiledStep, branch: Branch) -> list[Branch]:
    assert isinstance(step.transformation, HoistField)
    datum = branch.datum(step.part)
    if datum.nullness is Nullness.NULL:
        schema = Datum(datum.null_schema, None, "").require_schema(step.part)
        wrapped = step.plan(schema).schema
        if not schema.optional:
            raise NotCompilable("a null in a required field is an error")
        inner = literal(schema, None)
    else:
        schema, wrapped = step.schemas(branch)
        inner = datum.sql
    assert wrapped is not None
    return [branch.with_datum(step.part, Datum.of_members(wrapped, [inner]))]


def extract_field(step: CompiledStep, branch: Branch) -> list[Branch]:
    assert isinstance(step.transformation, ExtractField)
    schema, changed = step.schemas(branch)
    names = parse_field_path(step.values[FIELD], step.values["field.syntax.version"])
    datum = branch.datum(step.part)
    sql, current, members = datum.sql, schema, datum.read_members()
    for name in names:
        field = current.field(name)
        assert field is not None
        sql = members[field.index]
        current = field.schema
        if step.replace_null and current.default is not None:
            branch, sql = _with_default_inside(branch, datum, name == names[0], sql, current)
        members = [member_of(sql, f) for f in current.fields or ()]
    return [branch.with_datum(step.part, Datum(changed, changed, sql))]


def _with_default_inside(branch: Branch, datum: Datum, is_top: bool, sql: str, schema: Schema) -> tuple[Branch, str]:
    if not is_top:
        # A field of a null struct is null, whatever its default is.
        raise NotCompilable("a field inside of a struct has a default")
    return branch.with_default(sql, schema)


def flatten(step: CompiledStep, branch: Branch) -> list[Branch]:
    assert isinstance(step.transformation, Flatten)
    schema, changed = step.schemas(branch)
    targets = iter(require_fields(changed))
    flat: list[str] = []

    def collect(branch: Branch, level: Schema, members: list[str], parent: str | None) -> Branch:
        for field, sql in zip(require_fields(level), members, strict=True):
            if field.schema.type is Type.STRUCT:
                branch = collect(branch, field.schema, [member_of(sql, f) for f in require_fields(field.schema)], sql)
                continue
            target = next(targets)
            default = field.schema.default
            if parent is None:
                if default is not None:
                    branch, sql = branch.with_default(sql, field.schema)
                elif not target.schema.optional:
                    branch = branch.where_present(sql)
            elif default is not None:
                # A field of a null struct is null, even if it has a default.
                sql = f"CASE WHEN {parent} IS NOT NULL THEN coalesce({sql}, {literal(field.schema, default)}) END"
            elif not target.schema.optional:
                branch = branch.where(f"({sql} IS NOT NULL OR {parent} IS NULL)")
            flat.append(sql)
        return branch

    branch = collect(branch, schema, branch.datum(step.part).read_members(), None)
    return [branch.with_datum(step.part, Datum.of_members(changed, flat))]


def value_to_key(step: CompiledStep, branch: Branch) -> list[Branch]:
    assert isinstance(step.transformation, ValueToKey)
    if branch.value.nullness is Nullness.NULL:
        raise NotCompilable("a null value is an error")
    schema, key_schema = step.schemas(branch)
    fields = [_require(schema, name) for name in step.values[FIELDS]]
    members = branch.value.read_members()
    branch, read = branch.fill_nulls(fields, [members[f.index] for f in fields], replace_null=step.replace_null)
    return [branch.with_datum(KEY, Datum.of_members(key_schema, read))]


def header_from(step: CompiledStep, branch: Branch) -> list[Branch]:
    assert isinstance(step.transformation, HeaderFrom)
    datum = branch.datum(step.part)
    if datum.nullness is Nullness.NULL:
        raise NotCompilable("a null is an error")
    schema, changed = step.schemas(branch)
    members = datum.read_members()
    fields = [_require(schema, name) for name in step.values[FIELDS]]
    branch, read = branch.fill_nulls(fields, [members[f.index] for f in fields], replace_null=step.replace_null)
    added = [
        AddedHeader(name, f.schema, sql) for name, f, sql in zip(step.values["headers"], fields, read, strict=True)
    ]  # fmt: skip
    branch = replace(branch, added_headers=(*branch.added_headers, *added))
    if step.values["operation"] == "move":
        moved = set(step.values[FIELDS])
        rest = [f for f in require_fields(schema) if f.name not in moved]
        branch, read = branch.fill_nulls(rest, [members[f.index] for f in rest], replace_null=step.replace_null)
        branch = branch.with_datum(step.part, Datum.of_members(changed, read))
    return [branch]


def _require(schema: Schema, name: str) -> Field:
    field = schema.field(name)
    if field is None:
        raise NotCompilable(f"there is no field {name}")
    return field


def set_schema_metadata(step: CompiledStep, branch: Branch) -> list[Branch]:
    assert isinstance(step.transformation, SetSchemaMetadata)
    schema, changed = step.schemas(branch)
    members = branch.datum(step.part).read_members()
    branch, read = branch.fill_nulls(require_fields(schema), members, replace_null=step.replace_null)
    return [branch.with_datum(step.part, Datum.of_members(changed, read))]


def mask_field(step: CompiledStep, branch: Branch) -> list[Branch]:
    assert isinstance(step.transformation, MaskField)
    schema, changed = step.schemas(branch)
    fields = require_fields(schema)
    branch, read = branch.fill_nulls(fields, branch.datum(step.part).read_members(), replace_null=step.replace_null)
    for field in fields:
        if field.name in step.values[FIELDS]:
            branch, read[field.index] = _mask(step, branch, field, read[field.index])
    return [branch.with_datum(step.part, Datum.of_members(changed, read))]


def _mask(step: CompiledStep, branch: Branch, field: Field, sql: str) -> tuple[Branch, str]:
    """Masks a field: the masked value depends only on the type."""
    # The transformation masks an example. The default, which it would also mask, is not needed.
    plain = field.schema.replace(default=None)
    one_field = Schema(Type.STRUCT, fields=[(field.name, plain)])
    try:
        masked = literal(plain, step.plan(one_field).convert([example_value(plain)], _RECORD)[0])
    except (NotCompilable, DataError):
        return branch.where(f"{sql} IS NULL"), sql
    return branch, masked if sql in branch.present else f"CASE WHEN {sql} IS NOT NULL THEN {masked} END"


_RECORD = SinkRecord("", 0, None, None, None, None, 0)
