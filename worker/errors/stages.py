"""The stages of a record, and the failure of one record in one of them.

A stage raises :class:`StageError` for a record that fails; :mod:`worker.errors.handler` decides what to do with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Protocol, TypeVar

from connect.errors import ConnectError, DataError, ErrantRecordError, causes
from connect.record import ConnectRecord, SinkRecord
from worker.error_text import describe
from worker.model import TaskStopped

T = TypeVar("T")


class Attempt(Protocol):
    """Calls an operation, with retries as configured by the connector's ``errors.retry.*``."""

    def __call__(self, operation: Callable[[], T]) -> T: ...


class RecordStage(Enum):
    """Kafka Connect's stages; the names appear in dead letter headers."""

    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    TASK_POLL = "TASK_POLL"
    TASK_PUT = "TASK_PUT"


class StageError(ConnectError):
    """One record failed in one stage. The message names stage, class, record, and reason; the reason is ``__cause__``."""

    def __init__(self, stage: RecordStage, plugin: object, location: str, cause: BaseException, alias: str | None = None) -> None:
        name = type(plugin).__name__
        step = f"{stage.value.lower().replace('_', ' ')} {f'{alias} ({name})' if alias else name}"
        field = unnamed_field(cause)
        part = f"{'header' if stage is RecordStage.HEADER_CONVERTER else 'field'} {field}, " if field else ""
        super().__init__(f"{_with_reason(cause)} (in {step}, {part}{location})")
        self.stage = stage
        self.plugin = plugin
        self.alias = alias
        self.__cause__ = cause

    @property
    def skips(self) -> bool:
        """Whether the source says to skip the record, although failures are not tolerated."""
        return next((cause.skip for cause in causes(self) if isinstance(cause, ErrantRecordError)), False)

    @property
    def reason(self) -> BaseException:
        """The error that the stage raised."""
        return self if self.__cause__ is None else self.__cause__


class ToleranceExceededError(ConnectError):
    """A record failed and ``errors.tolerance`` is none. The message starts like Apache's, which scripts search for."""

    def __init__(self, failure: StageError) -> None:
        super().__init__(f"Tolerance exceeded in error handler: {failure.message}")
        self.__cause__ = failure


class TaskPutError(ConnectError):
    """A sink task's ``put`` failed for good. The message starts like Apache's."""

    def __init__(self, task: object, records: str, cause: Exception) -> None:
        where = f"in task put {type(task).__name__}, {records}"
        super().__init__(f"Exiting WorkerSinkTask due to unrecoverable exception. {describe(cause)} ({where})")
        self.__cause__ = cause


def _with_reason(error: BaseException) -> str:
    """Returns the error's message. Some of Apache's messages end with a colon and no reason; this adds the reason."""
    text = describe(error)
    if text.rstrip().endswith(":") and error.__cause__ is not None:
        return f"{text.rstrip()} {describe(error.__cause__)}"
    return text


def unnamed_field(error: BaseException) -> str | None:
    """Returns the field that an error is about, if it is known and not named in the message."""
    field = error.field if isinstance(error, DataError) else None
    return None if field is None or re.search(rf"(?<!\w){re.escape(field)}(?!\w)", str(error)) else field


def run_stage(
    stage: RecordStage,
    plugin: object,
    location: Callable[[], str],
    attempt: Attempt,
    operation: Callable[[], T],
    alias: str | None = None,
) -> T:
    """Returns the result of the operation, called by ``attempt``. Raises StageError, or TaskStopped."""
    try:
        return attempt(operation)
    except TaskStopped:
        raise
    except Exception as e:
        raise StageError(stage, plugin, location(), e, alias) from e


def once(operation: Callable[[], T]) -> T:
    """Calls the operation without retries."""
    return operation()


def record_location(record: ConnectRecord) -> str:
    """Returns where a record came from. Its contents may be secret and are left out."""
    if isinstance(record, SinkRecord):
        return f"topic {record.original_topic}, partition {record.original_partition}, offset {record.offset}"
    partition, offset = getattr(record, "source_partition", None), getattr(record, "source_offset", None)
    return f"record for topic {record.topic}, source partition {partition}, source offset {offset}"
