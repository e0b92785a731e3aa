"""VerifiableSink: prints a line for each record, and another when its offset is committed."""

from __future__ import annotations

import base64
import time
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

import orjson

from connect.connector import SinkConnector
from connect.data.struct import Struct
from connect.record import SinkRecord, TopicPartition
from connect.sink import Offsets, SinkTask
from connectors.verifiable.config import ID, NAME, require_int
from connectors.verifiable.numbered import NumberedTasksConnector
from connectors.verifiable.stdout import write_lines

_TASK = "VerifiableSinkTask"
_FLUSHED = ',"flushed":true}\n'


class VerifiableSink(NumberedTasksConnector, SinkConnector):
    """``org.apache.kafka.connect.tools.VerifiableSinkConnector``."""

    def task_class(self) -> type[SinkTask]:
        return VerifiableSinkTask

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        return False  # as in Apache Kafka: the worker changes the group's offsets


class VerifiableSinkTask(SinkTask):
    """Prints each record, and again with ``"flushed":true`` when offsets are committed.

    ``{"task":<key>,"seqno":<value>,"offset":3,"time_ms":...,"name":...,"topic":...,"sinkTask":0}``

    ``task`` is the key and ``seqno`` the value, as written by VerifiableSource. Members are in the order of Apache's task. The
    lines of a batch are one write.
    """

    def __init__(self) -> None:
        self._unflushed: dict[TopicPartition, list[tuple[str, str]]] = {}

    def start(self, config: Mapping[str, str]) -> None:
        self._id = require_int(_TASK, config, ID)
        self._name = orjson.dumps(config.get(NAME)).decode()

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        time_ms = str(_now_ms())
        lines: list[str] = []
        for record in records:
            before = f'{{"task":{_json(record.key)},"seqno":{_json(record.value)},"offset":{record.offset},"time_ms":'
            after = f',"name":{self._name},"topic":{_json(record.topic)},"sinkTask":{self._id}'
            lines += (before, time_ms, after, "}\n")
            self._unflushed.setdefault(TopicPartition(record.topic, record.partition), []).append((before, after))
        write_lines("".join(lines).encode())

    def flush(self, offsets: Offsets) -> None:
        time_ms = str(_now_ms())
        lines: list[str] = []
        for topic_partition in offsets:
            for before, after in self._unflushed.pop(topic_partition, ()):
                lines += (before, time_ms, after, _FLUSHED)
        write_lines("".join(lines).encode())

    def close_partitions(self, partitions: Collection[TopicPartition], *, lost: bool = False) -> None:
        # Records that were not flushed are redelivered to the partition's next owner.
        for topic_partition in partitions:
            self._unflushed.pop(topic_partition, None)


def _json(value: Any) -> str:
    if type(value) is int:
        return str(value)
    try:
        return orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError as e:
        return orjson.dumps(f"Bad data can't be written as json: {e}").decode()


def _plain(value: Any) -> Any:
    """Converts values that orjson does not support."""
    match value:
        case Struct():
            return dict(zip(value.schema.field_names, value.values, strict=True))
        case Decimal():
            return orjson.Fragment(str(value)) if value.is_finite() else str(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is not known")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
