"""Compiles TimestampConverter and TimestampRouter."""

from __future__ import annotations

import re
from dataclasses import replace

from connect.data.logical import DATE, MILLIS_PER_DAY, TIME, TIMESTAMP
from connect.data.schema import Schema, Type
from connect.transforms.config import FIELD
from connect.transforms.structs import require_fields
from connect.transforms.timestamp_converter import TimestampConverter
from connect.transforms.timestamp_router import TimestampRouter
from connectors.spark.transforms.branches import Branch, Datum
from connectors.spark.transforms.errors import NotCompilable
from connectors.spark.transforms.sql import concatenate, quote_text
from connectors.spark.transforms.step import CompiledStep

_FIRST_MS, _LAST_MS = -2_208_988_800_000, 253_402_300_799_999
"""The years 1900 to 9999, in which Java's two calendars, and four digits of a year, are the same."""
_DAYS_LOW, _DAYS_HIGH = -(1 << 31) * MILLIS_PER_DAY, (1 << 31) * MILLIS_PER_DAY - 1
_LONG_MAX = (1 << 63) - 1
_SAME_LETTERS = {"yyyy", "MM", "dd", "HH", "mm", "ss", "SSS"}
_PATTERN_TOKEN = re.compile(r"'([A-Za-z ]+)'|([A-Za-z])\2*|[-:., /_]+")


def timestamp_converter(step: CompiledStep, branch: Branch) -> list[Branch]:
    assert isinstance(step.transformation, TimestampConverter)
    if step.strict:
        raise NotCompilable("conversion.strict is on")
    schema, changed = step.schemas(branch)
    datum, name = branch.datum(step.part), step.values[FIELD]
    if not name:
        branch, sql = _convert(step, branch, datum.sql, schema)
        return [branch.with_datum(step.part, Datum(changed, changed, sql, datum.nullness))]
    fields = require_fields(schema)
    branch, read = branch.fill_nulls(fields, datum.read_members(), replace_null=step.replace_null)
    field = schema.field(name)
    if field is not None:
        branch, read[field.index] = _convert(step, branch, read[field.index], field.schema)
    return [branch.with_datum(step.part, Datum.of_members(changed, read))]


def _convert(step: CompiledStep, branch: Branch, sql: str, schema: Schema) -> tuple[Branch, str]:
    precision = step.values["unix.precision"]
    millis, read_condition = _read(sql, schema, precision)
    converted, write_condition = _write(millis, step, precision)
    conditions = [c for c in (read_condition, write_condition) if c is not None]
    if conditions:
        condition = " AND ".join(conditions)
        branch = branch.where(f"({condition})" if sql in branch.present else f"({sql} IS NULL OR ({condition}))")
    if sql in branch.present:
        branch = branch.known_present(converted)
    return branch, converted


def _read(sql: str, schema: Schema, precision: str) -> tuple[str, str | None]:
    """The milliseconds since 1970, and the condition for values that are not null."""
    match schema.name, schema.type:
        case name, Type.INT64 if name == TIMESTAMP:
            return sql, None
        case name, Type.INT32 if name == TIME:
            return f"CAST({sql} AS BIGINT)", None
        case name, Type.INT32 if name == DATE:
            return f"(CAST({sql} AS BIGINT) * {MILLIS_PER_DAY})", None
        case _, Type.INT64 if schema.name not in (TIMESTAMP, TIME, DATE):
            match precision:
                case "seconds":
                    limit = _LONG_MAX // 1000
                    return f"try_multiply({sql}, 1000L)", f"{sql} BETWEEN {-limit} AND {limit}"
                case "milliseconds":
                    return sql, None
            return f"({sql} div {1000 if precision == 'microseconds' else 1_000_000})", None
    raise NotCompilable(f"timestamps of type {schema.name or schema.type.name} are read differently in Spark")


def _write(millis: str, step: CompiledStep, precision: str) -> tuple[str, str | None]:
    match step.values["target.type"]:
        case "Timestamp":
            return millis, None
        case "Time":
            return f"CAST(pmod({millis}, {MILLIS_PER_DAY}L) AS INT)", None
        case "Date":
            within = f"{millis} BETWEEN {_DAYS_LOW} AND {_DAYS_HIGH}"
            days = f"try_subtract({millis}, pmod({millis}, {MILLIS_PER_DAY}L)) div {MILLIS_PER_DAY}"
            return f"try_cast({days} AS INT)", within
        case "unix":
            match precision:
                case "seconds":
                    return f"({millis} div 1000)", None
                case "milliseconds":
                    return millis, None
            factor = 1000 if precision == "microseconds" else 1_000_000
            limit = _LONG_MAX // factor
            return f"try_multiply({millis}, {factor}L)", f"{millis} BETWEEN {-limit} AND {limit}"
    return format_millis(millis, step.values["format"] or "")


def format_millis(millis: str, pattern: str) -> tuple[str, str]:
    """The text of a SimpleDateFormat, and the condition under which Spark writes the same. Raises NotCompilable."""
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        token = _PATTERN_TOKEN.match(pattern, at)
        if token is None or (token[2] and token[0] not in _SAME_LETTERS):
            raise NotCompilable(f"Spark may write the date format {pattern} differently")
        parts.append(token[0])
        at = token.end()
    within = f"{millis} BETWEEN {_FIRST_MS} AND {_LAST_MS}"
    # Other instants, which Spark may not hold, are not formatted.
    instant = f"timestamp_millis(CASE WHEN {within} THEN {millis} END)"
    return f"date_format({instant}, {quote_text(pattern)})", within


def timestamp_router(step: CompiledStep, branch: Branch) -> list[Branch]:
    assert isinstance(step.transformation, TimestampRouter)
    topic_format, pattern = step.values["topic.format"], step.values["timestamp.format"]
    if branch.topic is None:
        raise NotCompilable("an earlier transformation has added the timestamp to the topic")
    if topic_format is None or pattern is None:
        raise NotCompilable("a format is null")
    text, within = format_millis(step.column("timestamp"), pattern)
    # As the transformation does: a topic may contain the other placeholder.
    pieces = topic_format.replace("${topic}", branch.topic).split("${timestamp}")
    branch = branch.where_present(step.column("timestamp"))
    if len(pieces) == 1:
        return [replace(branch.where(within), topic=pieces[0], topic_sql=quote_text(pieces[0]))]
    parts = [quote_text(pieces[0])]
    for piece in pieces[1:]:
        parts += [text, quote_text(piece)]
    return [replace(branch.where(within), topic=None, topic_sql=concatenate(parts))]
