"""VerifiableSource: counts up, and prints a line for each record produced and for each acknowledgment."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from connect.config.types import ConfigType
from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.record import SourceRecord
from connect.source import SourceTask
from connectors.verifiable.config import ID, NAME, THROUGHPUT, TOPIC, is_true, require_int, require_text
from connectors.verifiable.numbered import NumberedTasksSource
from connectors.verifiable.sequence import SEQNO, RateLimiter, next_seqno
from connectors.verifiable.stdout import write_lines

COMPLETE_RECORD_DATA = "complete.record.data"
BATCH = 500
_TASK = "VerifiableSourceTask"
_log = logging.getLogger(__name__)

COMPLETE_VALUE = (
    SchemaBuilder.struct()
    .field("name", Schema.STRING)
    .field("task", Schema.INT32)
    .field("topic", Schema.STRING)
    .field("time_ms", Schema.INT64)
    .field("seqno", Schema.INT64)
    .build()
)


class VerifiableSource(NumberedTasksSource):
    """``org.apache.kafka.connect.tools.VerifiableSourceConnector``."""

    open_prefixes = (TOPIC, THROUGHPUT, COMPLETE_RECORD_DATA)

    def task_class(self) -> type[SourceTask]:
        return VerifiableSourceTask


class VerifiableSourceTask(SourceTask):
    """Produces the numbers of one task. The key is the task's number (int32), the value the number (int64), or with
    ``complete.record.data`` a struct of all members of the line.

    A line reports a produced number (``{"task":0,"seqno":7,"time_ms":...,"name":...,"topic":...}``); another one with
    ``"committed":true`` reports its acknowledgment by the broker. Members are in the order of Apache's task. The lines of a
    batch are one write; acknowledgments are printed with the next batch.
    """

    wants_commit_record = True

    def __init__(self) -> None:
        self._rate_limiter: RateLimiter | None = None
        self._committed: list[int] = []

    def start(self, config: Mapping[str, str]) -> None:
        name = config.get(NAME)
        self._name = "" if name is None else name
        self._id = require_int(_TASK, config, ID)
        self._topic = require_text(_TASK, config, TOPIC)
        rate = require_int(_TASK, config, THROUGHPUT, ConfigType.LONG)
        self._complete = is_true(config, COMPLETE_RECORD_DATA)
        self._partition = {ID: self._id}
        self._seqno = next_seqno(self.context.offset_reader, self._partition)
        self._names = f'"name":{orjson.dumps(name).decode()},"topic":{orjson.dumps(self._topic).decode()}'
        self._rate_limiter = RateLimiter(rate)
        _log.info("Task %s-%d continues at number %d of topic %s", name, self._id, self._seqno, self._topic)

    def poll(self) -> Sequence[SourceRecord] | None:
        self._print_committed()
        assert self._rate_limiter is not None
        number = self._rate_limiter.wait_for_due(BATCH)
        if not number:
            return None
        first, self._seqno = self._seqno, self._seqno + number
        now_ms = _now_ms()
        begin, end = f'{{"task":{self._id},"seqno":', f',"time_ms":{now_ms},{self._names}}}\n'
        write_lines("".join([f"{begin}{seqno}{end}" for seqno in range(first, self._seqno)]).encode())
        return [self._record(seqno, now_ms) for seqno in range(first, self._seqno)]

    def _record(self, seqno: int, now_ms: int) -> SourceRecord:
        schema: Schema = Schema.INT64
        value: Any = seqno
        if self._complete:
            schema, value = COMPLETE_VALUE, Struct(COMPLETE_VALUE, [self._name, self._id, self._topic, now_ms, seqno])
        return SourceRecord(self._partition, {SEQNO: seqno}, self._topic, None, Schema.INT32, self._id, schema, value)

    def commit_record(self, record: SourceRecord, metadata: Any | None) -> None:
        # The offset instead of the value as in Apache's task, which cannot print a struct.
        assert record.source_offset is not None
        self._committed.append(record.source_offset[SEQNO])

    def commit(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        self._print_committed()

    def _print_committed(self) -> None:
        if self._committed:
            begin, end = f'{{"committed":true,"task":{self._id},"seqno":', f',"time_ms":{_now_ms()},{self._names}}}\n'
            write_lines("".join([f"{begin}{seqno}{end}" for seqno in self._committed]).encode())
            self._committed = []

    def progress(self) -> Mapping[str, Any]:
        return {SEQNO: self._seqno}

    def stop(self) -> None:
        if self._rate_limiter is not None:
            self._rate_limiter.stop()

    def close(self) -> None:
        self._print_committed()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
