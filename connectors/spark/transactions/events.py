"""Reads which source transaction a record belongs to, and the events that end transactions.

Source: Debezium's transaction metadata (``provide.transaction.metadata=true``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from connect.data.struct import Struct

READ = "r"
MESSAGE = "m"
MESSAGES = "LOGICAL_DECODING_MESSAGE"
"""The name under which END events count logical decoding messages."""

_POSTGRES_ID = re.compile(r"([0-9]+):([0-9]+)")
_OPEN, _PAYLOAD = b'{"schema":', b',"payload":'


@dataclass(frozen=True, slots=True)
class TransactionEvent:
    """The place of a change event in its transaction. ``collections`` are the names under which END events may count it."""

    key: str
    order: int
    collections: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """A row that a snapshot has read. It belongs to no transaction. ``is_initial``: nothing was streamed meanwhile."""

    collections: tuple[str, ...]
    is_initial: bool = True


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """The END event of a transaction. ``expected`` counts its events by collection, ``lsn`` is PostgreSQL's commit position."""

    key: str
    id: str
    offset: int
    expected: Mapping[str, int]
    lsn: int | None = None
    source_ms: int | None = None
    written_ms: int = 0
    """When the event was written to Kafka, in ms since 1970; 0 if that is unknown."""


class WithoutTransaction(Exception):
    """A record that belongs to no transaction, though it does not come from a snapshot."""


def parse_id(text: str) -> tuple[str, int | None]:
    """The key that all events of a transaction share, and PostgreSQL's LSN: it puts that of each event into the identifier."""
    found = _POSTGRES_ID.fullmatch(text)
    return (text, None) if found is None else (found.group(1), int(found.group(2)))


class ValueParser:
    """Parses JsonConverter's bytes, as far as their payload. Not thread-safe."""

    def __init__(self) -> None:
        self._prefix = _OPEN

    def parse(self, value: bytes) -> Any:
        """The payload; None if the bytes are no JSON."""
        prefix = self._prefix
        if len(prefix) > len(_OPEN) and value.startswith(prefix):
            found = _loads(value[len(prefix) : -1])
            if found is not None:
                return found
        document = _loads(value)
        if not isinstance(document, dict) or document.keys() != {"schema", "payload"}:
            return document
        self._remember_prefix(value, document)
        return document["payload"]

    def _remember_prefix(self, value: bytes, document: Mapping[str, Any]) -> None:
        """Messages of one schema begin with the same bytes."""
        at = value.find(_PAYLOAD)
        while value.startswith(_OPEN) and at > 0:
            if _loads(value[len(_OPEN) : at]) == document["schema"]:
                self._prefix = value[: at + len(_PAYLOAD)]
                return
            at = value.find(_PAYLOAD, at + 1)


def _loads(value: bytes) -> Any:
    try:
        return orjson.loads(value)
    except ValueError:
        pass
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def read_event(value: Any) -> TransactionEvent | ReadEvent | None:
    """Reads the transaction block of a change event, from parsed JSON or a struct; None for a record without a value, or whose
    bytes cannot be read. Raises WithoutTransaction."""
    if value is None:
        return None
    operation = _member(value, "op")
    source = _member(value, "source")
    if not isinstance(operation, str) or source is None:
        raise WithoutTransaction("is no change event")
    names = (_member(source, "db"), _member(source, "schema"), _member(source, "table"))
    collections = _collections(operation, *(name if isinstance(name, str) else None for name in names))
    block = _member(value, "transaction")
    identity, order = _member(block, "id"), _member(block, "total_order")
    if isinstance(identity, str) and isinstance(order, int):
        return TransactionEvent(parse_id(identity)[0], order, collections)
    snapshot = _member(source, "snapshot")
    if operation == READ or snapshot not in (None, "false", False):
        return ReadEvent(collections, snapshot != "incremental")
    if operation == MESSAGE:
        return None  # of pg_logical_emit_message outside of a transaction
    raise WithoutTransaction("has no transaction block")


def read_end(value: Any, offset: int, written_ms: int) -> TransactionEnd | None:
    """Reads an event of the transaction topic; None unless it ends a transaction."""
    identity, collections = _member(value, "id"), _member(value, "data_collections")
    if _member(value, "status") != "END" or not isinstance(identity, str):
        return None
    key, lsn = parse_id(identity)
    expected = {str(_member(one, "data_collection")): int(_member(one, "event_count") or 0) for one in collections or ()}
    source_ms = _member(value, "ts_ms")
    return TransactionEnd(key, identity, offset, expected, lsn, source_ms if isinstance(source_ms, int) else None, written_ms)


def _member(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, Struct):
        return value.get(name) if value.schema.field(name) is not None else None
    return None


@lru_cache(maxsize=10_000)
def _collections(operation: str, database: str | None, schema: str | None, table: str | None) -> tuple[str, ...]:
    if operation == MESSAGE:
        return (MESSAGES,)
    parts = [part for part in (database, schema, table) if part]
    names = [".".join(parts[start:]) for start in range(len(parts))]
    return tuple(dict.fromkeys([*names, *([f"{database}.{table}"] if database and table else [])]))
