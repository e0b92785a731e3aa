"""History in a compacted topic, for clusters: it outlives workers, and every worker can read it.

Only the leader writes, so that numbers are not given twice. Writing is nobody's wait: changes are queued, and a thread makes the
topic at the first of them. A cluster that allows no such topic keeps the history in memory, with a warning.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol

from connect.errors import ConnectError, DataError, UnreachableError
from worker.model import ConfigVersion, Origin
from worker.operations.history.codec import decode_key, decode_value, encode_key, encode_value
from worker.operations.history.memory import MemoryHistory
from worker.operations.history.versions import Config, find

log = logging.getLogger(__name__)

_MOST_QUEUED = 10_000
_READ_S = 10.0
_RETRY_S = 5.0
_CLOSE_S = 3.0
"""How long what is still queued may take to be written when the worker ends."""


class Log(Protocol):
    """The topic; :class:`worker.kafka.topic_log.TopicLog` is one."""

    def start(self, timeout_s: float | None = None) -> None: ...
    def read_to_end(self, timeout_s: float) -> None: ...
    def send(self, key: bytes, value: bytes | None) -> Future[Any]: ...
    def ask_to_close(self) -> None: ...
    def close(self) -> None: ...


OnRecord = Callable[[bytes | None, bytes | None], None]
"""Takes key and value of each record of the topic, in their order."""

_Job = Callable[[], object]


class TopicHistory:
    """Implements :class:`worker.operations.history.versions.History`. Whoever makes it starts and closes it."""

    def __init__(self, topic: str, size: int, open_log: Callable[[OnRecord], Log]) -> None:
        """``open_log`` makes the log of ``topic``, not started, that calls back with its records."""
        self._topic = topic
        self._open_log = open_log
        self._kept = MemoryHistory(size)
        self._jobs: queue.Queue[_Job | None] = queue.Queue(_MOST_QUEUED)
        self._opening = threading.Lock()
        self._log: Log | None = None
        self._newest: Log | None = None
        """The same, also while it is being started."""
        self._in_memory_only = False
        self._stop = threading.Event()
        self._asked_to_open = False
        self._thread = threading.Thread(target=self._work, name="config-history", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def record(self, name: str, config: Config | None, origin: Origin) -> None:
        given = None if config is None else dict(config)
        try:
            self._jobs.put_nowait(lambda: self._write(name, given, origin))
        except queue.Full:
            log.warning("A configuration of connector %s is not in the history: %d others wait for Kafka", name, _MOST_QUEUED)

    def observe(self, name: str, config: Config | None) -> None:
        self.record(name, config, Origin.CLUSTER)

    def versions(self, name: str) -> list[ConfigVersion]:
        opened = self._opened()
        if opened is not None:
            opened.read_to_end(_READ_S)
        return self._kept.versions(name)

    def version(self, name: str, number: int) -> ConfigVersion:
        return find(name, self.versions(name), number)

    def managed(self) -> frozenset[str]:
        # None until the topic has been read, which takes the thread a moment: nothing is deleted for being nobody's meanwhile.
        if not self._asked_to_open and not self._jobs.full():
            self._asked_to_open = True
            self._jobs.put(self._opened)
        return self._kept.managed()

    def close(self) -> None:
        if self._thread.ident is not None:
            with suppress(queue.Full):
                self._jobs.put_nowait(None)
            self._thread.join(_CLOSE_S)
        self._stop.set()
        opened = self._newest
        if opened is not None:
            # Whoever waits for it, the thread too, waits no longer.
            opened.ask_to_close()
        if self._thread.ident is not None:
            self._thread.join()
        with self._opening:
            self._in_memory_only = True
            self._log = None
        if opened is not None:
            opened.close()

    # --- the thread

    def _work(self) -> None:
        while not self._stop.is_set() and (job := self._jobs.get()) is not None:
            while not self._stop.is_set():
                try:
                    job()
                    break
                except UnreachableError as e:
                    log.warning("The config history waits for Kafka: %s", e.message)
                    self._stop.wait(_RETRY_S)
                except Exception:
                    log.exception("A configuration is not in the history")
                    break

    def _write(self, name: str, config: Config | None, origin: Origin) -> None:
        opened = self._opened()
        if opened is None:
            self._kept.add(name, config, origin)
            return
        # What a leader before this one wrote last must be known, for the number and for the comparison.
        opened.read_to_end(_READ_S)
        version, gone = self._kept.add(name, config, origin)
        if version is None:
            return
        for key, value in [
            (encode_key(name, version.version), encode_value(version)),
            *((encode_key(other, number), None) for other, number in gone),
        ]:
            opened.send(key, value).add_done_callback(lambda future: self._tell_of(name, future))

    def _tell_of(self, name: str, written: Future[Any]) -> None:
        error = None if written.cancelled() else written.exception()
        if error is not None:
            log.warning("A configuration of connector %s could not be written to topic %s: %s", name, self._topic, error)

    def _opened(self) -> Log | None:
        """The log, started; None when there can be none. Raises UnreachableError."""
        with self._opening:
            if self._log is None and not self._in_memory_only:
                opened = self._newest = self._open_log(self._take)
                try:
                    opened.start(_READ_S)
                except UnreachableError:
                    opened.close()
                    raise
                except ConnectError as e:
                    opened.close()
                    self._in_memory_only = True
                    log.warning(
                        "The config history is kept in memory only, for topic %s cannot be used: %s. "
                        "(config.history.topic names another one; empty, there is none)",
                        self._topic,
                        e.message,
                    )
                else:
                    self._log = opened
            return self._log

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        try:
            connector, number = decode_key(key)
            if value is None:
                self._kept.drop(connector, number)
            else:
                self._kept.take(connector, decode_value(number, value))
        except DataError as e:
            log.warning("Topic %s has a record that is not of a config history: %s", self._topic, e.message)
