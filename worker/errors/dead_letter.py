"""How a failed record is told of: the log line, the headers of a dead letter, and the dead letter itself. Pure.

Texts and header names are those of Kafka Connect's ``LogReporter`` and ``DeadLetterQueueReporter``, for people search logs for
the one and have consumers that filter on the other.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from connect.data.schema import Schema
from connect.errors import ConnectError
from connect.java.text import java_text
from connect.record import CREATE_TIME, LOG_APPEND_TIME, SourceRecord
from connect.record_format import record_to_json
from worker.config.secrets import SecretMask
from worker.error_text import describe
from worker.errors.stages import Stage, StageError
from worker.errors.trace import java_name, trace_of
from worker.model import TaskId

HeaderBytes = list[tuple[str, bytes | None]]

_PREFIX = "__connect.errors."
_ROOM = 1024
"""Bytes of a record that are neither key, value nor headers, and some to spare."""
_MOST_TRACE = 65_536
"""A longer stack trace would keep the record out of the queue."""
_CLASS_OF_STAGE = {
    Stage.KAFKA_PRODUCE: "org.apache.kafka.connect.runtime.WorkerSourceTask",
    Stage.TASK_PUT: "org.apache.kafka.connect.sink.SinkTask",
}
"""What Apache's workers name where no plugin is at work."""


class ConsumedRecord(NamedTuple):
    """A record as it lay in a topic."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: HeaderBytes


class Letter(NamedTuple):
    """What is written to a dead letter queue. ``timestamp`` None is the time of writing."""

    key: bytes | None
    value: bytes | None
    headers: HeaderBytes
    timestamp: int | None


class FailedRecord(NamedTuple):
    """A failure with everything that is told about it."""

    task: TaskId
    failure: StageError
    plugin_class: str
    """The Java name of the plugin at work, or its path."""
    original: ConsumedRecord | SourceRecord | None
    """The record before anything was done to it; None where it is not known any more."""

    @property
    def executing_class(self) -> str:
        """The class that Apache's workers would name."""
        return _CLASS_OF_STAGE.get(self.failure.stage, self.plugin_class)


def log_message(failed: FailedRecord, *, include_record: bool) -> str:
    """The line that tells of a failed record; without ``include_record`` nothing of the record itself."""
    text = (
        f"Error encountered in task {failed.task}. Executing stage '{failed.failure.stage.value}' "
        f"with class '{failed.executing_class}'"
    )
    original = failed.original
    if include_record and isinstance(original, SourceRecord):
        text += f", where source record is = {source_record_text(original)}"
    elif include_record and isinstance(original, ConsumedRecord):
        text += f", where consumed record is {consumed_record_text(original)}"
    return text + "."


def consumed_record_text(record: ConsumedRecord) -> str:
    """Where a record lay, and when it was written."""
    when = ""
    if record.timestamp_type in (CREATE_TIME, LOG_APPEND_TIME):
        shown = -1 if record.timestamp is None else record.timestamp
        when = f", timestamp={shown}, timestampType={record.timestamp_type}"
    return f"{{topic='{record.topic}', partition={record.partition}, offset={record.offset}{when}}}"


def source_record_text(record: SourceRecord) -> str:
    """A source record as its ``toString`` in Java shows it, content and all."""
    partition = "null" if record.partition is None else record.partition
    timestamp = "null" if record.timestamp is None else record.timestamp
    headers = ", ".join(
        f"ConnectHeader(key={h.key}, value={java_text(h.schema, h.value)}, schema={_schema_text(h.schema)})"
        for h in record.headers or ()
    )
    return (
        f"SourceRecord{{sourcePartition={java_text(None, record.source_partition)}, "
        f"sourceOffset={java_text(None, record.source_offset)}}} "
        f"ConnectRecord{{topic='{record.topic}', kafkaPartition={partition}, "
        f"key={java_text(record.key_schema, record.key)}, keySchema={_schema_text(record.key_schema)}, "
        f"value={java_text(record.value_schema, record.value)}, valueSchema={_schema_text(record.value_schema)}, "
        f"timestamp={timestamp}, headers=ConnectHeaders(headers={f'[{headers}]' if headers else ''})}}"
    )


def _schema_text(schema: Schema | None) -> str:
    if schema is None:
        return "null"
    return f"Schema{{{schema.name}:{schema.type.name}}}" if schema.name is not None else f"Schema{{{schema.type.name}}}"


def context_headers(failed: FailedRecord, mask: SecretMask) -> HeaderBytes:
    """The ten headers that say what went wrong where. Secrets are hidden in message and stack trace (promise 9)."""
    place = failed.original
    headers: list[tuple[str, str | None]] = []
    if isinstance(place, SourceRecord):
        headers += [("topic", place.topic), ("partition", _json(place.source_partition)), ("offset", _json(place.source_offset))]
    elif place is not None:
        headers += [("topic", place.topic), ("partition", str(place.partition)), ("offset", str(place.offset))]
    reason = failed.failure.reason
    message = _message(reason)
    headers += [
        ("connector.name", failed.task.connector),
        ("task.id", str(failed.task.task)),
        ("stage", failed.failure.stage.value),
        ("class.name", failed.executing_class),
        ("exception.class.name", java_name(reason)),
        ("exception.message", None if message is None else mask.mask(message)),
        ("exception.stacktrace", trace_of(reason, mask)[:_MOST_TRACE] + "\n"),
    ]
    return [(_PREFIX + name, None if text is None else text.encode("utf-8", "replace")) for name, text in headers]


def _message(error: BaseException) -> str | None:
    if isinstance(error, ConnectError):
        return error.message if error.args else None
    return describe(error)


def letter_of(failed: FailedRecord, headers: HeaderBytes, most_bytes: int) -> Letter | None:
    """The dead letter with these headers added to its own; None when the record is not known any more.

    A consumed record goes as it was, byte for byte; one without a timestamp (-1) gets the time of writing. A source record has no
    bytes yet: it is written as JSON in the format that ``sluice preview`` reads, with its source partition as the key; without
    its content where that would make the letter larger than ``most_bytes``, for it may have failed for its size.
    """
    original = failed.original
    if original is None:
        return None
    if isinstance(original, SourceRecord):
        key = None if original.source_partition is None else _json(original.source_partition).encode("utf-8", "replace")
        size = sum(len(name) + len(data or b"") for name, data in headers) + len(key or b"") + _ROOM
        return Letter(key, _source_record_json(original, most_bytes - size), headers, None)
    timestamp = original.timestamp if original.timestamp is not None and original.timestamp >= 0 else None
    return Letter(original.key, original.value, [*original.headers, *headers], timestamp)


def _source_record_json(record: SourceRecord, most_bytes: int) -> bytes:
    try:
        whole = _json(record_to_json(record)).encode("utf-8", "replace")
    except Exception:
        # What failed may be that a value is of no type that a record can have. It is shown as well as may be.
        headers = [{"key": h.key, "text": repr(h.value)} for h in record.headers or ()]
        whole = _outline(record, {"text": repr(record.key)}, {"text": repr(record.value)}, headers)
    if len(whole) <= most_bytes:
        return whole
    return _outline(record, None, {"omitted": f"the record has {len(whole)} bytes as JSON"}, [])


def _outline(record: SourceRecord, key: Any, value: Any, headers: list[Any]) -> bytes:
    members = {
        "topic": record.topic,
        "partition": record.partition,
        "timestamp": record.timestamp,
        "key": key,
        "value": value,
        "headers": headers,
        "sourcePartition": record.source_partition,
        "sourceOffset": record.source_offset,
    }
    return _json(members).encode("utf-8", "replace")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)
