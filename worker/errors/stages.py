"""The stages a record goes through, and the failure of one record in one of them.

A stage raises :class:`StageError` for the record that fails; what becomes of it is decided in :mod:`worker.errors.handler`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Protocol, TypeVar

from connect.errors import ConnectError, DataError
from connect.record import ConnectRecord, SinkRecord
from worker.error_text import describe
from worker.model import Stopped

T = TypeVar("T")


class Attempt(Protocol):
    """Calls an operation, and calls it again as the connector's ``errors.retry.*`` say."""

    def __call__(self, operation: Callable[[], T]) -> T: ...


class Stage(Enum):
    """Kafka Connect's stages; names as in dead letter queue headers."""

    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    TASK_PUT = "TASK_PUT"


class StageError(ConnectError):
    """One record failed in one stage. The message names stage, class, record and reason; the reason is ``__cause__``."""

    def __init__(self, stage: Stage, plugin: object, where: str, cause: BaseException, alias: str | None = None) -> None:
        name = type(plugin).__name__
        step = f"{stage.value.lower().replace('_', ' ')} {f'{alias} ({name})' if alias else name}"
        field = unnamed_field(cause)
        part = f"{'header' if stage is Stage.HEADER_CONVERTER else 'field'} {field}, " if field else ""
        super().__init__(f"{_with_reason(cause)} (in {step}, {part}{where})")
        self.stage = stage
        self.plugin = plugin
        self.alias = alias
        self.__cause__ = cause

    @property
    def reason(self) -> BaseException:
        """What the stage itself raised."""
        return self if self.__cause__ is None else self.__cause__


class ToleranceExceededError(ConnectError):
    """A record failed and ``errors.tolerance`` is none. Begins with the words of Apache's workers, which scripts look for."""

    def __init__(self, failure: StageError) -> None:
        super().__init__(f"Tolerance exceeded in error handler: {failure.message}")
        self.__cause__ = failure


class TaskPutError(ConnectError):
    """A sink task's ``put`` failed for good. Begins with the words of Apache's workers."""

    def __init__(self, task: object, given: str, cause: Exception) -> None:
        where = f"in task put {type(task).__name__}, {given}"
        super().__init__(f"Exiting WorkerSinkTask due to unrecoverable exception. {describe(cause)} ({where})")
        self.__cause__ = cause


def _with_reason(error: BaseException) -> str:
    """What the error says. Some messages of Apache's announce a reason and do not give it; here it is given."""
    text = describe(error)
    if text.rstrip().endswith(":") and error.__cause__ is not None:
        return f"{text.rstrip()} {describe(error.__cause__)}"
    return text


def unnamed_field(error: BaseException) -> str | None:
    """The field that an error is about, where it is known and the message does not name it."""
    field = error.field if isinstance(error, DataError) else None
    return None if field is None or re.search(rf"(?<!\w){re.escape(field)}(?!\w)", str(error)) else field


def run_stage(
    stage: Stage,
    plugin: object,
    where: Callable[[], str],
    attempt: Attempt,
    operation: Callable[[], T],
    alias: str | None = None,
) -> T:
    """What the operation returns, tried as often as ``attempt`` does. Raises StageError, or Stopped."""
    try:
        return attempt(operation)
    except Stopped:
        raise
    except Exception as e:
        raise StageError(stage, plugin, where(), e, alias) from e


def once(operation: Callable[[], T]) -> T:
    """An attempt without another."""
    return operation()


def whereabouts(record: ConnectRecord) -> str:
    """Which record it is: where it came from, not what it holds, for that may be secret."""
    if isinstance(record, SinkRecord):
        return f"topic {record.original_topic}, partition {record.original_partition}, offset {record.offset}"
    partition, offset = getattr(record, "source_partition", None), getattr(record, "source_offset", None)
    return f"record for topic {record.topic}, source partition {partition}, source offset {offset}"
