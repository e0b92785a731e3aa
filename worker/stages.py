"""The stages a record goes through, and the failure of one record in one of them.

This is the seam for error tolerance: what is to happen to a record that fails is decided where a :class:`StageError` is caught.
In this release it always fails the task, as ``errors.tolerance=none`` asks.
"""

from __future__ import annotations

from enum import Enum

from connect.errors import ConnectError
from connect.record import ConnectRecord, SinkRecord


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
        super().__init__(f"{describe(cause)} (in {step}, {where})")
        self.stage = stage
        self.plugin = plugin
        self.alias = alias
        self.__cause__ = cause


def describe(error: BaseException) -> str:
    """The error in a line: its message, with its class where that says more."""
    if isinstance(error, ConnectError) and error.message:
        return error.message
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def whereabouts(record: ConnectRecord) -> str:
    """Which record it is: where it came from, not what it holds, for that may be secret."""
    if isinstance(record, SinkRecord):
        return f"topic {record.original_topic}, partition {record.original_partition}, offset {record.offset}"
    source = getattr(record, "source_offset", None)
    return f"record for topic {record.topic}, source offset {source}"
