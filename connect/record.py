"""Records: what sources produce and sinks consume. Slotted plain classes, because millions of them are created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from connect.data.headers import Headers
from connect.data.schema import Schema
from connect.data.schema_and_value import NULL, SchemaAndValue
from connect.errors import ErrantRecordError

__all__ = [
    "CREATE_TIME",
    "LOG_APPEND_TIME",
    "NO_TIMESTAMP_TYPE",
    "NULL",
    "ConnectRecord",
    "ErrantSourceRecord",
    "RawBatch",
    "SchemaAndValue",
    "SinkRecord",
    "SourceRecord",
    "TopicPartition",
]

NO_TIMESTAMP_TYPE = "NoTimestampType"
CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ConnectRecord:
    """Base class of source and sink records. ``timestamp`` is in ms since 1970 UTC, or None.

    ``headers`` is None while a record has none, which saves one object per record; use :meth:`ensure_headers` to add some.
    """

    __slots__ = (
        "headers",
        "key",
        "key_schema",
        "partition",
        "timestamp",
        "topic",
        "value",
        "value_schema",
    )

    topic: str
    partition: int | None
    key_schema: Schema | None
    key: Any
    value_schema: Schema | None
    value: Any
    timestamp: int | None
    headers: Headers | None

    def ensure_headers(self) -> Headers:
        """Returns the headers of this record; creates them if there are none."""
        if self.headers is None:
            self.headers = Headers()
        return self.headers


class SourceRecord(ConnectRecord):
    """A record to be written to a topic.

    ``source_partition`` identifies where it was read and ``source_offset`` the position after it; both are flat dicts of str to
    primitive values, and records may share them. With ``partition`` None, the producer chooses one (by key).
    """

    __slots__ = ("source_offset", "source_partition")

    def __init__(
        self,
        source_partition: Mapping[str, Any] | None,
        source_offset: Mapping[str, Any] | None,
        topic: str,
        partition: int | None = None,
        key_schema: Schema | None = None,
        key: Any = None,
        value_schema: Schema | None = None,
        value: Any = None,
        timestamp: int | None = None,
        headers: Headers | None = None,
    ) -> None:
        self.source_partition = source_partition
        self.source_offset = source_offset
        self.topic = topic
        self.partition = partition
        self.key_schema = key_schema
        self.key = key
        self.value_schema = value_schema
        self.value = value
        self.timestamp = timestamp
        self.headers = headers

    def __repr__(self) -> str:
        return (
            f"SourceRecord(topic={self.topic!r}, partition={self.partition}, key={self.key!r}, value={self.value!r}, "
            f"source_partition={self.source_partition!r}, source_offset={self.source_offset!r})"
        )


class ErrantSourceRecord(SourceRecord):
    """Stands in a batch for a record that a source could not convert, with its position.

    The worker does not write it: it reports ``error`` as the connector's ``errors.*`` say, and continues or fails. Key and value
    raise ``error``. ``texts`` are reported instead of them: what the source has read, without secrets.
    """

    __slots__ = ("error", "texts")

    def __init__(
        self,
        source_partition: Mapping[str, Any] | None,
        source_offset: Mapping[str, Any] | None,
        topic: str,
        texts: Mapping[str, Any],
        error: ErrantRecordError,
    ) -> None:
        self.source_partition = source_partition
        self.source_offset = source_offset
        self.topic = topic
        self.partition = self.timestamp = self.headers = None
        self.key_schema = self.value_schema = None
        self.texts = texts
        self.error = error

    @property
    def key(self) -> Any:
        raise self.error

    @property
    def value(self) -> Any:
        raise self.error

    def __repr__(self) -> str:
        return f"ErrantSourceRecord(topic={self.topic!r}, error={self.error.message!r}, source_offset={self.source_offset!r})"


class SinkRecord(ConnectRecord):
    """A record read from a topic. ``original_*`` are its topic and partition in Kafka, whatever transformations changed."""

    __slots__ = ("offset", "original_partition", "original_topic", "timestamp_type")

    partition: int

    def __init__(
        self,
        topic: str,
        partition: int,
        key_schema: Schema | None,
        key: Any,
        value_schema: Schema | None,
        value: Any,
        offset: int,
        timestamp: int | None = None,
        timestamp_type: str = NO_TIMESTAMP_TYPE,
        headers: Headers | None = None,
        original_topic: str | None = None,
        original_partition: int | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.key_schema = key_schema
        self.key = key
        self.value_schema = value_schema
        self.value = value
        self.offset = offset
        self.timestamp = timestamp
        self.timestamp_type = timestamp_type
        self.headers = headers
        self.original_topic = topic if original_topic is None else original_topic
        self.original_partition = partition if original_partition is None else original_partition

    def __repr__(self) -> str:
        return (
            f"SinkRecord(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, key={self.key!r}, "
            f"value={self.value!r})"
        )


class RawBatch:
    """Undecoded records of one topic partition, as columns; for sinks that decode whole batches themselves.

    All lists have the same length; ``headers`` is None when no record of the batch has any, else a list with, per record,
    None or a list of ``(name, bytes or None)``. Offsets grow but may have gaps (transactions, compaction).
    """

    __slots__ = ("headers", "keys", "offsets", "partition", "timestamps", "topic", "values")

    def __init__(
        self,
        topic: str,
        partition: int,
        offsets: list[int],
        keys: list[bytes | None],
        values: list[bytes | None],
        timestamps: list[int],
        headers: list[list[tuple[str, bytes | None]] | None] | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offsets = offsets
        self.keys = keys
        self.values = values
        self.timestamps = timestamps
        self.headers = headers

    def __len__(self) -> int:
        return len(self.offsets)
