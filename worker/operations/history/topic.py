"""Config history in a compacted topic, for clusters: it outlives workers, and every worker can read it.

Only the leader writes, so that version numbers are unique. Nobody waits for writes: changes are queued, and a thread creates the
topic with the first one. Without permission to create the topic, the history stays in memory, with a warning.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import orjson

from connect.errors import ConnectError, DataError, UnreachableError
from worker.config.extension_keys import HISTORY_TOPIC
from worker.config.worker_config import WorkerConfig
from worker.kafka.settings import client_settings_of
from worker.model import ConfigVersion, Origin
from worker.operations.history.memory import MemoryHistory
from worker.operations.history.versions import Config, History, find

log = logging.getLogger(__name__)

_MAX_QUEUED = 10_000
_READ_S = 10.0
_RETRY_S = 5.0
_CLOSE_S = 3.0
"""How long writing the queued changes may take at shutdown."""


class HistoryLog(Protocol):
    """The topic; :class:`worker.kafka.topic_log.TopicLog` is one."""

    def start(self, timeout_s: float | None = None) -> None: ...
    def read_to_end(self, timeout_s: float) -> None: ...
    def send(self, key: bytes, value: bytes | None) -> Future[Any]: ...
    def ask_to_close(self) -> None: ...
    def close(self) -> None: ...


OnRecord = Callable[[bytes | None, bytes | None], None]
"""Receives key and value of each record of the topic, in order."""

_Change = Callable[[], object]


class TopicHistory:
    """Implements :class:`worker.operations.history.versions.History`. The creator starts and closes it."""

    def __init__(self, topic: str, size: int, open_log: Callable[[OnRecord], HistoryLog]) -> None:
        """``open_log`` creates the log of ``topic``, not started, with a callback for its records."""
        self._topic = topic
        self._open_log = open_log
        self._versions = MemoryHistory(size)
        self._jobs: queue.Queue[_Change | None] = queue.Queue(_MAX_QUEUED)
        self._opening = threading.Lock()
        self._log: HistoryLog | None = None
        self._newest: HistoryLog | None = None
        """The log, also while it is being started."""
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
            log.warning(
                "A configuration of connector %s is missing in the history: %d others are waiting for Kafka", name, _MAX_QUEUED
            )

    def observe(self, name: str, config: Config | None) -> None:
        self.record(name, config, Origin.CLUSTER)

    def versions(self, name: str) -> list[ConfigVersion]:
        opened = self._opened()
        if opened is not None:
            opened.read_to_end(_READ_S)
        return self._versions.versions(name)

    def version(self, name: str, number: int) -> ConfigVersion:
        return find(name, self.versions(name), number)

    def managed(self) -> frozenset[str]:
        # Empty until the thread has read the topic; no connector is deleted as unmanaged meanwhile.
        if not self._asked_to_open and not self._jobs.full():
            self._asked_to_open = True
            self._jobs.put(self._opened)
        return self._versions.managed()

    def close(self) -> None:
        if self._thread.ident is not None:
            with suppress(queue.Full):
                self._jobs.put_nowait(None)
            self._thread.join(_CLOSE_S)
        self._stop.set()
        opened = self._newest
        if opened is not None:
            # Ends all waits for it, including the thread's.
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
                    log.warning("The config history is waiting for Kafka: %s", e.message)
                    self._stop.wait(_RETRY_S)
                except Exception:
                    log.exception("A configuration is missing in the history")
                    break

    def _write(self, name: str, config: Config | None, origin: Origin) -> None:
        opened = self._opened()
        if opened is None:
            self._versions.add(name, config, origin)
            return
        # The last version of the previous leader is needed for the number and for the comparison.
        opened.read_to_end(_READ_S)
        version, dropped = self._versions.add(name, config, origin)
        if version is None:
            return
        for key, value in [
            (encode_key(name, version.version), encode_value(version)),
            *((encode_key(other, number), None) for other, number in dropped),
        ]:
            opened.send(key, value).add_done_callback(lambda future: self._log_failure(name, future))

    def _log_failure(self, name: str, written: Future[Any]) -> None:
        error = None if written.cancelled() else written.exception()
        if error is not None:
            log.warning("A configuration of connector %s could not be written to topic %s: %s", name, self._topic, error)

    def _opened(self) -> HistoryLog | None:
        """Returns the started log, or None if the topic is unusable. Raises UnreachableError."""
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
                        "The config history stays in memory, because topic %s is unusable: %s. (config.history.topic sets "
                        "another topic; if it is empty, none is used)",
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
                self._versions.drop(connector, number)
            else:
                self._versions.take(connector, decode_value(number, value))
        except DataError as e:
            log.warning("Topic %s contains a record that does not belong to a config history: %s", self._topic, e.message)


class VersionKey(NamedTuple):
    connector: str
    version: int


def encode_key(connector: str, version: int) -> bytes:
    return orjson.dumps([connector, version])


def encode_value(version: ConfigVersion) -> bytes:
    config = None if version.config is None else dict(version.config)
    return orjson.dumps({"at": version.at_ms, "origin": version.origin.value, "config": config})


def decode_key(data: bytes | None) -> VersionKey:
    """Decodes a key. Raises DataError for another format."""
    match _loads(data, "key"):
        case [str(connector), int(version)] if version > 0:
            return VersionKey(connector, version)
    raise DataError(f"the key {(data or b'')[:80]!r} is not [connector, version]")


def decode_value(number: int, data: bytes) -> ConfigVersion:
    """Decodes a value. Raises DataError for another format. Unknown origins, of a later release, become CLUSTER."""
    match _loads(data, "value"):
        case {"at": int(at_ms), "origin": str(origin), "config": dict() | None as config}:
            if config is None or all(isinstance(value, str | None) for value in config.values()):
                known = {one.value: one for one in Origin}
                return ConfigVersion(number, at_ms, known.get(origin, Origin.CLUSTER), config)
    raise DataError("the value is not an object with at, origin and config")


def _loads(data: bytes | None, what: str) -> object:
    try:
        return orjson.loads(data or b"")
    except orjson.JSONDecodeError as e:
        raise DataError(f"the {what} is not JSON: {e}") from e


if TYPE_CHECKING:
    from worker.kafka.topic_log import TopicLogSettings


def create_history(config: WorkerConfig) -> History:
    """Creates the history that the worker's properties configure. It is not started."""
    topic = history_topic(config)
    if topic is None:
        return MemoryHistory(config.config_history_size)
    return TopicHistory(topic, config.config_history_size, lambda on_record: _log(config, topic, on_record))


def history_topic(config: WorkerConfig) -> str | None:
    """Returns the name of the topic, or None without one."""
    if config.distributed is None:
        return None
    given = config.originals.get(HISTORY_TOPIC)
    return f"{config.distributed.config_topic.name}-history" if given is None else given.strip() or None


def _log(config: WorkerConfig, topic: str, on_record: OnRecord) -> HistoryLog:
    from worker.kafka.topic_log import TopicLog

    return TopicLog(_log_settings(config, topic), lambda record: on_record(record.key, record.value))


def _log_settings(config: WorkerConfig, topic: str) -> TopicLogSettings:
    from worker.kafka.internal_topics import InternalTopic
    from worker.kafka.topic_log import TopicLogSettings
    from worker.storage.topic_logs import client_id_base

    own = config.distributed
    assert own is not None
    client = {
        **client_settings_of(config.originals),
        "bootstrap.servers": ",".join(config.bootstrap_servers),
        "client.id": f"{client_id_base(config)}history",
    }
    made = InternalTopic(
        topic, 1, own.config_topic.replication_factor, {}, HISTORY_TOPIC, "earlier configurations", single_partition=True
    )
    consumer = {**client, "group.id": own.group_id}
    return TopicLogSettings(made, consumer, {**client, "delivery.timeout.ms": "30000"}, client)
