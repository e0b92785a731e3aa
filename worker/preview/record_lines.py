"""Parses records from lines of JSON.

A line is one JSON value. It is a whole record in the format of :mod:`connect.record_format` if it is an object with ``topic`` and
with ``key`` or ``value`` in that format (null, or an object of ``schema`` and ``payload``). Anything else is the value of a
record without a schema, as JsonConverter reads it with ``schemas.enable=false``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.errors import DataError
from connect.record import CREATE_TIME, ConnectRecord, SinkRecord, SourceRecord
from connect.record_format import record_from_json

MEMBERS = frozenset(
    {
        "topic",
        "partition",
        "timestamp",
        "timestampType",
        "offset",
        "key",
        "value",
        "headers",
        "sourcePartition",
        "sourceOffset",
    }
)
"""The members of a record."""
_DATA = frozenset({"schema", "payload"})
_LIKE_A_RECORD = 4
"""An object with at least this many members of a record, and no others, is treated as a record even if it is malformed."""


@dataclass(frozen=True, slots=True)
class RecordDefaults:
    """How plain values become records: the topic, and whether as sink or source records."""

    topic: str
    is_sink: bool

    def record(self, value: Any, position: int) -> ConnectRecord:
        """Creates a record without a schema; ``position``, counted from 0, is its offset."""
        if self.is_sink:
            return SinkRecord(self.topic, 0, None, None, None, value, position, 0, CREATE_TIME)
        return SourceRecord({}, {}, self.topic, value=value)


def parse_record_line(line: str, defaults: RecordDefaults, position: int) -> ConnectRecord:
    """Parses the record of one line. Raises DataError."""
    try:
        node = json.loads(line)
    except json.JSONDecodeError as e:
        raise DataError(f"not JSON at column {e.colno}: {e.msg}") from e
    except RecursionError as e:
        raise DataError("the JSON is nested too deeply") from e
    return parse_record(node, defaults, position)


def parse_record(node: Any, defaults: RecordDefaults, position: int) -> ConnectRecord:
    """Builds a record from parsed JSON. Raises DataError."""
    if not is_record(node):
        return defaults.record(node, position)
    try:
        return record_from_json(node)
    except (TypeError, ValueError, AttributeError, KeyError) as e:
        detail = f"member {e} is missing" if isinstance(e, KeyError) else str(e)
        raise DataError(f"not a record: {detail}") from e
    except RecursionError as e:
        raise DataError("the record is nested too deeply") from e


def is_record(node: Any) -> bool:
    """Returns whether parsed JSON is a whole record instead of a plain value. Raises DataError for a malformed record."""
    if not isinstance(node, Mapping) or "topic" not in node:
        return False
    wrong = [member for member in ("key", "value") if member in node and not _is_data(node[member])]
    if not wrong and ("key" in node or "value" in node):
        return True
    if MEMBERS.issuperset(node) and len(node) >= _LIKE_A_RECORD:
        what = f"its {wrong[0]} is neither null nor an object of schema and payload" if wrong else "it has neither key nor value"
        raise DataError(f"not a record: {what}")
    return False


def _is_data(node: Any) -> bool:
    return node is None or (isinstance(node, Mapping) and bool(node) and _DATA.issuperset(node))
