"""What tasks ask of a distributed worker: source offsets, and whether they are still to run.

Called on tasks' threads, or those that answer an executor.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from connect.errors import ConnectError, UnreachableError
from worker.config.client_overrides import client_properties, with_transactions
from worker.config.distributed_config import ExactlyOnce
from worker.config.worker_config import WorkerConfig
from worker.executor import ConnectorSpec
from worker.kafka.log_writer import TransactionalWriter, Written
from worker.kafka.settings import ClientKind
from worker.model import OffsetEntry, TaskId
from worker.storage.connector_offset_store import OwnOffsets
from worker.storage.kafka_offset_store import OffsetTopic
from worker.storage.offset_store import OffsetPair, OffsetRecord, OffsetStore
from worker.storage.topic_logs import offset_log, own_offset_log

if TYPE_CHECKING:
    from worker.distributed.herder_core import Coordination

log = logging.getLogger(__name__)

OWN_TOPIC = "offsets.storage.topic"
_READ_TIMEOUT_S = 30.0
_FRESH_S = 3.0
"""For one question of a connector or task, which asks again while it is not to end."""
_CONFIRM_S = 3.0
_WRITE_TIMEOUT_S = 30.0
_START_TIMEOUT_S = 60.0


class TopicOffsets(OffsetStore, Protocol):
    """Offsets in one topic or two."""

    def refresh(self, timeout_s: float) -> None: ...

    def records(self, connector: str, offsets: Sequence[OffsetPair]) -> list[OffsetRecord]: ...

    def await_read(self, written: Iterable[Written], timeout_s: float) -> None: ...


class ClusterServices:
    """Implements :class:`worker.executor.WorkerServices`, and is the offset store that it offers."""

    def __init__(self, config: WorkerConfig, coordination: Callable[[], Coordination]) -> None:
        """``coordination`` is asked for when something is asked of it."""
        settings = config.distributed
        assert settings is not None
        self._config = config
        self._settings = settings
        self._coordination = coordination
        self._of_worker = OffsetTopic(offset_log(config))
        self._lock = threading.Lock()
        self._own_topics: dict[tuple[str, ...], OffsetTopic] = {}

    def start(self) -> None:
        """Reads the worker's topic to its end."""
        self._of_worker.start()

    def ask_to_close(self) -> None:
        """Makes a later close quick."""
        for topic in self._topics():
            topic.ask_to_close()

    def close(self) -> None:
        for topic in self._topics():
            topic.close()

    def _topics(self) -> list[OffsetTopic]:
        with self._lock:
            return [self._of_worker, *self._own_topics.values()]

    # --- stores

    @property
    def offsets(self) -> OffsetStore:
        return self

    def get(self, connector: str, partition: Mapping[str, Any] | None) -> dict[str, Any] | None:
        return self._fresh(connector).get(connector, partition)

    def put(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        self._store(connector).put(connector, offsets)

    def entries(self, connector: str) -> list[OffsetEntry]:
        return self._fresh(connector).entries(connector)

    def current_offsets(self, spec: ConnectorSpec, *, transactional: bool = False) -> OffsetStore:
        """Where a connector's offsets are, read to the end; with ``transactional`` for changes while none of its tasks runs: they
        are written under the transactional id of its first task (KIP-618)."""
        store = self._store_of(spec.config)
        store.refresh(_READ_TIMEOUT_S)
        if not transactional:
            return store
        return _InTransaction(store, self, spec)

    def _fresh(self, connector: str) -> TopicOffsets:
        # For each question: what a task's predecessor committed just before it was fenced must be in the answer.
        store = self._store(connector)
        store.refresh(_FRESH_S)
        return store

    def _store(self, connector: str) -> TopicOffsets:
        config = self._coordination().state.config(connector) or {}
        if not config.get(OWN_TOPIC):
            return self._of_worker
        return self._store_of(self._coordination().spec_for_request(connector, config).result(_READ_TIMEOUT_S).config)

    def _store_of(self, config: Mapping[str, str]) -> TopicOffsets:
        topic = config.get(OWN_TOPIC)
        if not topic:
            return self._of_worker
        name = config.get("name", "")
        clients = {kind: client_properties(kind, self._config, name, 0, config) for kind in ClientKind}
        servers = {kind: java["bootstrap.servers"] for kind, java in clients.items()}
        same_cluster = servers[ClientKind.PRODUCER] == ",".join(self._config.bootstrap_servers)
        if topic == self._of_worker.topic and same_cluster:
            return self._of_worker
        return OwnOffsets(self._own_topic(topic, clients), self._of_worker)

    def _own_topic(self, name: str, clients: Mapping[ClientKind, Mapping[str, str]]) -> OffsetTopic:
        key = (name, *(clients[kind]["bootstrap.servers"] for kind in ClientKind))
        with self._lock:
            found = self._own_topics.get(key)
            if found is None:
                settings = own_offset_log(
                    self._config, name, clients[ClientKind.CONSUMER], clients[ClientKind.PRODUCER], clients[ClientKind.ADMIN]
                )
                found = OffsetTopic(settings)
                # Under the lock: whoever else needs it waits until it is read.
                found.start(_START_TIMEOUT_S)
                self._own_topics[key] = found
        return found

    # --- exactly-once

    def offset_records(self, connector: str, offsets: Sequence[OffsetPair]) -> list[OffsetRecord]:
        return self._store(connector).records(connector, offsets)

    def before_commit(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        store = self._store(connector)
        if isinstance(store, OwnOffsets):
            store.delete_from_worker_topic(connector, offsets)

    def offsets_committed(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        store = self._store(connector)
        if isinstance(store, OwnOffsets):
            store.copy_to_worker_topic(connector, offsets)

    def confirm_task(self, run: int, task: TaskId, *, anew: bool = False) -> None:
        coordination = self._coordination()
        # Promise 4: a worker that was frozen or cut off takes tasks for its own that others have by now.
        if anew and not coordination.member.confirm(_CONFIRM_S):
            raise UnreachableError(
                f"group {self._settings.group_id} does not confirm for now that this worker is in it: its coordinator does not "
                "answer, or a rebalance is underway"
            )
        # What the leader wrote before this task's producer fenced its predecessor's is read now.
        coordination.store.refresh(self._settings.sync_timeout_ms / 1000)
        answer: Future[None] = Future()

        def look() -> None:
            try:
                coordination.source_starts.require_current(run, task)
            except ConnectError as e:
                answer.set_exception(e)
            else:
                answer.set_result(None)

        coordination.loop.post(look)
        try:
            answer.result(_CONFIRM_S)
        except TimeoutError as e:
            raise UnreachableError(f"the herder is busy and did not say whether task {task} is to run") from e

    @property
    def is_exactly_once(self) -> bool:
        return self._settings.exactly_once is ExactlyOnce.ENABLED

    def write_in_transaction(self, spec: ConnectorSpec, store: TopicOffsets, offsets: Sequence[OffsetPair]) -> None:
        """Writes offsets of a stopped connector as its first task would."""
        java = client_properties(ClientKind.PRODUCER, self._config, spec.name, 0, spec.config)
        records = store.records(spec.name, offsets)
        if not records:
            return
        settings = with_transactions(java, f"{self._settings.group_id}-{spec.name}-0")
        writer = TransactionalWriter(settings, records[0].topic, _WRITE_TIMEOUT_S)
        try:
            written = writer.send_all([(record.key, record.value) for record in records], _WRITE_TIMEOUT_S)
        finally:
            writer.close()
        # By where they lie: the broker tells of a commit before its end of the topic has moved.
        store.await_read(written, _READ_TIMEOUT_S)


class _InTransaction:
    """A store whose writes are a transaction."""

    def __init__(self, store: TopicOffsets, services: ClusterServices, spec: ConnectorSpec) -> None:
        self._store = store
        self._services = services
        self._spec = spec

    def get(self, connector: str, partition: Mapping[str, Any] | None) -> dict[str, Any] | None:
        return self._store.get(connector, partition)

    def entries(self, connector: str) -> list[OffsetEntry]:
        return self._store.entries(connector)

    def put(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        self._services.before_commit(connector, offsets)
        self._services.write_in_transaction(self._spec, self._store, offsets)
        self._services.offsets_committed(connector, offsets)
