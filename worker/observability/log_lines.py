"""Log records as lines of one connector: plain data that crosses processes and REST, without secrets (promise 9)."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.errors import DataError
from worker.config.secrets import SecretMask
from worker.error_text import encodable
from worker.model import TaskId
from worker.observability.log_context import current_instance
from worker.observability.loggers import LEVELS, level_name

MAX_MESSAGE_CHARACTERS, MAX_TRACE_CHARACTERS = 16_384, 65_536
_OVERHEAD_BYTES = 400
"""Memory of a line besides its texts, measured."""
_NAMES_CONNECTOR = re.compile(r"[Cc]onnector '?%s")
_PLACEHOLDER = re.compile(r"%[-#0 +]*[\d.]*[a-zA-Z]")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One log record of a connector."""

    connector: str
    task: int | None
    """None for the connector itself."""
    at_ms: int
    level: str
    """In Log4j's spelling, as for ``/admin/loggers``."""
    logger: str
    message: str
    trace: str | None

    @property
    def size_bytes(self) -> int:
        """About how much memory the line takes."""
        return _OVERHEAD_BYTES + len(self.message) + len(self.trace or "")

    def to_plain(self) -> list[Any]:
        return [self.connector, self.task, self.at_ms, self.level, self.logger, self.message, self.trace]

    @classmethod
    def of_plain(cls, plain: Any, mask: SecretMask) -> LogLine:
        """Returns the line of a process that is not trusted; masks secrets once more. Raises DataError."""
        match plain:
            case [str(name), int() | None as task, int(at_ms), str(level), str(logger), str(message), str() | None as trace]:
                return cls(
                    name, task, at_ms, level, logger,
                    _shorten(mask.mask(message), MAX_MESSAGE_CHARACTERS),
                    None if trace is None else _shorten(mask.mask(trace), MAX_TRACE_CHARACTERS),
                )  # fmt: skip
            case _:
                raise DataError("not a log line")


def line_of(record: logging.LogRecord, mask: SecretMask) -> LogLine | None:
    """Returns the line of a log record, on the thread that logs it; None if it is about no single connector."""
    instance = _instance_of(record)
    if instance is None:
        return None
    connector, task = instance
    trace = record.exc_text
    if trace is None and record.exc_info and record.exc_info[0] is not None:
        trace = "".join(traceback.format_exception(*record.exc_info)).rstrip()
    return LogLine(
        connector,
        task,
        int(record.created * 1000),
        level_name(record.levelno),
        record.name,
        _shorten(mask.mask(encodable(record.getMessage())), MAX_MESSAGE_CHARACTERS),
        None if trace is None else _shorten(mask.mask(encodable(trace)), MAX_TRACE_CHARACTERS),
    )


def _instance_of(record: logging.LogRecord) -> tuple[str, int | None] | None:
    """Returns connector and task of the thread, else those that the message is about: herders work on all connectors."""
    if (instance := current_instance()) is not None:
        return instance
    arguments = record.args
    if not isinstance(arguments, tuple):
        return None
    for argument in arguments:
        if isinstance(argument, TaskId):
            return argument.connector, argument.task
    if isinstance(record.msg, str) and (named := _NAMES_CONNECTOR.search(record.msg)):
        position = len(_PLACEHOLDER.findall(record.msg.replace("%%", "")[: named.start()]))
        if position < len(arguments) and isinstance(name := arguments[position], str):
            return name, None
    return None


def _shorten(text: str, max_characters: int) -> str:
    omitted = len(text) - max_characters
    return text if omitted <= 0 else f"{text[:max_characters]} ... ({omitted} characters are omitted)"


def matches(line: LogLine, *, min_level: int, task: int | None, since_ms: int) -> bool:
    """Whether a line passes these filters."""
    return line.at_ms >= since_ms and LEVELS.get(line.level, logging.INFO) >= min_level and (task is None or line.task == task)


def line_json(seq: int, line: LogLine, worker_id: str) -> Mapping[str, Any]:
    """Returns a line as REST shows it."""
    return {
        "seq": seq,
        "at_ms": line.at_ms,
        "level": line.level,
        "logger": line.logger,
        "worker_id": worker_id,
        "task": line.task,
        "message": line.message,
        "trace": line.trace,
    }
