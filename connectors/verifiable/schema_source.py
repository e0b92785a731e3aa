"""SchemaSource: structs with all number types, with one schema version or two in turn."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from connect.config.types import ConfigType
from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.record import SourceRecord
from connect.source import SourceTask
from connectors.verifiable.config import ID, NAME, THROUGHPUT, TOPIC, is_true, require_int, require_text
from connectors.verifiable.numbered import NumberedTasksSource
from connectors.verifiable.sequence import SEQNO, RateLimiter, next_seqno
from connectors.verifiable.stdout import write_lines

NUM_MESSAGES = "num.messages"
MULTIPLE_SCHEMA = "multiple.schema"
PARTITIONS = "partition.count"
BATCH = 500
_TASK = "SchemaSourceTask"
_log = logging.getLogger(__name__)


def _number_fields(version: int) -> SchemaBuilder:
    return (
        SchemaBuilder.struct()
        .version(version)
        .name("record")
        .field("boolean", Schema.BOOLEAN)
        .field("int", Schema.INT32)
        .field("long", Schema.INT64)
        .field("float", Schema.FLOAT32)
        .field("double", Schema.FLOAT64)
        .field("partitioning", Schema.INT32)
    )


SCHEMA_V1 = _number_fields(1).field("id", Schema.INT32).field("seqno", Schema.INT64).build()
SCHEMA_V2 = (
    _number_fields(2)
    .field("string", SchemaBuilder.string().default("abc").build())
    .field("id", Schema.INT32)
    .field("seqno", Schema.INT64)
    .build()
)


class SchemaSource(NumberedTasksSource):
    """``org.apache.kafka.connect.tools.SchemaSourceConnector``."""

    open_prefixes = (TOPIC, THROUGHPUT, NUM_MESSAGES, MULTIPLE_SCHEMA, PARTITIONS)

    def task_class(self) -> type[SourceTask]:
        return SchemaSourceTask


class SchemaSourceTask(SourceTask):
    """Produces ``num.messages`` records per start, to the Kafka partition with the task's number; then idles."""

    def __init__(self) -> None:
        self._rate_limiter: RateLimiter | None = None

    def start(self, config: Mapping[str, str]) -> None:
        self._id = require_int(_TASK, config, ID)
        self._topic = require_text(_TASK, config, TOPIC)
        self._left = require_int(_TASK, config, NUM_MESSAGES, ConfigType.LONG)
        self._partitions = require_int(_TASK, {PARTITIONS: "1", **config}, PARTITIONS)
        rate = require_int(_TASK, config, THROUGHPUT, ConfigType.LONG)
        self._two_schemas = is_true(config, MULTIPLE_SCHEMA)
        self._partition = {ID: self._id}
        self._first = self._seqno = next_seqno(self.context.offset_reader, self._partition)
        self._rate_limiter = RateLimiter(rate)
        _log.info("Task %s-%d continues at number %d of topic %s", config.get(NAME), self._id, self._seqno, self._topic)

    def poll(self) -> Sequence[SourceRecord] | None:
        assert self._rate_limiter is not None
        if self._left <= 0:
            self._rate_limiter.idle()
            return None
        number = self._rate_limiter.wait_for_due(min(BATCH, self._left))
        first, self._seqno = self._seqno, self._seqno + number
        self._left -= number
        seqnos = range(first, self._seqno)
        write_lines("".join([f'{{"task": {self._id}, "seqno": {seqno}}}\n' for seqno in seqnos]).encode())
        return [self._record(seqno) for seqno in seqnos]

    def _record(self, seqno: int) -> SourceRecord:
        partitioning = seqno % self._partitions
        numbers = [True, 12, 12, 12.2, 12.2, partitioning]
        if self._two_schemas and (seqno - self._first) % 2:
            schema, value = SCHEMA_V2, Struct(SCHEMA_V2, [*numbers, "def", self._id, seqno])
        else:
            schema, value = SCHEMA_V1, Struct(SCHEMA_V1, [*numbers, self._id, seqno])
        return SourceRecord(
            self._partition, {SEQNO: seqno}, self._topic, self._id, Schema.STRING, "key", schema, value
        )  # fmt: skip

    def progress(self) -> Mapping[str, Any]:
        return {SEQNO: self._seqno, "left": self._left}

    def stop(self) -> None:
        if self._rate_limiter is not None:
            self._rate_limiter.stop()
