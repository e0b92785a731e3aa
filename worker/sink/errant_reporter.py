"""The errant record reporter of a sink task (KIP-610): reported records are handled like those that cannot be converted."""

from __future__ import annotations

from concurrent.futures import Future

from connect.record import SinkRecord
from connect.sink import RawRecord, SinkTask
from worker.errors.dead_letter import ConsumedRecord
from worker.errors.handler import ErrorHandler
from worker.errors.stages import RecordStage, StageError
from worker.sink.decoding import ConsumedSinkRecord, to_consumed_record
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
            return self._report(to_consumed_record(record.message), error)
        # The task created this record: its bytes are what the converters return for it.
        run = encode_one(self._converters, record)
        headers = run.headers[0] if run.headers else None
        location = record.topic, record.partition, record.offset
        return self._report(
            ConsumedRecord(*location, record.timestamp, record.timestamp_type, run.keys[0], run.values[0], headers or []), error
        )

    def report_raw(self, record: RawRecord, error: Exception) -> Future[None]:
        location = record.topic, record.partition, record.offset
        content = record.key, record.value, list(record.headers)
        return self._report(ConsumedRecord(*location, record.timestamp, record.timestamp_type, *content), error)

    def _report(self, record: ConsumedRecord, error: Exception) -> Future[None]:
        where = f"topic {record.topic}, partition {record.partition}, offset {record.offset}"
        return self._errors.handle_failure(StageError(RecordStage.TASK_PUT, self._task, where, error), record)
