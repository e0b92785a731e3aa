"""Compiles Cast where Spark's result is Java's. Values of other ranges are left to the transformation."""

from __future__ import annotations

from connect.data.schema import Schema, Type
from connect.data.types import INT_RANGES
from connect.transforms.cast import WHOLE, Cast, parse_spec
from connect.transforms.structs import require_fields
from connectors.spark.transforms.branches import Branch, Datum
from connectors.spark.transforms.errors import NotCompilable
from connectors.spark.transforms.step import CompiledStep
from connectors.spark.transforms.stored_types import is_logical, spark_type

_FLOATS = (Type.FLOAT32, Type.FLOAT64)
_EXACT_DIGITS = {Type.FLOAT32: 1 << 24, Type.FLOAT64: 1 << 53}
"""All integers up to this one are values of the type."""
_INTEGER_TEXT = r"^[+-]?[0-9]{1,18}\z"
_NUMBER_TEXT = r"^[+-]?[0-9]{1,300}(\.[0-9]{1,300})?([eE][+-]?[0-9]{1,3})?\z"
_SQL_TYPES = {kind: spark_type(Schema(kind)) for kind in Type if kind.is_primitive}


def cast(step: CompiledStep, branch: Branch) -> list[Branch]:
    assert isinstance(step.transformation, Cast)
    schema, changed = step.schemas(branch)
    spec = parse_spec(step.values["spec"])
    datum = branch.datum(step.part)
    if WHOLE in spec:
        if is_logical(schema):
            raise NotCompilable(f"a cast {step.part} keeps the name {schema.name}")
        branch, sql = _cast(branch, datum.sql, schema, spec[WHOLE], strict=step.strict)
        return [branch.with_datum(step.part, Datum(changed, datum.null_schema, sql, datum.nullness))]
    fields = require_fields(schema)
    branch, read = branch.fill_nulls(fields, datum.read_members(), replace_null=step.replace_null)
    for field in fields:
        target = spec.get(field.name)
        if target is not None:
            branch, read[field.index] = _cast(branch, read[field.index], field.schema, target, strict=step.strict)
    return [branch.with_datum(step.part, Datum.of_members(changed, read))]


def _cast(branch: Branch, sql: str, schema: Schema, target: Type, *, strict: bool) -> tuple[Branch, str]:
    """Casts an expression, and leaves out the records whose values Spark casts in another way. Raises NotCompilable."""
    source = schema.type
    if not source.is_primitive:
        return branch.where(f"{sql} IS NULL"), f"CAST(NULL AS {_SQL_TYPES[target]})"
    if is_logical(schema) and (source is Type.BYTES or target is Type.STRING):
        raise NotCompilable(f"a cast from {schema.name} to {target.name} is not the same in Spark")
    if source is target:
        return branch, sql
    condition, cast_sql = _rules(sql, source, target, strict=strict)
    if condition is not None:
        # Conditions are never null: a null is cast to null.
        branch = branch.where(condition if sql in branch.present else f"({sql} IS NULL OR {condition})")
    if sql in branch.present:
        branch = branch.known_present(cast_sql)
    return branch, cast_sql


def _rules(sql: str, source: Type, target: Type, *, strict: bool) -> tuple[str | None, str]:
    """The condition on values that are not null, and the cast."""
    kind = _SQL_TYPES[target]
    plain, tried = f"CAST({sql} AS {kind})", f"try_cast({sql} AS {kind})"
    if source in INT_RANGES:
        return _of_integer(sql, source, target, plain, tried, strict=strict)
    if source in _FLOATS:
        return _of_float(sql, target, plain, tried, strict=strict)
    match source, target:
        case Type.BOOLEAN, _:
            return None, plain
        case Type.BYTES, Type.STRING:
            # Spark may break lines in base64, depending on its settings.
            return None, f"replace(replace(base64({sql}), '\\r', ''), '\\n', '')"
        case Type.STRING, Type.BOOLEAN:
            return (f"lower({sql}) IN ('true', 'false')" if strict else None), f"(lower({sql}) = 'true')"
        case Type.STRING, _ if target in INT_RANGES:
            low, high = INT_RANGES[target]
            number = f"try_cast({sql} AS BIGINT)"
            fits = "" if target is Type.INT64 else f" AND {number} BETWEEN {low} AND {high}"
            return f"({sql} RLIKE r'{_INTEGER_TEXT}'{fits})", tried
        case Type.STRING, _ if not strict:
            return f"({sql} RLIKE r'{_NUMBER_TEXT}')", tried
    raise NotCompilable(f"a cast from {source.name} to {target.name} is not the same in Spark")


def _of_integer(sql: str, source: Type, target: Type, plain: str, tried: str, *, strict: bool) -> tuple[str | None, str]:
    if target in INT_RANGES:
        (low, high), (source_low, source_high) = INT_RANGES[target], INT_RANGES[source]
        if low <= source_low and source_high <= high:
            return None, plain
        # Java cuts the bits of larger numbers off.
        return f"{sql} BETWEEN {low} AND {high}", tried
    if target is Type.BOOLEAN:
        return (f"{sql} IN (0, 1)" if strict else None), f"({sql} <> 0)"
    limit = _EXACT_DIGITS.get(target)
    if strict and limit is not None and limit < INT_RANGES[source][1]:
        return f"{sql} BETWEEN {-limit} AND {limit}", plain
    return None, plain


def _of_float(sql: str, target: Type, plain: str, tried: str, *, strict: bool) -> tuple[str | None, str]:
    if target in _FLOATS:
        return (f"CAST({plain} AS DOUBLE) = CAST({sql} AS DOUBLE)" if strict and target is Type.FLOAT32 else None), plain
    if target is Type.BOOLEAN:
        whole = f"try_cast({sql} AS BIGINT)"
        condition = f"{sql} IN (0, 1)" if strict else f"{whole} IS NOT NULL"
        return condition, f"({whole} <> 0)"
    if target in INT_RANGES:
        condition = f"{tried} IS NOT NULL"
        return (f"({condition} AND CAST({tried} AS DOUBLE) = CAST({sql} AS DOUBLE))" if strict else condition), tried
    raise NotCompilable("Java and Spark write floats in different texts")
