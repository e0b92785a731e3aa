"""Compiles the transformations of topics and headers, Filter, and the predicates."""

from __future__ import annotations

from dataclasses import replace

from connect.data.headers import Header
from connect.record import SinkRecord
from connect.transforms.api import Predicate
from connect.transforms.header_transforms import DropHeaders, InsertHeader
from connect.transforms.predicates import HasHeaderKey, RecordIsTombstone, TopicNameMatches
from connect.transforms.regex_router import RegexRouter
from connectors.spark.transforms.branches import VALUE, AddedHeader, Branch, Nullness
from connectors.spark.transforms.errors import NotCompilable
from connectors.spark.transforms.sql import quote_text
from connectors.spark.transforms.step import CompiledStep
from connectors.spark.transforms.stored_types import is_logical, literal


def regex_router(step: CompiledStep, branch: Branch) -> list[Branch]:
    assert isinstance(step.transformation, RegexRouter)
    routed = step.transformation.apply(_record(_fixed_topic(branch)))
    assert routed is not None
    return [replace(branch, topic=routed.topic, topic_sql=quote_text(routed.topic))]


def filter_records(step: CompiledStep, branch: Branch) -> list[Branch]:
    return [replace(branch, dropped=True)]


def drop_headers(step: CompiledStep, branch: Branch) -> list[Branch]:
    assert isinstance(step.transformation, DropHeaders)
    names = frozenset(step.values["headers"])
    kept = tuple(h for h in branch.added_headers if h.key not in names)
    return [replace(branch, dropped_headers=branch.dropped_headers | names, added_headers=kept)]


def insert_header(step: CompiledStep, branch: Branch) -> list[Branch]:
    assert isinstance(step.transformation, InsertHeader)
    changed = step.transformation.apply(_record("t"))
    assert changed is not None
    assert changed.headers is not None
    added = tuple(_fixed_header(header) for header in changed.headers)
    return [replace(branch, added_headers=(*branch.added_headers, *added))]


def _fixed_header(header: Header) -> AddedHeader:
    schema = header.schema
    if schema is None:
        if header.value is not None:
            raise NotCompilable(f"the header {header.key} has no schema")
        return AddedHeader(header.key, None, "NULL")
    if is_logical(schema) or not schema.type.is_primitive:
        raise NotCompilable(f"the header {header.key} is of type {schema.name or schema.type.name}")
    return AddedHeader(header.key, schema, literal(schema, header.value))


def _record(topic: str) -> SinkRecord:
    return SinkRecord(topic, 0, None, None, None, None, 0)


def _fixed_topic(branch: Branch) -> str:
    if branch.topic is None:
        raise NotCompilable("an earlier transformation gives each record its own topic")
    return branch.topic


def select(predicate: Predicate, branch: Branch, headers: str, *, name: str | None) -> tuple[list[Branch], list[Branch]]:
    """The records for which the predicate is true, and the others. Raises NotCompilable.

    ``headers`` is the column of the names of headers, and ``name`` the setting of HasHeaderKey.
    """
    if isinstance(predicate, TopicNameMatches):
        return ([branch], []) if predicate.test(_record(_fixed_topic(branch))) else ([], [branch])
    if isinstance(predicate, RecordIsTombstone):
        parts = branch.split_nulls(VALUE)
        tombstones = [b for b in parts if b.value.nullness is Nullness.NULL]
        return tombstones, [b for b in parts if b.value.nullness is not Nullness.NULL]
    if isinstance(predicate, HasHeaderKey) and name is not None:
        if any(h.key == name for h in branch.added_headers):
            return [branch], []
        if name in branch.dropped_headers:
            return [], [branch]
        has = f"array_contains({headers}, {quote_text(name)})"
        return [branch.where(has)], [branch.where(f"NOT {has}")]
    raise NotCompilable(f"the predicate {type(predicate).__name__} runs in Python")
