"""Formats reports of a failed record: the log line, the headers of a dead letter, and the dead letter itself. Does no I/O.

Texts and header names are those of Kafka Connect's ``LogReporter`` and ``DeadLetterQueueReporter``: people search logs for the
texts and filter on the headers.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from connect.data.java_text import java_text
from connect.data.schema import Schema
from connect.errors import ConnectError
from connect.record import CREATE_TIME, LOG_APPEND_TIME, ErrantSourceRecord, SourceRecord
from connect.record_format import record_to_json
from connect.trace_context import TRACEPARENT, format_traceparent
from connect.tracing import SpanLink
from worker.config.secrets import SecretMask
from worker.error_text import describe
from worker.errors.stages import RecordStage, StageError
from worker.errors.trace import java_name, trace_of
from worker.model import TaskId

HeaderBytes = list[tuple[str, bytes | None]]

_PREFIX = "__connect.errors."
_OVERHEAD_BYTES = 1024
"""Bytes of a record other than key, value, and headers, with a margin."""
_MAX_TRACE_CHARACTERS = 65_536
"""With a longer stack trace the record might be too large for the topic."""
_CLASS_OF_STAGE = {
    RecordStage.KAFKA_PRODUCE: "org.apache.kafka.connect.runtime.WorkerSourceTask",
    RecordStage.TASK_PUT: "org.apache.kafka.connect.sink.SinkTask",
}
"""The class that Apache's workers name if no plugin is involved."""


class ConsumedRecord(NamedTuple):
    """A record as it is stored in a topic."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: HeaderBytes


class DeadLetterRecord(NamedTuple):
    """A record for a dead letter queue. ``timestamp`` None means the time of writing."""

    key: bytes | None
    value: bytes | None
    headers: HeaderBytes
    timestamp: int | None


class FailedRecord(NamedTuple):
    """A failed record with everything that is reported about it."""

    task: TaskId
    failure: StageError
    plugin_class: str
    """The Java name of the plugin that failed, or its path."""
    original: ConsumedRecord | SourceRecord | None
    """The unchanged record; None if it is not known any more."""

    @property
    def executing_class(self) -> str:
        """The class that Apache's workers name."""
        return _CLASS_OF_STAGE.get(self.failure.stage, self.plugin_class)


def log_message(failed: FailedRecord, *, include_record: bool) -> str:
    """Returns the log line for a failed record; without ``include_record`` it has nothing of the record itself."""
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
    """Returns a record's topic, partition, offset, and timestamp as text."""
    when = ""
    if record.timestamp_type in (CREATE_TIME, LOG_APPEND_TIME):
        shown = -1 if record.timestamp is None else record.timestamp
        when = f", timestamp={shown}, timestampType={record.timestamp_type}"
    return f"{{topic='{record.topic}', partition={record.partition}, offset={record.offset}{when}}}"


def source_record_text(record: SourceRecord) -> str:
    """Returns a source record as its Java ``toString`` does, including its contents."""
    if isinstance(record, ErrantSourceRecord):
        return (
            f"ErrantSourceRecord{{sourcePartition={java_text(None, record.source_partition)}, "
            f"sourceOffset={java_text(None, record.source_offset)}, topic='{record.topic}', texts={_json(record.texts)}}}"
        )
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
    """Returns the ten headers that describe the failure."""
    original = failed.original
    headers: list[tuple[str, str | None]] = []
    if isinstance(original, SourceRecord):
        headers += [
            ("topic", original.topic),
            ("partition", _json(original.source_partition)),
            ("offset", _json(original.source_offset)),
        ]
    elif original is not None:
        headers += [("topic", original.topic), ("partition", str(original.partition)), ("offset", str(original.offset))]
    reason = failed.failure.reason
    message = _message(reason)
    # Promise 9: secrets are masked in message and stack trace.
    headers += [
        ("connector.name", failed.task.connector),
        ("task.id", str(failed.task.task)),
        ("stage", failed.failure.stage.value),
        ("class.name", failed.executing_class),
        ("exception.class.name", java_name(reason)),
        ("exception.message", None if message is None else mask.mask(message)),
        ("exception.stacktrace", trace_of(reason, mask)[:_MAX_TRACE_CHARACTERS] + "\n"),
    ]
    return [(_PREFIX + name, None if text is None else text.encode("utf-8", "replace")) for name, text in headers]


def trace_headers(failed: FailedRecord, active: SpanLink | None) -> HeaderBytes:
    """Returns the trace context of a source record's dead letter: its own, else the active span. A consumed record has its own
    header, if any, among those that are written unchanged."""
    original = failed.original
    if not isinstance(original, SourceRecord):
        return []
    own = None if original.headers is None else original.headers.last_with_name(TRACEPARENT)
    if own is not None:
        return [(TRACEPARENT, own.value.encode("utf-8", "replace"))] if isinstance(own.value, str) else []
    return [] if active is None else [(TRACEPARENT, format_traceparent(active).encode())]


def _message(error: BaseException) -> str | None:
    if isinstance(error, ConnectError):
        return error.message if error.args else None
    return describe(error)


def build_dead_letter(failed: FailedRecord, headers: HeaderBytes, max_record_bytes: int) -> DeadLetterRecord | None:
    """Returns the dead letter, with these headers added to the record's own; None if the record is not known any more.

    A consumed record is written unchanged; one without a timestamp (-1) gets the time of writing. A source record has no bytes
    yet: it is written as JSON in the format that ``sluice preview`` reads, with its source partition as the key. Its contents are
    omitted if they would exceed ``max_record_bytes``: the record may have failed because of its size.
    """
    original = failed.original
    if original is None:
        return None
    if isinstance(original, SourceRecord):
        key = None if original.source_partition is None else _json(original.source_partition).encode("utf-8", "replace")
        size = sum(len(name) + len(data or b"") for name, data in headers) + len(key or b"") + _OVERHEAD_BYTES
        return DeadLetterRecord(key, _source_record_json(original, max_record_bytes - size), headers, None)
    timestamp = original.timestamp if original.timestamp is not None and original.timestamp >= 0 else None
    return DeadLetterRecord(original.key, original.value, [*original.headers, *headers], timestamp)


def _source_record_json(record: SourceRecord, max_record_bytes: int) -> bytes:
    if isinstance(record, ErrantSourceRecord):
        whole = _outline(record, None, {"text": _json(record.texts)}, [])
        return whole if len(whole) <= max_record_bytes else _outline(record, None, {"omitted": f"{len(whole)} bytes"}, [])
    try:
        whole = _json(record_to_json(record)).encode("utf-8", "replace")
    except Exception:
        # The failure may be a value of a type that records cannot have: show what can be shown.
        headers = [{"key": h.key, "text": repr(h.value)} for h in record.headers or ()]
        whole = _outline(record, {"text": repr(record.key)}, {"text": repr(record.value)}, headers)
    if len(whole) <= max_record_bytes:
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
