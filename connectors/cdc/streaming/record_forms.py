"""What the records of all streams have in common: context headers and tombstones."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from typing import Any

from connect.data.headers import Header
from connect.data.schema import Schema
from connect.record import SourceRecord

_CONTEXT = "__debezium.context."


def context_headers(topic_prefix: str, connector: str) -> list[Header]:
    """Debezium's headers of streamed events (``extended.headers.enabled``); the run ID is new for each start of the task."""
    values = {
        "connectorLogicalName": topic_prefix,
        "taskId": "0",
        "connectorName": connector,
        "runId": str(_time_ordered_uuid()),
    }
    return [Header(_CONTEXT + name, Schema.STRING, value) for name, value in values.items()]


def _time_ordered_uuid() -> uuid.UUID:
    """A UUID of version 7 (RFC 9562), as Debezium creates."""
    ms = time.time_ns() // 1_000_000
    bits = ms << 80 | int.from_bytes(os.urandom(10), "big")
    return uuid.UUID(int=bits & ~(0xF << 76) & ~(0x3 << 62) | 7 << 76 | 2 << 62)


def tombstone_of(deleted: SourceRecord, offset: Mapping[str, Any]) -> SourceRecord:
    """Builds the tombstone of a delete; it has the delete's headers, as in Debezium."""
    headers = None if deleted.headers is None else deleted.headers.copy()
    return SourceRecord(
        deleted.source_partition, offset, deleted.topic, None, deleted.key_schema, deleted.key, None, None, None, headers
    )
