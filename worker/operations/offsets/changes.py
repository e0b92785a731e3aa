"""Checks and normalizes requests to change stored offsets (KIP-875). Pure.

A source's partitions and offsets are converted to JSON and back, as when they are stored, so that the connector checks what its
tasks will read. The texts are Apache's (recordings offsets-patch-*).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from connect.data.java_text import java_text
from connect.errors import BadRequestError, ConnectError, DataError
from connect.record import TopicPartition
from worker.model import OffsetEntry, TargetState
from worker.operations.offsets.request_map import as_java_map, sink_order, source_order
from worker.storage.offset_codec import decode_key, decode_value, encode_key, encode_value, partition_id
from worker.storage.offset_store import OffsetPair

TOPIC = "kafka_topic"
PARTITION = "kafka_partition"
OFFSET = "kafka_offset"

SinkOffsets = Mapping[TopicPartition, int | None]
"""New offsets of a sink's consumer group; None removes the partition."""

_INTEGER = re.compile(r"[+-]?\d+")
_INT_BITS, _LONG_BITS = 31, 63


def require_stopped(name: str, target: TargetState, task_count: int) -> None:
    """Raises BadRequestError unless the connector is stopped and has no tasks: a running task would overwrite changed offsets."""
    if target is not TargetState.STOPPED or task_count:
        raise BadRequestError(
            "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the specified "
            f"connector by issuing a 'PUT' request to the '/connectors/{name}/stop' endpoint"
        )


def require_offsets(offsets: Sequence[OffsetEntry] | None) -> None:
    """Raises BadRequestError for an empty request; checked before the connector is looked up (recording
    offsets-patch-unknown-connector-empty)."""
    if offsets is not None and not offsets:
        raise BadRequestError("Partitions / offsets need to be provided for an alter offsets request")


def source_changes(connector: str, offsets: Sequence[OffsetEntry]) -> list[OffsetPair]:
    """Returns a source's new offsets as they will be stored; the last entry of a duplicate partition counts.

    Raises DataError for maps that cannot be stored, such as nested ones and numbers of more than 64 bits.
    """
    found: dict[Any, OffsetPair] = {}
    for entry in as_java_map(offsets):
        key = decode_key(encode_key(connector, entry.partition))
        if key is None:
            raise DataError(f"the source partition {entry.partition} cannot be read back once it is stored")
        found[partition_id(key.partition)] = (key.partition, decode_value(encode_value(entry.offset)))
    return list(found.values())


def shown_entries(connector: str, stored: Sequence[OffsetEntry]) -> list[OffsetEntry]:
    """Returns a source's stored offsets as REST shows them; like Apache's workers, without that of a null partition."""
    return [entry for entry in source_order(connector, stored) if entry.partition is not None]


def sink_changes(offsets: Sequence[OffsetEntry]) -> dict[TopicPartition, int | None]:
    """Parses a sink's new offsets. Raises BadRequestError for maps of another form than REST returns."""
    return dict(_sink_change(entry.partition, entry.offset) for entry in as_java_map(offsets))


def sink_entries(offsets: SinkOffsets) -> list[OffsetEntry]:
    """Returns a consumer group's offsets as REST shows them, in Apache's order."""
    return [
        OffsetEntry({PARTITION: tp.partition, TOPIC: tp.topic}, None if (offset := offsets[tp]) is None else {OFFSET: offset})
        for tp in sink_order(offsets)
    ]


def sink_pairs(offsets: SinkOffsets) -> list[OffsetPair]:
    """Returns a consumer group's offsets in the form that the executor takes."""
    return [(entry.partition, entry.offset) for entry in sink_entries(offsets)]


def result_message(did_all: bool, *, reset: bool) -> str:
    """Returns REST's message for a successful change; ``did_all`` is the result of the connector's ``alter_offsets``."""
    done = "reset" if reset else "altered"
    if did_all:
        return f"The offsets for this connector have been {done} successfully"
    return (
        f"The Connect framework-managed offsets for this connector have been {done} successfully. However, if this connector "
        f"manages offsets externally, they will need to be manually {done} in the system that the connector uses."
    )


def unsupported(connector: str) -> ConnectError:
    """Builds the error for a connector that supports no changes."""
    return ConnectError(
        f"Failed to modify offsets for connector {connector} because it doesn't support external modification of offsets"
    )


def _sink_change(partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None) -> tuple[TopicPartition, int | None]:
    if partition is None:
        raise BadRequestError("The partition for a sink connector offset cannot be null or missing")
    if TOPIC not in partition or PARTITION not in partition:
        raise BadRequestError(f"The partition for a sink connector offset must contain the keys '{TOPIC}' and '{PARTITION}'")
    if partition[TOPIC] is None:
        raise BadRequestError("Kafka topic names must be valid strings and may not be null")
    if partition[PARTITION] is None:
        raise BadRequestError("Kafka partitions must be valid numbers and may not be null")
    number = _integer(partition[PARTITION], "Kafka partition", "Partition", _INT_BITS)
    tp = TopicPartition(java_text(None, partition[TOPIC]), number)
    if offset is None:
        return tp, None
    if OFFSET not in offset:
        raise BadRequestError(f"The offset for a sink connector should either be null or contain the key '{OFFSET}'")
    return tp, _integer(offset[OFFSET], "Kafka offset", "Offset", _LONG_BITS)


def _integer(value: Any, what: str, kind: str, bits: int) -> int:
    # As text, because "10" and 10 are both valid, and 1.0 is not.
    text = java_text(None, value)
    if _INTEGER.fullmatch(text) and -(1 << bits) <= (number := int(text)) < 1 << bits:
        return number
    raise BadRequestError(
        f"Failed to parse the following {what} value in the provided offsets: '{text}'. {kind} values for sink connectors need "
        "to be integers."
    )
