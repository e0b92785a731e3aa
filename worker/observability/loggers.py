"""Shows and sets log levels at run time, for ``/admin/loggers`` (KIP-495, KIP-976).

Loggers have Python names, and names of Apache's classes and packages (:data:`JAVA_LOGGERS`), so that a request for
``org.apache.kafka.connect.runtime.WorkerSinkTask`` also works here. Any other name is a Python logger of that name. A level
applies to every logger whose name starts with the given one, until the worker stops.

Levels belong to the process, so two workers in one process share them. Each worker knows only the time of its own changes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final

from connect.errors import ConnectError, NotFoundError
from worker.model import LoggerLevel

ROOT: Final = "root"

LEVELS: Final = {
    "ALL": 1,
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 10,
}
"""Log4j's levels as Python's, lowest first."""

logging.addLevelName(LEVELS["TRACE"], "TRACE")

_SOURCE = ("worker.source", "worker.kafka.topic_creation")
_PACKAGES = ("connect", "connectors", "worker", "rest", "sluice")

JAVA_LOGGERS: Final[dict[str, tuple[str, ...]]] = {
    "io.debezium.connector.postgresql": ("connectors.postgres",),
    "io.debezium.transforms": ("connect.transforms.debezium",),
    "org.apache.kafka.clients": ("kafka",),
    "org.apache.kafka.clients.admin": ("kafka.admin",),
    "org.apache.kafka.clients.consumer": ("kafka.consumer",),
    "org.apache.kafka.clients.producer": ("kafka.producer",),
    "org.apache.kafka.common.config.provider": ("connect.config.providers",),
    "org.apache.kafka.connect": _PACKAGES,
    "org.apache.kafka.connect.converters": ("connect.converters",),
    "org.apache.kafka.connect.file": ("connectors.file",),
    "org.apache.kafka.connect.json": ("connect.converters.json",),
    "org.apache.kafka.connect.runtime": ("worker", "rest"),
    "org.apache.kafka.connect.runtime.Worker": ("worker.executors", "worker.tasks"),
    "org.apache.kafka.connect.runtime.WorkerConnector": ("worker.standalone.connector", "worker.executors"),
    "org.apache.kafka.connect.runtime.WorkerSinkTask": ("worker.sink",),
    "org.apache.kafka.connect.runtime.WorkerSourceTask": _SOURCE,
    "org.apache.kafka.connect.runtime.AbstractWorkerSourceTask": _SOURCE,
    "org.apache.kafka.connect.runtime.ExactlyOnceWorkerSourceTask": _SOURCE,
    "org.apache.kafka.connect.runtime.distributed": ("worker.distributed", "worker.group"),
    "org.apache.kafka.connect.runtime.distributed.DistributedHerder": ("worker.distributed",),
    "org.apache.kafka.connect.runtime.distributed.WorkerCoordinator": ("worker.group",),
    "org.apache.kafka.connect.runtime.errors": ("worker.errors",),
    "org.apache.kafka.connect.runtime.isolation": ("connect.plugins", "worker.config.plugin_path"),
    "org.apache.kafka.connect.runtime.rest": ("rest",),
    "org.apache.kafka.connect.runtime.standalone": ("worker.standalone.herder", "sluice.run.standalone"),
    "org.apache.kafka.connect.storage": ("worker.storage", "worker.operations.offsets"),
    "org.apache.kafka.connect.tools": ("connectors.verifiable",),
    "org.apache.kafka.connect.transforms": ("connect.transforms",),
    "org.eclipse.jetty": ("uvicorn",),
}
"""Apache's packages and classes, with the Python loggers that log the same events. The first one is the level that is shown."""


def parse_level(text: str) -> str:
    """Returns the level in Log4j's spelling.

    Raises the errors of Apache's worker: NotFoundError for an unknown level (recording logger-put-bad-level), ConnectError for an
    empty one.
    """
    if not text:
        raise ConnectError("Illegal null or empty Level name.")
    level = text.strip().upper()
    if level not in LEVELS:
        raise NotFoundError(f"invalid log level '{text}'.")
    return level


class Loggers:
    """Shows and sets the log levels of this process. Methods may be called from any thread."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._modified: dict[str, int] = {}
        self._listeners: list[Callable[[str, str], None]] = []

    def on_change(self, listener: Callable[[str, str], None]) -> None:
        """Calls ``listener(namespace, level)`` after each change, on the thread that made it, to update executor processes."""
        self._listeners.append(listener)

    def all_loggers(self) -> dict[str, LoggerLevel]:
        """Returns all loggers, sorted by name. Like Apache's worker, omits loggers with level OFF."""
        with self._lock:
            return {name: self._level(name, value) for name, value in sorted(_values().items()) if level_name(value) != "OFF"}

    def logger(self, name: str) -> LoggerLevel | None:
        """Returns one logger; None if no logger of that name has been used or set."""
        with self._lock:
            name = ROOT if _is_root(name) else name
            value = _values().get(name)
            return None if value is None else self._level(name, value)

    def set_worker_logger(self, namespace: str, level: str) -> list[str]:
        """Sets the level of all loggers whose names start with the namespace; ``root`` means all.

        Returns the names of the changed loggers, sorted. Raises NotFoundError for an unknown level.
        """
        level = parse_level(level)
        namespace = ROOT if _is_root(namespace) else namespace
        with self._lock:
            if namespace != ROOT and namespace not in JAVA_LOGGERS:
                logging.getLogger(namespace)  # creates it
            before = _values()
            for logger in _affected(namespace):
                logger.setLevel(LEVELS[level])
            changed = sorted(name for name, value in _values().items() if value != before.get(name))
            now_ms = self._now_ms()
            self._modified.update(dict.fromkeys(changed, now_ms))
        for listener in self._listeners:
            listener(namespace, level)
        # As in Apache, only names in the namespace are returned, so Python loggers changed by a Java name are omitted.
        return changed if namespace == ROOT else [name for name in changed if name.startswith(namespace)]

    def _level(self, name: str, value: int) -> LoggerLevel:
        return LoggerLevel(level_name(value), self._modified.get(name))


def _is_root(name: str) -> bool:
    return name.lower() in ("", ROOT)


def _existing() -> list[logging.Logger]:
    """Returns all loggers except the root logger. The manager also has placeholders for unused parents."""
    return [found for found in list(logging.root.manager.loggerDict.values()) if isinstance(found, logging.Logger)]


def _values() -> dict[str, int]:
    values = {logger.name: logger.getEffectiveLevel() for logger in _existing()}
    for name, ours in JAVA_LOGGERS.items():
        values[name] = _effective(ours[0])
    values[ROOT] = logging.root.getEffectiveLevel()
    return values


def _effective(name: str) -> int:
    """Returns the effective level for a logger name without creating the logger."""
    known = logging.root.manager.loggerDict
    while name:
        logger = known.get(name)
        if isinstance(logger, logging.Logger) and logger.level:
            return logger.level
        name = name.rpartition(".")[0]
    return logging.root.level


def _affected(namespace: str) -> Iterator[logging.Logger]:
    """Yields the loggers whose own level must change for a namespace. Others inherit theirs."""
    existing = _existing()
    own_levels = [logger for logger in existing if logger.level]
    if namespace == ROOT:
        yield logging.root
        yield from own_levels
        return
    targets = {target for name, ours in JAVA_LOGGERS.items() if name.startswith(namespace) for target in ours}
    if namespace not in JAVA_LOGGERS:
        targets.add(namespace)
    yield from (logging.getLogger(target) for target in sorted(targets))
    for logger in own_levels:
        if logger.name.startswith((namespace, *(f"{target}." for target in targets))):
            yield logger


def level_name(number: int) -> str:
    """Returns the name of Log4j's highest level that is not above the number."""
    return next((name for name, level in reversed(LEVELS.items()) if number >= level), "ALL")
