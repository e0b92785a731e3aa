"""Levels of loggers while the worker runs: what ``/admin/loggers`` shows and sets (KIP-495, KIP-976).

Loggers are known by Python's names and by those of Apache's classes (:data:`JAVA_LOGGERS`), so that a call that raised the level
of ``org.apache.kafka.connect.runtime.WorkerSinkTask`` there does it here too. Any other name is a logger of that name: it is kept
and answered as there. A level holds for every logger whose name begins with the one it is set for, until the worker ends.

Levels belong to the process, so two workers in one process share them; when each was changed is known to the one that did it.
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

_SINK = (
    "worker.sink.task",
    "worker.sink.loop",
    "worker.sink.delivery",
    "worker.sink.commits",
    "worker.sink.rebalance",
    "worker.sink.topic_discovery",
    "worker.sink.decoding",
    "worker.sink.context",
    "worker.sink.positions",
)
_SOURCE = ("worker.source.task", "worker.source.encoding", "worker.source.pending_offsets", "worker.kafka.topic_creation")
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
    "org.apache.kafka.connect.json": ("connect.converters.json.converter",),
    "org.apache.kafka.connect.runtime": ("worker", "rest"),
    "org.apache.kafka.connect.runtime.Worker": ("worker.executors", "worker.executors.task_factory", "worker.tasks.worker_task"),
    "org.apache.kafka.connect.runtime.WorkerConnector": ("worker.standalone.connector", "worker.executors"),
    "org.apache.kafka.connect.runtime.WorkerSinkTask": _SINK,
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
"""Names of Apache's packages and classes, and the loggers here that tell what those tell there."""


def parse_level(text: str) -> str:
    """The level in Log4j's spelling. Raises as Apache's worker does: NotFoundError for a word that is none (recording
    logger-put-bad-level), ConnectError for an empty one."""
    if not text:
        raise ConnectError("Illegal null or empty Level name.")
    level = text.strip().upper()
    if level not in LEVELS:
        raise NotFoundError(f"invalid log level '{text}'.")
    return level


class Loggers:
    """Shows and sets the levels of this process. Every method may be called from any thread."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._modified: dict[str, int] = {}
        self._listeners: list[Callable[[str, str], None]] = []

    def on_change(self, listener: Callable[[str, str], None]) -> None:
        """From now on ``listener(namespace, level)`` is called after each level that was set, on the thread that set it: for
        processes that have to follow."""
        self._listeners.append(listener)

    def all_loggers(self) -> dict[str, LoggerLevel]:
        """Every logger by its name, sorted. As in Apache's worker, those that are OFF are not among them."""
        with self._lock:
            return {name: self._level(name, value) for name, value in sorted(_values().items()) if _name_of(value) != "OFF"}

    def logger(self, name: str) -> LoggerLevel | None:
        """One logger, or None where nobody has ever used or set one of that name."""
        with self._lock:
            name = ROOT if _is_root(name) else name
            value = _values().get(name)
            return None if value is None else self._level(name, value)

    def set_worker_logger(self, namespace: str, level: str) -> list[str]:
        """Sets the level of a logger and of all whose names begin with its name; ``root`` is all. Returns those that it changed,
        sorted. Raises NotFoundError for a level that there is not."""
        level = parse_level(level)
        namespace = ROOT if _is_root(namespace) else namespace
        with self._lock:
            if namespace != ROOT and namespace not in JAVA_LOGGERS:
                logging.getLogger(namespace)  # from now on it is there
            before = _values()
            for logger in _affected(namespace):
                logger.setLevel(LEVELS[level])
            changed = sorted(name for name, value in _values().items() if value != before.get(name))
            now_ms = self._now_ms()
            self._modified.update(dict.fromkeys(changed, now_ms))
        for listener in self._listeners:
            listener(namespace, level)
        # Levels of ours that changed under a name of Apache's are not told: whoever asks for a namespace gets names of it.
        return changed if namespace == ROOT else [name for name in changed if name.startswith(namespace)]

    def _level(self, name: str, value: int) -> LoggerLevel:
        return LoggerLevel(_name_of(value), self._modified.get(name))


def _is_root(name: str) -> bool:
    return name.lower() in ("", ROOT)


def _existing() -> list[logging.Logger]:
    """Every logger but the root one. The manager also keeps places for parents that nobody has asked for."""
    return [found for found in list(logging.root.manager.loggerDict.values()) if isinstance(found, logging.Logger)]


def _values() -> dict[str, int]:
    values = {logger.name: logger.getEffectiveLevel() for logger in _existing()}
    for name, ours in JAVA_LOGGERS.items():
        values[name] = _effective(ours[0])
    values[ROOT] = logging.root.getEffectiveLevel()
    return values


def _effective(name: str) -> int:
    """The level that a logger of this name has or would have; asking does not bring it into being."""
    known = logging.root.manager.loggerDict
    while name:
        logger = known.get(name)
        if isinstance(logger, logging.Logger) and logger.level:
            return logger.level
        name = name.rpartition(".")[0]
    return logging.root.level


def _affected(namespace: str) -> Iterator[logging.Logger]:
    """The loggers that get a level of their own when one is set for a namespace. Others inherit theirs."""
    existing = _existing()
    own_levels = [logger for logger in existing if logger.level]
    if namespace == ROOT:
        yield logging.root
        yield from own_levels
        return
    targets = {ours for name, all_ours in JAVA_LOGGERS.items() if name.startswith(namespace) for ours in all_ours}
    if namespace not in JAVA_LOGGERS:
        targets.add(namespace)
    yield from (logging.getLogger(target) for target in sorted(targets))
    for logger in own_levels:
        if logger.name.startswith((namespace, *(f"{target}." for target in targets))):
            yield logger


def _name_of(value: int) -> str:
    return next((name for name, level in reversed(LEVELS.items()) if value >= level), "ALL")
