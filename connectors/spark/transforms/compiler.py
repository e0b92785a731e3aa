"""Compiles a transformation chain to Spark SQL, for the records of one topic and schema.

The SQL reads a table with these columns: ``topic`` STRING, ``partition`` INT, ``offset`` BIGINT, ``timestamp`` BIGINT (ms),
``headers`` ARRAY<STRING> (the names), and ``key`` and ``value`` in the stored types of their schemas
(:mod:`connectors.spark.transforms.stored_types`). It never fails: a record whose result SQL cannot compute, or which is an error,
has the outcome :data:`BY_ROW`, and runs through the transformations themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from connect.data.schema import Schema
from connect.errors import ConnectError
from connect.transforms.api import Transformation
from connect.transforms.cast import Cast
from connect.transforms.chain import Step, stage_settings
from connect.transforms.debezium.extract_new_record_state import ExtractNewRecordState
from connect.transforms.extract_field import ExtractField
from connect.transforms.filter import Filter
from connect.transforms.flatten import Flatten
from connect.transforms.header_from import HeaderFrom
from connect.transforms.header_transforms import DropHeaders, InsertHeader
from connect.transforms.hoist_field import HoistField
from connect.transforms.insert_field import InsertField
from connect.transforms.key_or_value import KeyOrValueTransformation
from connect.transforms.mask_field import MaskField
from connect.transforms.regex_router import RegexRouter
from connect.transforms.replace_field import ReplaceField
from connect.transforms.set_schema_metadata import SetSchemaMetadata
from connect.transforms.timestamp_converter import TimestampConverter
from connect.transforms.timestamp_router import TimestampRouter
from connect.transforms.value_to_key import ValueToKey
from connectors.spark.transforms import casts, change_events, fields, instants, records
from connectors.spark.transforms.branches import KEY, VALUE, Branch, Datum, Nullness
from connectors.spark.transforms.errors import NotCompilable
from connectors.spark.transforms.sql import quote_text
from connectors.spark.transforms.step import CompiledStep, after_null
from connectors.spark.transforms.stored_types import spark_type

_MAX_BRANCHES = 32
_MAX_SQL = 200_000
_CompileStep = Callable[[CompiledStep, Branch], list[Branch]]
_COMPILERS: tuple[tuple[type[Transformation], _CompileStep], ...] = (
    (Cast, casts.cast),
    (DropHeaders, records.drop_headers),
    (ExtractField, fields.extract_field),
    (ExtractNewRecordState, change_events.extract_new_record_state),
    (Filter, records.filter_records),
    (Flatten, fields.flatten),
    (HeaderFrom, fields.header_from),
    (HoistField, fields.hoist_field),
    (InsertField, fields.insert_field),
    (InsertHeader, records.insert_header),
    (MaskField, fields.mask_field),
    (RegexRouter, records.regex_router),
    (ReplaceField, fields.replace_field),
    (SetSchemaMetadata, fields.set_schema_metadata),
    (TimestampConverter, instants.timestamp_converter),
    (TimestampRouter, instants.timestamp_router),
    (ValueToKey, fields.value_to_key),
)
_OWN_NULLS = (HeaderFrom, HoistField, ValueToKey)
"""Transformations whose compilers treat nulls."""


@dataclass(frozen=True, slots=True)
class InputSchemas:
    """The schemas of keys and values, and their schemas where they are null: a message without a value has none.

    A missing key or value schema means that the data have no schema, so that only chains that do not read them are compiled.
    ``prefix`` is before the names of all columns: ``r.`` if the columns are in a struct ``r``. Source records have no offset.
    """

    key: Schema | None
    value: Schema | None
    null_key: Schema | None = None
    null_value: Schema | None = None
    is_sink: bool = True
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class CompiledBranches:
    """The ways through the chain that are compiled, and why others are not: the transformation's alias and the reason."""

    branches: tuple[Branch, ...]
    reasons: tuple[str, ...]


def compile_branches(
    config: Mapping[str, str | None], steps: Sequence[Step], topic: str, schemas: InputSchemas
) -> CompiledBranches:
    """Compiles the chain of a connector's configuration. ``steps`` is the chain that was created from it.

    Raises NotCompilable, which names the transformation, if no record with a value would be computed by SQL.
    """
    start = Branch(
        topic,
        quote_text(topic),
        _start_datum(schemas.prefix + KEY, schemas.key, schemas.null_key),
        _start_datum(schemas.prefix + VALUE, schemas.value, schemas.null_value),
    )
    branches, reasons = [start], dict[str, None]()
    for step in steps:
        compiled = _read_step(config, step, schemas)
        branches = [
            changed
            for branch in branches
            for changed in ([branch] if branch.dropped else _apply(config, step, compiled, branch, reasons))
        ]
        if len(branches) > _MAX_BRANCHES or sum(map(_size, branches)) > _MAX_SQL:
            raise NotCompilable(f"transformation {step.alias}: the chain has too many different cases")
    if all(branch.value.nullness is Nullness.NULL for branch in branches):
        raise NotCompilable("; ".join(reasons) or "no record has a result")
    return CompiledBranches(tuple(branches), tuple(reasons))


def _start_datum(sql: str, schema: Schema | None, null_schema: Schema | None) -> Datum:
    if schema is not None:
        spark_type(schema)
    return Datum(schema, null_schema, sql)


def _size(branch: Branch) -> int:
    return len(branch.key.sql) + len(branch.value.sql) + sum(map(len, branch.conditions))


def _read_step(config: Mapping[str, str | None], step: Step, schemas: InputSchemas) -> CompiledStep:
    settings = stage_settings(f"transforms.{step.alias}.", config)
    return CompiledStep(
        step.alias,
        step.transformation,
        settings,
        step.transformation.config_def().parse(settings),
        schemas.is_sink,
        schemas.prefix,
    )


def _apply(
    config: Mapping[str, str | None], step: Step, compiled: CompiledStep, branch: Branch, reasons: dict[str, None]
) -> list[Branch]:
    """The branches after the step; those that cannot be compiled are left out."""
    name = f"transformation {step.alias} ({type(step.transformation).__name__})"
    selected, others = [branch], list[Branch]()
    if step.predicate is not None:
        alias = config.get(f"transforms.{step.alias}.predicate")
        settings = step.predicate.config_def().parse(stage_settings(f"predicates.{alias}.", config))
        try:
            selected, others = records.select(step.predicate, branch, compiled.column("headers"), name=settings.get("name"))
        except NotCompilable as e:
            reasons[f"{name}: {e.reason}"] = None
            return []
        if step.negate:
            selected, others = others, selected
    compile_step = next((c for kind, c in _COMPILERS if isinstance(step.transformation, kind)), None)
    results = others
    for one in [split for branch in selected for split in _split_nulls(step.transformation, branch)]:
        try:
            if compile_step is None:
                raise NotCompilable("it runs in Python only")
            results += _compile(compile_step, compiled, one)
        except NotCompilable as e:
            reasons[f"{name}: {e.reason}"] = None
        except ConnectError as e:
            reasons[f"{name}: these records fail: {e.message}"] = None
    return results


def _split_nulls(transformation: Transformation, branch: Branch) -> list[Branch]:
    if isinstance(transformation, KeyOrValueTransformation):
        return branch.split_nulls(transformation.part)
    return branch.split_nulls(VALUE) if isinstance(transformation, ExtractNewRecordState) else [branch]


def _compile(compile_step: _CompileStep, step: CompiledStep, branch: Branch) -> list[Branch]:
    transformation = step.transformation
    treats_nulls = not isinstance(transformation, KeyOrValueTransformation) or isinstance(transformation, _OWN_NULLS)
    if not treats_nulls and branch.datum(step.part).nullness is Nullness.NULL:
        return [after_null(step, branch)]
    return compile_step(step, branch)
