"""What an expression sees of a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from connect.expressions.members import HeaderValue
from connect.record import ConnectRecord


def _headers(record: ConnectRecord) -> dict[str, HeaderValue]:
    """The headers by name; of several with one name the last."""
    return {} if record.headers is None else {h.key: HeaderValue(h.schema, h.value) for h in record.headers}


RECORD_VARIABLES: Mapping[str, Callable[[ConnectRecord], Any]] = MappingProxyType(
    {
        "key": lambda record: record.key,
        "value": lambda record: record.value,
        "keySchema": lambda record: record.key_schema,
        "valueSchema": lambda record: record.value_schema,
        "topic": lambda record: record.topic,
        "partition": lambda record: record.partition,
        "timestamp": lambda record: record.timestamp,
        "header": _headers,
        "headers": _headers,
    }
)
"""Each variable's name, and how it is read."""
