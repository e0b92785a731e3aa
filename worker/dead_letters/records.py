"""Reads the records of dead letters, as the connector's transformations got them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from connect.data.headers import Headers
from connect.errors import DataError
from connect.functions.schemas import copy_value
from connect.record import CREATE_TIME, ConnectRecord, SinkRecord, SourceRecord
from connect.transforms.record_copies import copy_record
from worker.config.secrets import SecretMask
from worker.dead_letters.letters import DeadLetter, parse_source_letter
from worker.preview.conversion import Message, PreviewConverters
from worker.preview.errors import READ, PreviewFailure, build_failure
from worker.preview.record_lines import RecordDefaults, parse_record

R = TypeVar("R", bound=ConnectRecord)


def read_record(letter: DeadLetter, converters: PreviewConverters | None) -> ConnectRecord | PreviewFailure:
    """Returns the record of a sink's dead letter, read with its converters; without them, that of a source, which is JSON."""
    stored = letter.stored
    if converters is None:
        return _read_source_record(letter)
    topic, partition, offset = letter.origin or (letter.context.topic or stored.topic, 0, stored.offset)
    read = converters.read(Message(topic, stored.key, stored.value, letter.original_headers), offset)
    if isinstance(read, PreviewFailure):
        return read
    return SinkRecord(
        topic, partition, read.key_schema, read.key, read.value_schema, read.value, offset, stored.timestamp_ms, CREATE_TIME,
        read.headers,
    )  # fmt: skip


def copy_whole(record: R) -> R:
    """Copies a record with its key, value, and headers."""
    copied = copy_record(record)
    copied.key, copied.value = copy_value(record.key), copy_value(record.value)
    if record.headers is not None:
        copied.headers = Headers(one._replace(value=copy_value(one.value)) for one in record.headers)
    return copied


def _read_source_record(letter: DeadLetter) -> ConnectRecord | PreviewFailure:
    stored = letter.stored
    try:
        node = parse_source_letter(stored.value)
        if isinstance(node, dict) and any(_is_shown_only(node.get(part)) for part in ("key", "value")):
            raise DataError("the dead letter has no record that can be read again, only its text")
        record = parse_record(node, RecordDefaults(letter.context.topic or stored.topic, is_sink=False), 0)
    except (ValueError, DataError) as e:
        return build_failure(e if isinstance(e, DataError) else DataError(f"not JSON: {e}"), READ)
    if not isinstance(record, SourceRecord):
        return build_failure(DataError("not a record of a source"), READ)
    return record


def _is_shown_only(node: Any) -> bool:
    return isinstance(node, Mapping) and bool({"text", "omitted"} & set(node))


def mask_failure(failure: PreviewFailure, mask: SecretMask) -> PreviewFailure:
    """Returns the failure without secrets."""
    return PreviewFailure(failure.java_class, mask.mask(failure.message), failure.stage, failure.transform, failure.field)
