"""The reporter that a sink task gets (KIP-610): what it cannot deliver goes the way of what cannot be converted."""

from __future__ import annotations

from concurrent.futures import Future

from connect.record import SinkRecord
from connect.sink import RawRecord, SinkTask
from worker.errors.dead_letter import ConsumedRecord
from worker.errors.handler import ErrorHandler
from worker.errors.stages import Stage, StageError
from worker.sink.decoding import ConsumedSinkRecord, consumed
from worker.source.encoding import encode_one
from worker.tasks.converters import Converters


class ErrantReporter:
    """Implements :class:`connect.sink.ErrantRecordReporter` for one task."""

    def __init__(self, task: SinkTask, converters: Converters, errors: ErrorHandler) -> None:
        self._task = task
        self._converters = converters
        self._errors = errors

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        if isinstance(record, ConsumedSinkRecord):
            return self._report(consumed(record.message), error)
        # The task made this one; its bytes are those that converters make of it.
        run = encode_one(self._converters, record)
        headers = run.headers[0] if run.headers else None
        place = record.topic, record.partition, record.offset
        return self._report(
            ConsumedRecord(*place, record.timestamp, record.timestamp_type, run.keys[0], run.values[0], headers or []), error
        )

    def report_raw(self, record: RawRecord, error: Exception) -> Future[None]:
        place = record.topic, record.partition, record.offset
        content = record.key, record.value, list(record.headers)
        return self._report(ConsumedRecord(*place, record.timestamp, record.timestamp_type, *content), error)

    def _report(self, record: ConsumedRecord, error: Exception) -> Future[None]:
        where = f"topic {record.topic}, partition {record.partition}, offset {record.offset}"
        return self._errors.failed(StageError(Stage.TASK_PUT, self._task, where, error), record)
