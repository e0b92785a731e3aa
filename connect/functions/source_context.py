"""The context of a source function: its partition, its offset, and the creation of records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from connect.data.headers import Header, Headers
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError
from connect.functions.schemas import conform
from connect.record import SourceRecord

_PLAIN_SCHEMAS: dict[type, Schema] = {
    str: Schema.STRING,
    bool: Schema.BOOLEAN,
    int: Schema.INT64,
    float: Schema.FLOAT64,
    bytes: Schema.BYTES,
}


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause, created by :meth:`SourceFunctionContext.wait`."""

    seconds: float


class SourceFunctionContext:
    """One source partition of a source function: its position, its stored offset, and the creation of its records.

    Only the generator may use it, on the thread of the task; ``stopping`` may be read on any thread.
    """

    def __init__(
        self, partition: Mapping[str, Any], offset: Mapping[str, Any], topic: str | None, is_stopping: Callable[[], bool]
    ) -> None:
        self.partition = dict(partition)
        """The source partition that the generator reads."""
        self.offset = dict(offset)
        """Where to continue: at first the stored offset, empty if there is none; then the offset of the last record."""
        self.committed = dict(offset)
        """The last stored offset: the broker has acknowledged everything up to it (promise 1), so the external system may
        release it. It may change at each ``yield``."""
        self._topic = topic
        self._is_stopping = is_stopping
        self._wait: Wait | None = None

    @property
    def stopping(self) -> bool:
        """True once the task is stopping. For functions that block; the generator is closed at its next ``yield``."""
        return self._is_stopping()

    def wait(self, seconds: float) -> Wait:
        """Returns a pause to yield: the function continues after so many seconds. The task can be paused or stopped meanwhile."""
        if not seconds >= 0:
            raise ValueError(f"context.wait({seconds!r}): expected seconds, 0 or more")
        self._wait = Wait(seconds)
        return self._wait

    def take_wait(self) -> Wait | None:
        """Returns the pause requested since the last call, and forgets it."""
        wait, self._wait = self._wait, None
        return wait

    def advance_to(self, record: SourceRecord) -> None:
        """Moves the position after a record."""
        if record.source_offset is not None and record.source_partition == self.partition:
            self.offset = dict(record.source_offset)

    def record(
        self,
        value: Any,
        offset: Mapping[str, Any] | None = None,
        *,
        key: Any = None,
        topic: str | None = None,
        schema: Schema | None = None,
        key_schema: Schema | None = None,
        timestamp: int | None = None,
        headers: Iterable[tuple[str, Any]] | None = None,
        partition: int | None = None,
    ) -> SourceRecord:
        """Creates a record of this source partition. ``offset`` is the position after it, from which a restart continues; a
        record without one does not move the position. ``topic`` defaults to the key ``topic`` of the configuration. ``timestamp``
        is in ms since 1970.

        Text, numbers, booleans, and bytes get the schema of their type; a dict or list has none unless ``schema`` is given, which
        the value must fit, with dicts for structs. Raises DataError that names the field.
        """
        topic = topic or self._topic
        if topic is None:
            raise ConfigError("context.record() needs a topic: the configuration has no key topic", key="topic")
        if schema is None:
            schema = value.schema if value.__class__ is Struct else _PLAIN_SCHEMAS.get(value.__class__)
        else:
            value = conform(schema, value, "")
        if key is not None:
            if key_schema is None:
                key_schema = key.schema if key.__class__ is Struct else _PLAIN_SCHEMAS.get(key.__class__)
            else:
                key = conform(key_schema, key, "")
        record_headers = None if headers is None else Headers(Header(n, _PLAIN_SCHEMAS.get(v.__class__), v) for n, v in headers)
        if offset is None:
            source_partition, position = None, None
        elif isinstance(offset, Mapping):
            # A copy, because the function may reuse and change the dict.
            source_partition, position = self.partition, dict(offset)
        else:
            raise DataError(f"{offset!r} is not a source offset, expected a flat dict of plain values")
        return SourceRecord(
            source_partition, position, topic, partition, key_schema, key, schema, value, timestamp, record_headers
        )
