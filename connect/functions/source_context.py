"""What a source function is given beside its configuration."""

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
    """A pause, made by :meth:`SourceFunctionContext.wait`."""

    seconds: float


class SourceFunctionContext:
    """One source partition of a function source: where to go on, what is stored, and how to make records of it.

    Used by the generator on the task's thread only; ``stopping`` may be asked from any thread.
    """

    def __init__(
        self, partition: Mapping[str, Any], offset: Mapping[str, Any], topic: str | None, is_stopping: Callable[[], bool]
    ) -> None:
        self.partition = dict(partition)
        """The source partition: the place that is read."""
        self.offset = dict(offset)
        """Where to go on: at first the stored offset, empty when there is none; then that of the last record given."""
        self.committed = dict(offset)
        """The last stored offset: everything up to it is acknowledged by the broker (promise 1), and may be released at the
        other end. It changes between two ``yield``."""
        self._topic = topic
        self._is_stopping = is_stopping
        self._wait: Wait | None = None

    @property
    def stopping(self) -> bool:
        """True once the task is to end. For functions that block: the generator is closed at its next ``yield``."""
        return self._is_stopping()

    def wait(self, seconds: float) -> Wait:
        """To be yielded: the function goes on after so many seconds. Pause, stop and commits happen meanwhile."""
        if not seconds >= 0:
            raise ValueError(f"context.wait({seconds!r}): expected seconds, 0 or more")
        self._wait = Wait(seconds)
        return self._wait

    def take_wait(self) -> Wait | None:
        """The pause asked for since the last call."""
        wait, self._wait = self._wait, None
        return wait

    def advance_to(self, record: SourceRecord) -> None:
        """This record was given last."""
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
        """A record of this source partition. ``offset`` is the position after it, from which a restart goes on; without one, a
        restart knows nothing of the record. ``topic`` is the key ``topic`` of the configuration unless given. ``timestamp`` is in
        ms since 1970.

        Text, numbers, booleans and bytes get the schema of their type; a dict or list has none unless ``schema`` is given,
        which the value must fit then, with dicts for structs. Raises DataError that names the field.
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
        made = None if headers is None else Headers(Header(n, _PLAIN_SCHEMAS.get(v.__class__), v) for n, v in headers)
        if offset is None:
            source, position = None, None
        elif isinstance(offset, Mapping):
            # A copy: a function may count on in one dict, and each record has its own position.
            source, position = self.partition, dict(offset)
        else:
            raise DataError(f"{offset!r} is no source offset, expected a flat dict of plain values")
        return SourceRecord(source, position, topic, partition, key_schema, key, schema, value, timestamp, made)
