"""The herder of a distributed worker.

Reads are answered at once, from snapshots, on the caller's thread: no connector, broker, or rebalance delays them. Changes become
jobs of the herder's thread (:mod:`worker.distributed.herder_loop`) and are the leader's duty; another worker raises
NotLeaderError, and REST forwards the request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from urllib.parse import urlsplit

from connect.errors import AlreadyExistsError, BadRequestError, NotFoundError, PluginNotFoundError
from worker.config.distributed_config import DistributedSettings, ExactlyOnce
from worker.config.isolation import ENVIRONMENT
from worker.distributed.bootstrap import WorkerComponents
from worker.distributed.condition import DistributedCondition, find_health
from worker.distributed.connector_specs import without_nulls
from worker.distributed.herder_requests import HerderRequests
from worker.distributed.provider_reload import change_turn
from worker.distributed.session_keys import sign_text, verify
from worker.distributed.shown_statuses import UNKNOWN_TYPE, ShownStatuses
from worker.distributed.task_config_publisher import task_configs_changed
from worker.executor import ConnectorFacts, ConnectorSpec
from worker.executors.futures import outcome
from worker.group.protocol import Protocol
from worker.model import (
    ConnectorInfo,
    ConnectorStatus,
    Health,
    OffsetEntry,
    Origin,
    RequestSignature,
    RestartPlan,
    Status,
    TargetState,
    TaskId,
    TaskInfo,
    TaskSignal,
)
from worker.observability.herder_activity import HerderActivity
from worker.operations.herder_operations import HerderOperations
from worker.operations.offsets.changes import require_offsets, require_stopped
from worker.operations.restart_plan import planned_restart, to_restart
from worker.storage.config_state import ConfigState
from worker.storage.documents import DocumentTopic
from worker.storage.offset_store import OffsetStore
from worker.storage.record_codec import RestartRequest


class DistributedHerder(HerderOperations):
    """Implements :class:`worker.herder.Herder` for a worker of a cluster."""

    def __init__(self, parts: WorkerComponents) -> None:
        group = parts.group
        self._facts: dict[tuple[str, str | None], ConnectorFacts] = {}
        super().__init__(
            parts.config,
            parts.worker_id,
            parts.executor,
            parts.values,
            parts.loggers,
            parts.history,
            parts.cluster,
            DistributedCondition(parts, self._facts.get),
            parts.starts,
            partial(DocumentTopic, parts.status_store),
            partial(_running_configs, parts),
            lambda: group.is_ready and group.current.is_leader and not group.is_rebalancing,
        )
        assert parts.config.distributed is not None
        self._settings: DistributedSettings = parts.config.distributed
        self._parts = parts
        self._shown = ShownStatuses(self._type_of)
        self._store = parts.config_sync.store
        self._requests = HerderRequests(
            parts.loop,
            parts.config_sync,
            group,
            parts.leader,
            parts.instances,
            parts.restarts,
            lambda: parts.reconciler.is_stopping,
            parts.url,
            self._mask,
        )

    def start(self) -> None:
        """Starts to join the cluster, in the background."""
        self._parts.start()
        self._verification_schedule.start()
        if self._directory is not None:
            self._directory.start()

    @property
    def stages(self) -> HerderActivity:
        """What the herder's thread is doing; REST adds it to responses of requests that time out."""
        return self._parts.loop.activity

    def timeout_message(self) -> str:
        return self._parts.loop.activity.timed_out()

    def health(self) -> Health:
        return find_health(self._parts.loop, self._parts.group)

    def other_workers(self) -> list[str]:
        return sorted((self._parts.status_store.workers() | _known_members(self._parts)) - {self.worker_id, ""})

    # --- reading

    def connectors(self) -> list[str]:
        return self._store.snapshot().connectors()

    def connector_info(self, name: str) -> ConnectorInfo:
        return self._info_in(self._store.snapshot(), name)

    def _info_in(self, state: ConfigState, name: str) -> ConnectorInfo:
        config = _config_in(state, name)
        return ConnectorInfo(name, dict(config), state.tasks(name), self._type_of(config))

    def connector_status(self, name: str) -> ConnectorStatus:
        found = self.connector_statuses((name,))
        if not found:
            raise NotFoundError(f"No status found for connector {name}")
        return found[0]

    def connector_statuses(self, names: Iterable[str]) -> list[ConnectorStatus]:
        return self._shown.of(self._parts.status_store.connector_statuses(names), self._store.snapshot())

    def task_status(self, task: TaskId) -> Status:
        found = self._parts.status_store.get(task)
        if found is None or _is_removed(self._store.snapshot(), task):
            raise NotFoundError(f"No status found for task {task}")
        return found

    def task_infos(self, name: str) -> list[TaskInfo]:
        state = self._store.snapshot()
        if not state.contains(name):
            raise NotFoundError(f"Connector {name} not found")
        found = ((task, state.task_config(task) or {}) for task in state.tasks(name))
        return [TaskInfo(task, without_nulls(config)) for task, config in found]

    def rebalance_times_ms(self) -> Sequence[int]:
        return list(self._parts.group.rebalance_times_ms)

    def signal_task(self, task: TaskId, signal: TaskSignal) -> bool:
        if self._executor.signal_task(task, signal):
            return True
        self._requests.require_here(task)
        return False  # it is about to start or to end

    def topics(self, name: str) -> list[str]:
        self._require_topic_tracking()
        return sorted(self._parts.status_store.topics(name))

    def reset_topics(self, name: str) -> None:
        self._require_topic_tracking(reset=True)
        store = self._parts.status_store
        # On the herder's thread, so that topics that tasks have reported before are cleared too.
        cleared = self._parts.loop.submit(lambda: outcome(lambda: store.reset_topics(name)))
        sent = self._requests.wait(cleared, "clearing topics")
        store.await_read(sent, self._settings.sync_timeout_ms / 1000)

    # --- changes

    def put_connector(
        self,
        name: str,
        config: Mapping[str, str | None],
        *,
        replace: bool,
        target_state: TargetState | None = None,
        origin: Origin = Origin.REST,
    ) -> tuple[ConnectorInfo, bool]:
        self._requests.require_leader()
        props = config if "name" in config else {**config, "name": name}
        # Before the name is looked at: an invalid duplicate is 400 (recording create-duplicate-invalid-config).
        self._check.require_valid(props)

        def put() -> tuple[ConfigState, bool]:
            exists = self._store.snapshot().contains(name)
            if exists and not replace:
                raise AlreadyExistsError(f"Connector {name} already exists")
            self._parts.leader.write(lambda: self._store.put_connector(name, props, target_state))
            # Read before the herder's thread continues: effects of the change, such as new tasks, are not part of the response
            # (recording create-source), and somebody may delete the connector at once.
            return self._store.snapshot(), not exists

        written, created = self._requests.as_leader(put)
        self._history.record(name, props, origin)
        return self._info_in(written, name), created

    def delete_connector(self, name: str, *, origin: Origin = Origin.REST) -> None:
        def delete() -> None:
            if not self._store.snapshot().contains(name):
                raise NotFoundError(f"Connector {name} not found")
            self._parts.leader.write(lambda: self._store.remove_connector(name))

        self._requests.as_leader(delete)
        self._record_deletion(name, origin)

    def set_target_state(self, name: str, state: TargetState) -> None:
        if not self._store.snapshot().contains(name):
            if state is TargetState.STOPPED:
                self._requests.require_leader()
            self._parts.config_sync.refresh()
        if not self._store.snapshot().contains(name):
            raise NotFoundError(f"Unknown connector {name}")
        if state is not TargetState.STOPPED:
            # Any worker may write this.
            self._store.put_target_state(name, state)
            return

        def stop() -> None:
            # Tasks first, so that a worker that does not know STOPPED has none to run.
            if self._store.snapshot().task_count(name):
                self._parts.leader.put_task_configs(name, [])
            self._parts.leader.write(lambda: self._store.put_target_state(name, state))

        self._requests.as_leader(stop)

    def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool) -> RestartPlan | None:
        if not include_tasks and not only_failed:
            self._requests.restart(name, f"Unknown connector: {name}")
            return None

        def plan() -> RestartPlan:
            if not self._store.snapshot().contains(name):
                raise NotFoundError(f"Unknown connector: {name}")
            status = self._parts.statuses.connector_status(name)
            if status is None:
                raise NotFoundError(f"Status for connector {name} not found")
            request = RestartRequest(name, include_tasks, only_failed)
            self._parts.leader.write(lambda: self._store.put_restart_request(request))
            with_connector, tasks = to_restart(status, include_tasks=include_tasks, only_failed=only_failed)
            return RestartPlan(planned_restart(status, with_connector, tasks))

        planned = self._requests.as_leader(plan)
        return RestartPlan(replace(planned.status, type=self._type_of(self._store.snapshot().config(name) or {})))

    def restart_task(self, task: TaskId) -> None:
        self._requests.restart(task, f"Unknown connector: {task.connector}")

    # --- offsets

    def offsets(self, name: str) -> list[OffsetEntry]:
        spec = self._spec(name)
        return self._read_offsets(spec, self._known_type(spec.config), lambda: self._parts.services.current_offsets(spec))

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry] | None) -> str:
        require_offsets(offsets)

        def check() -> None:
            self._parts.config_sync.refresh()
            state = self._store.snapshot()
            if not state.contains(name):
                raise NotFoundError(f"Connector {name} not found")
            require_stopped(name, state.target_state(name) or TargetState.STARTED, state.task_count(name))

        self._requests.as_leader(check)
        spec = self._spec(name)

        def source_store() -> OffsetStore:
            exactly_once = self._settings.exactly_once is ExactlyOnce.ENABLED
            if exactly_once:
                self._fence(name)
            return self._parts.services.current_offsets(spec, transactional=exactly_once)

        return self._change_offsets(spec, self._known_type(spec.config), source_store, offsets)

    def _fence(self, name: str) -> None:
        self._requests.as_leader_async(lambda: self._parts.leader.fence(name, self._parts.loop))

    # --- between workers

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]], signature: RequestSignature | None) -> None:
        self._verify(signature)

        def put() -> None:
            state = self._store.snapshot()
            if not state.contains(name):
                raise NotFoundError(f"Connector {name} not found")
            if task_configs_changed(state, name, configs):
                self._parts.leader.put_task_configs(name, configs)

        self._requests.as_leader(put)

    def fence_zombies(self, name: str, signature: RequestSignature | None) -> None:
        self._verify(signature)
        config = self._store.snapshot().config(name)
        if config is not None and self._type_of(config) != "source":
            raise BadRequestError(f"Connector {name} is not a source connector")
        self._fence(name)

    def take_reload_turn(self, worker: str, signature: RequestSignature | None, *, done: bool) -> None:
        self._verify(signature)
        self._requests.require_leader()
        change_turn(self._parts.turns, worker, done=done)

    def _verify(self, signature: RequestSignature | None) -> None:
        if self._parts.config.rest_security.is_authenticating or self._parts.group.current.protocol in (None, Protocol.SESSIONED):
            self.verify_request(signature)

    def sign_request(self, text: bytes) -> RequestSignature | None:
        return sign_text(text, self._store.snapshot().session_key, self._settings.signature_algorithm)

    def verify_request(self, signature: RequestSignature | None) -> None:
        verify(signature, self._store.snapshot().session_key, self._settings.verification_algorithms)

    # --- the rest

    def set_cluster_logger(self, namespace: str, level: str) -> None:
        self._store.put_logger_level(namespace, level.upper())

    def close(self, timeout_s: float) -> None:
        if self._directory is not None:
            self._directory.close()
        self._verification_schedule.close()
        self._parts.close(timeout_s)

    def _require_writable(self) -> None:
        self._requests.require_leader()

    def _stored_configs(self) -> Mapping[str, Mapping[str, str | None]]:
        state = self._store.snapshot()
        return {name: config for name in state.connectors() if (config := state.config(name)) is not None}

    def _stored_config(self, name: str) -> Mapping[str, str | None]:
        return _config_in(self._store.snapshot(), name)

    def _type_of(self, config: Mapping[str, str | None]) -> str:
        try:
            return self._known_type(config)
        except PluginNotFoundError:
            return UNKNOWN_TYPE

    def _known_type(self, config: Mapping[str, str | None]) -> str:
        """Returns the type of the class that a configuration names. Raises PluginNotFoundError."""
        key = config.get("connector.class") or "", config.get(ENVIRONMENT)
        found = self._facts.get(key)
        if found is None:
            found = self._facts[key] = self._executor.facts(*key)
        return found.type

    def _spec(self, name: str) -> ConnectorSpec:
        if not self._store.snapshot().contains(name):
            self._parts.config_sync.refresh()
        config = self._stored_config(name)
        resolved = self._parts.specs.resolve_for_request(name, config)
        return self._requests.wait(resolved, f"looking up the configuration of connector {name}")


def _config_in(state: ConfigState, name: str) -> Mapping[str, str | None]:
    config = state.config(name)
    if config is None:
        raise NotFoundError(f"Connector {name} not found")
    return config


def _is_removed(state: ConfigState, task: TaskId) -> bool:
    """Whether a connector does not have this task any more. The last status of its worker may follow the record that deletes its
    status, and would stay until the next rebalance."""
    return state.contains(task.connector) and task.task >= state.task_count(task.connector)


def _known_members(parts: WorkerComponents) -> set[str]:
    """Returns the IDs of members that may have no connectors and tasks, and thus no status. Only the leader knows all."""
    current = parts.group.current
    urls = parts.leader.member_urls if current.is_leader else {current.leader_url}
    return {urlsplit(url).netloc for url in urls}


def _running_configs(parts: WorkerComponents) -> Mapping[str, Mapping[str, str | None]]:
    state = parts.config_sync.store.snapshot()
    # A copy, because the herder's thread changes the original.
    running = [name for name, one in parts.instances.connectors.copy().items() if one.target is TargetState.STARTED]
    return {name: config for name in running if (config := state.config(name)) is not None}
