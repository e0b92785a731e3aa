"""A value together with its schema."""

from __future__ import annotations

from typing import Any, NamedTuple

from connect.data.types import Schema


class SchemaAndValue(NamedTuple):
    """A value with its schema; ``schema`` None means schemaless."""

    schema: Schema | None
    value: Any


NULL = SchemaAndValue(None, None)
