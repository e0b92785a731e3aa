"""Services of a distributed worker for its tasks: source offsets, and confirming that a task still belongs here.

Called on tasks' threads, or on threads that serve an executor.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from connect.errors import IllegalStateError
from worker.config.client_overrides import client_properties, with_transactions
from worker.config.worker_config import WorkerConfig
from worker.distributed.config_sync import ConfigSync
from worker.distributed.connector_specs import ConnectorSpecs
from worker.executor import ConnectorSpec
from worker.executors.futures import fail
from worker.kafka.log_writer import TransactionalWriter
from worker.kafka.settings import ClientKind
from worker.model import OffsetEntry, TaskId
from worker.storage.connector_offset_store import OwnOffsets, TopicOffsetStore
from worker.storage.kafka_offset_store import OffsetTopic
from worker.storage.offset_store import OffsetPair, OffsetRecord, OffsetStore
from worker.storage.topic_logs import offset_log, own_offset_log

log = logging.getLogger(__name__)

OWN_TOPIC = "offsets.storage.topic"
_READ_TIMEOUT_S = 30.0
_FRESH_S = 3.0
"""For one request of a connector or task, which retries until it is to stop."""
_WRITE_TIMEOUT_S = 30.0


class ConfirmTask(Protocol):
    """Raises an error if a task may not continue; see :meth:`worker.distributed.task_ownership.TaskOwnership.confirm`."""

    def __call__(self, start_id: int, task: TaskId, *, with_coordinator: bool) -> None: ...


class ClusterServices:
    """Implements :class:`worker.executor.WorkerServices`, and the offset store that it offers."""

    def __init__(self, worker: WorkerConfig, config: ConfigSync, specs: ConnectorSpecs, confirm_task: ConfirmTask) -> None:
        settings = worker.distributed
        assert settings is not None
        self._worker = worker
        self._settings = settings
        self._config = config
        self._specs = specs
        self._confirm_task = confirm_task
        self._of_worker = OffsetTopic(offset_log(worker))
        self._own_topics = OwnOffsetTopics()

    def start(self) -> None:
        """Reads the worker's topic to its end."""
        self._of_worker.start()

    def ask_to_close(self) -> None:
        """Makes a later close quick."""
        self._of_worker.ask_to_close()
        self._own_topics.ask_to_close()

    def close(self) -> None:
        self._of_worker.close()
        self._own_topics.close()

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
        """Returns the store of a connector's offsets, read to the end. With ``transactional``, for changes while no task runs, it
        writes under the transactional ID of the connector's first task (KIP-618)."""
        store = self._store_of(spec.config)
        store.refresh(_READ_TIMEOUT_S)
        if not transactional:
            return store
        return _TransactionalOffsets(store, self, spec)

    def _fresh(self, connector: str) -> TopicOffsetStore:
        # For each request: the answer must include what a task's predecessor committed just before it was fenced.
        store = self._store(connector)
        store.refresh(_FRESH_S)
        return store

    def _store(self, connector: str) -> TopicOffsetStore:
        config = self._config.state.config(connector) or {}
        if not config.get(OWN_TOPIC):
            return self._of_worker
        return self._store_of(self._specs.resolve_for_request(connector, config).result(_READ_TIMEOUT_S).config)

    def _store_of(self, config: Mapping[str, str]) -> TopicOffsetStore:
        topic = config.get(OWN_TOPIC)
        if not topic:
            return self._of_worker
        name = config.get("name", "")
        clients = {kind: client_properties(kind, self._worker, name, 0, config) for kind in ClientKind}
        servers = {kind: java["bootstrap.servers"] for kind, java in clients.items()}
        same_cluster = servers[ClientKind.PRODUCER] == ",".join(self._worker.bootstrap_servers)
        if topic == self._of_worker.topic and same_cluster:
            return self._of_worker
        return OwnOffsets(self._own_topic(topic, clients), self._of_worker)

    def _own_topic(self, name: str, clients: Mapping[ClientKind, Mapping[str, str]]) -> OffsetTopic:
        def create() -> OffsetTopic:
            kinds = ClientKind.CONSUMER, ClientKind.PRODUCER, ClientKind.ADMIN
            return OffsetTopic(own_offset_log(self._worker, name, *(clients[kind] for kind in kinds)))

        return self._own_topics.open((name, *(clients[kind]["bootstrap.servers"] for kind in ClientKind)), create)

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

    def confirm_task(self, start_id: int, task: TaskId, *, with_coordinator: bool = False) -> None:
        self._confirm_task(start_id, task, with_coordinator=with_coordinator)

    def write_in_transaction(self, spec: ConnectorSpec, store: TopicOffsetStore, offsets: Sequence[OffsetPair]) -> None:
        """Writes offsets of a stopped connector as its first task would."""
        java = client_properties(ClientKind.PRODUCER, self._worker, spec.name, 0, spec.config)
        records = store.records(spec.name, offsets)
        if not records:
            return
        settings = with_transactions(java, f"{self._settings.group_id}-{spec.name}-0")
        writer = TransactionalWriter(settings, records[0].topic, _WRITE_TIMEOUT_S)
        try:
            written = writer.send_all([(record.key, record.value) for record in records], _WRITE_TIMEOUT_S)
        finally:
            writer.close()
        # By their positions: the broker acknowledges a commit before the end of the topic moves.
        store.await_read(written, _READ_TIMEOUT_S)


class _TransactionalOffsets:
    """A store that writes in a transaction."""

    def __init__(self, store: TopicOffsetStore, services: ClusterServices, spec: ConnectorSpec) -> None:
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


_START_TIMEOUT_S = 60.0

TopicKey = tuple[str, ...]
"""The topic's name, and the clusters of its clients."""


@dataclass(slots=True, eq=False)
class _Opening:
    topic: OffsetTopic
    started: Future[None] = field(default_factory=Future)


class OwnOffsetTopics:
    """Owns the topics that it opens. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._topics: dict[TopicKey, _Opening] = {}
        self._is_closing = False

    def open(self, key: TopicKey, create: Callable[[], OffsetTopic]) -> OffsetTopic:
        """Returns a topic that has been read to its end. Concurrent calls share one start. A topic that fails to start is closed,
        and the next call starts another. Blocks up to a minute. Raises ConnectError."""
        with self._lock:
            if self._is_closing:
                raise IllegalStateError("the worker is shutting down")
            opening = self._topics.get(key)
            is_first = opening is None
            if opening is None:
                opening = self._topics[key] = _Opening(create())
        if is_first:
            self._start(key, opening)
        opening.started.result()
        return opening.topic

    def _start(self, key: TopicKey, opening: _Opening) -> None:
        # Outside the lock, which ask_to_close needs.
        try:
            opening.topic.start(_START_TIMEOUT_S)
        except BaseException as e:
            with self._lock:
                self._topics.pop(key, None)
            fail(opening.started, e)
            opening.topic.close()
        else:
            opening.started.set_result(None)

    def ask_to_close(self) -> None:
        """Makes a later close quick, also of topics that are being started. No topic can be opened afterwards."""
        for topic in self._closing():
            topic.ask_to_close()

    def close(self) -> None:
        for topic in self._closing():
            topic.close()

    def _closing(self) -> list[OffsetTopic]:
        with self._lock:
            self._is_closing = True
            return [opening.topic for opening in self._topics.values()]
