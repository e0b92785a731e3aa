"""The herder of a distributed worker, as REST sees it.

What only looks is answered at once, from snapshots, on the caller's thread: no connector, broker or rebalance holds it up. What
changes something becomes a job of the herder's thread (:mod:`worker.distributed.herder_core`), and is the leader's to do;
another worker raises NotLeaderError, and REST passes the request on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import replace
from typing import Any, TypeVar

from connect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConnectError,
    ForbiddenError,
    IllegalStateError,
    NotFoundError,
    NotLeaderError,
    PluginNotFoundError,
)
from worker.config.distributed_config import ExactlyOnce
from worker.distributed.bootstrap import Parts
from worker.distributed.herder_core import Coordination
from worker.distributed.session_keys import verify
from worker.distributed.task_config_publisher import task_configs_changed
from worker.executor import ConnectorSpec
from worker.executors.futures import outcome
from worker.group.protocol import Protocol
from worker.model import (
    ConfigVersion,
    ConnectorFileState,
    ConnectorInfo,
    ConnectorStatus,
    Health,
    LoggerLevel,
    OffsetEntry,
    Origin,
    RequestSignature,
    RestartPlan,
    ServerInfo,
    Status,
    TargetState,
    TaskId,
    TaskInfo,
    TaskProgress,
)
from worker.observability.herder_activity import CurrentStage
from worker.operations.connectors_dir.sync import ConnectorDirectory
from worker.operations.connectors_dir.target import FilesTarget
from worker.operations.history.versions import config_to_restore, unknown
from worker.operations.offsets.alter import alter_sink_offsets, alter_source_offsets
from worker.operations.offsets.changes import require_offsets, require_stopped, shown_entries
from worker.operations.restart_plan import planned_restart, to_restart
from worker.storage.config_state import ConfigState
from worker.storage.record_codec import RestartRequest
from worker.validation.config_validator import mask_error
from worker.version import server_info

T = TypeVar("T")

log = logging.getLogger(__name__)

_REQUEST_TIMEOUT_S = 85.0
"""Below the 90 seconds after which REST gives up."""
_HEALTH_TIMEOUT_S = 10.0
_ROUND_WAIT_S = 10.0
"""How long a request waits for a round of the group to end. Apache's workers answer 409 at once, which every client then tries
again."""
_NO_LEADER = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."


class DistributedHerder:
    """Implements :class:`worker.herder.Herder` for a worker of a cluster."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._c: Coordination = parts.coordination
        self._store = parts.coordination.store
        self._directory: ConnectorDirectory | None = None
        if parts.config.connectors_dir is not None:
            target = FilesTarget(
                lambda origin, name, config, state: self.put_connector(
                    name, config, replace=True, target_state=state, origin=origin
                ),
                lambda origin, name: self.delete_connector(name, origin=origin),
                self._given_configs,
                parts.history,
                lambda: self._c.ready and self._c.membership.is_leader and not self._c.rejoining,
            )
            self._directory = ConnectorDirectory(parts.config.connectors_dir, target)

    def start(self) -> None:
        """Begins to join the cluster, in the background."""
        self._parts.start()
        if self._directory is not None:
            self._directory.start()

    @property
    def stages(self) -> CurrentStage:
        """What the herder's thread is doing; REST tells it of requests that time out."""
        return self._c.loop.stages

    def timeout_message(self) -> str:
        return self.stages.timed_out()

    @property
    def worker_id(self) -> str:
        return self._parts.worker_id

    def server_info(self) -> ServerInfo:
        return server_info(self._parts.cluster.cluster_id)

    def health(self) -> Health:
        seen: Future[None] = Future()
        self._c.loop.post(lambda: seen.set_result(None))
        try:
            seen.result(_HEALTH_TIMEOUT_S if self._c.ready else 1.0)
        except FutureTimeout:
            stage = self.stages.now()
            told = f" {stage.sentence()}" if stage is not None else ""
            if not self._c.ready:
                return Health("starting", f"Worker is still starting up.{told}")
            return Health(
                "unhealthy",
                f"Worker was unable to handle this request and may be unable to handle other requests.{told}",
            )
        if not self._c.ready:
            return Health("starting", "Worker is still starting up.")
        return Health("healthy", "Worker has completed startup and is ready to handle requests.")

    # --- what there is

    def connectors(self) -> list[str]:
        return self._store.snapshot().connectors()

    def connector_info(self, name: str) -> ConnectorInfo:
        return self._info_in(self._store.snapshot(), name)

    def _info_in(self, state: ConfigState, name: str) -> ConnectorInfo:
        config = state.config(name)
        if config is None:
            raise NotFoundError(f"Connector {name} not found")
        return ConnectorInfo(name, dict(config), state.tasks(name), self._type_of(config))

    def connector_status(self, name: str) -> ConnectorStatus:
        found = self._parts.statuses.connector_status(name)
        if found is None:
            raise NotFoundError(f"No status found for connector {name}")
        return replace(found, type=self._type_of(self._store.snapshot().config(name) or {}))

    def task_status(self, task: TaskId) -> Status:
        found = self._parts.statuses.store.get(task)
        if found is None:
            raise NotFoundError(f"No status found for task {task}")
        return found

    def task_infos(self, name: str) -> list[TaskInfo]:
        state = self._store.snapshot()
        if not state.contains(name):
            raise NotFoundError(f"Connector {name} not found")
        found = ((task, state.task_config(task) or {}) for task in state.tasks(name))
        return [TaskInfo(task, {key: value for key, value in config.items() if value is not None}) for task, config in found]

    def progress(self, task: TaskId) -> TaskProgress | None:
        return self._parts.executor.progress(task)

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]:
        return self._parts.executor.plugins(connectors_only=connectors_only)

    def plugin_config(self, plugin: str, version: str | None = None) -> list[dict[str, Any]]:
        return self._parts.executor.plugin_config(plugin, version)

    def validate(self, plugin: str, config: Mapping[str, Any]) -> dict[str, Any]:
        return self._parts.check.validate(config)[0]

    def topics(self, name: str) -> list[str]:
        if not self._parts.config.topic_tracking_enable:
            raise ForbiddenError("Topic tracking is disabled.")
        return sorted(self._parts.statuses.store.topics(name))

    def reset_topics(self, name: str) -> None:
        if not self._parts.config.topic_tracking_enable:
            raise ForbiddenError("Topic tracking is disabled.")
        if not self._parts.config.topic_tracking_allow_reset:
            raise ForbiddenError("Topic tracking reset is disabled.")
        store = self._parts.statuses.store
        # On the herder's thread, so that what tasks have told before is forgotten too.
        sent = self._waited(self._c.loop.submit(lambda: outcome(lambda: store.reset_topics(name))), "forgetting topics")
        store.await_read(sent, self._c.settings.sync_timeout_ms / 1000)

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
        self._require_leader()
        props = config if "name" in config else {**config, "name": name}
        # Before the name is looked at: an invalid duplicate is 400 (recording create-duplicate-invalid-config).
        self._parts.check.require_valid(props)

        def put() -> tuple[ConfigState, bool]:
            exists = self._store.snapshot().contains(name)
            if exists and not replace:
                raise AlreadyExistsError(f"Connector {name} already exists")
            self._c.leader.write(lambda: self._store.put_connector(name, props, target_state))
            # Looked at before the herder's thread goes on: what it makes of the change, new tasks above all, is no part of the
            # answer (recording create-source), and somebody may delete the connector at once.
            return self._store.snapshot(), not exists

        written, created = self._as_leader(put)
        self._parts.history.record(name, props, origin)
        return self._info_in(written, name), created

    def patch_connector(self, name: str, changes: Mapping[str, str | None]) -> ConnectorInfo:
        self._require_leader()
        config = dict(self.connector_info(name).config)
        for key, value in changes.items():
            if value is None:
                config.pop(key, None)
            else:
                config[key] = value
        return self.put_connector(name, config, replace=True)[0]

    def delete_connector(self, name: str, *, origin: Origin = Origin.REST) -> None:
        def delete() -> None:
            if not self._store.snapshot().contains(name):
                raise NotFoundError(f"Connector {name} not found")
            self._c.leader.write(lambda: self._store.remove_connector(name))

        self._as_leader(delete)
        self._parts.history.record(name, None, origin)

    def set_target_state(self, name: str, state: TargetState) -> None:
        if not self._store.snapshot().contains(name):
            if state is TargetState.STOPPED:
                self._require_leader()
            self._refresh()
        if not self._store.snapshot().contains(name):
            raise NotFoundError(f"Unknown connector {name}")
        if state is not TargetState.STOPPED:
            # Any worker may write this; it is no work of the leader's.
            self._store.put_target_state(name, state)
            return

        def stop() -> None:
            # Tasks first, so that a worker that knows no STOPPED has none to run.
            if self._store.snapshot().task_count(name):
                self._c.leader.put_task_configs(name, [])
            self._c.leader.write(lambda: self._store.put_target_state(name, state))

        self._as_leader(stop)

    def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool) -> RestartPlan | None:
        if not include_tasks and not only_failed:
            self._on_owner(name, f"Unknown connector: {name}", lambda: self._c.restarts.connector(name))
            return None

        def plan() -> RestartPlan:
            if not self._store.snapshot().contains(name):
                raise NotFoundError(f"Unknown connector: {name}")
            status = self._parts.statuses.connector_status(name)
            if status is None:
                raise NotFoundError(f"Status for connector {name} not found")
            request = RestartRequest(name, include_tasks, only_failed)
            self._c.leader.write(lambda: self._store.put_restart_request(request))
            with_connector, tasks = to_restart(status, include_tasks=include_tasks, only_failed=only_failed)
            return RestartPlan(planned_restart(status, with_connector, tasks))

        made = self._as_leader(plan)
        return RestartPlan(replace(made.status, type=self._type_of(self._store.snapshot().config(name) or {})))

    def restart_task(self, task: TaskId) -> None:
        self._on_owner(task, f"Unknown connector: {task.connector}", lambda: self._c.restarts.tasks([task]))

    # --- offsets

    def offsets(self, name: str) -> list[OffsetEntry]:
        spec = self._spec(name)
        if self._is_sink(spec):
            return self._parts.sink_groups.offsets(name, spec.config)
        return shown_entries(name, self._parts.services.current_offsets(spec).entries(name))

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry] | None) -> str:
        require_offsets(offsets)

        def check() -> None:
            self._store.refresh(self._c.settings.sync_timeout_ms / 1000)
            state = self._store.snapshot()
            if not state.contains(name):
                raise NotFoundError(f"Connector {name} not found")
            require_stopped(name, state.target_state(name) or TargetState.STARTED, state.task_count(name))

        self._as_leader(check)
        spec = self._spec(name)
        if self._is_sink(spec):
            return alter_sink_offsets(self._parts.executor, self._parts.sink_groups, spec, offsets)
        exactly_once = self._c.settings.exactly_once is ExactlyOnce.ENABLED
        if exactly_once:
            self._as_leader_in_time(lambda: self._c.leader.fence(name, self._c.loop))
        store = self._parts.services.current_offsets(spec, transactional=exactly_once)
        return alter_source_offsets(self._parts.executor, store, spec, offsets)

    # --- between workers

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]], signature: RequestSignature | None) -> None:
        self._verify(signature)

        def put() -> None:
            state = self._store.snapshot()
            if not state.contains(name):
                raise NotFoundError(f"Connector {name} not found")
            if task_configs_changed(state, name, configs):
                self._c.leader.put_task_configs(name, configs)

        self._as_leader(put)

    def fence_zombies(self, name: str, signature: RequestSignature | None) -> None:
        self._verify(signature)
        config = self._store.snapshot().config(name)
        if config is not None and self._type_of(config) != "source":
            raise BadRequestError(f"Connector {name} is not a source connector")
        self._as_leader_in_time(lambda: self._c.leader.fence(name, self._c.loop))

    def _verify(self, signature: RequestSignature | None) -> None:
        if self._c.membership.protocol in (None, Protocol.SESSIONED):
            verify(signature, self._store.snapshot().session_key, self._c.settings.verification_algorithms)

    # --- operations

    def history(self, name: str) -> list[ConfigVersion]:
        versions = self._parts.history.versions(name)
        if not versions and not self._store.snapshot().contains(name):
            raise unknown(name)
        return versions

    def rollback(self, name: str, version: int) -> tuple[ConnectorInfo, bool]:
        self._require_leader()
        config = config_to_restore(name, self._parts.history.version(name, version))
        return self.put_connector(name, config, replace=True, origin=Origin.ROLLBACK)

    def connector_files(self) -> list[ConnectorFileState]:
        return [] if self._directory is None else self._directory.files()

    def all_loggers(self) -> dict[str, LoggerLevel]:
        return self._parts.loggers.all_loggers()

    def logger(self, name: str) -> LoggerLevel | None:
        return self._parts.loggers.logger(name)

    def set_worker_logger(self, namespace: str, level: str) -> list[str]:
        return self._parts.loggers.set_worker_logger(namespace, level)

    def set_cluster_logger(self, namespace: str, level: str) -> None:
        self._store.put_logger_level(namespace, level.upper())

    def close(self, timeout_s: float) -> None:
        if self._directory is not None:
            self._directory.close()
        self._parts.close(timeout_s)

    # --- parts of the above

    def _given_configs(self) -> Mapping[str, Mapping[str, str | None]]:
        state = self._store.snapshot()
        return {name: config for name in state.connectors() if (config := state.config(name)) is not None}

    def _type_of(self, config: Mapping[str, str | None]) -> str:
        try:
            return self._parts.facts(config).type
        except PluginNotFoundError:
            return "unknown"

    def _is_sink(self, spec: ConnectorSpec) -> bool:
        return self._parts.facts(spec.config).type == "sink"

    def _spec(self, name: str) -> ConnectorSpec:
        config = self._store.snapshot().config(name)
        if config is None:
            self._refresh()
            config = self._store.snapshot().config(name)
        if config is None:
            raise NotFoundError(f"Connector {name} not found")
        return self._waited(self._c.spec_for_request(name, config), f"looking up the configuration of connector {name}")

    def _refresh(self) -> None:
        self._store.refresh(self._c.settings.sync_timeout_ms / 1000)

    def _require_leader(self) -> None:
        """Before anything is done that takes long. Raises NotLeaderError."""
        membership = self._c.membership
        if membership.generation >= 0 and not membership.is_leader:
            raise NotLeaderError("Only the leader can change connectors", membership.leader_url)

    def _as_leader(self, job: Callable[[], T]) -> T:
        """Does a job on the herder's thread, as leader of a group that is not in the middle of a round."""

        def at_once() -> Future[T]:
            answer: Future[T] = Future()
            answer.set_result(job())
            return answer

        return self._as_leader_in_time(at_once)

    def _as_leader_in_time(self, job: Callable[[], Future[T]]) -> T:
        """The same for a job that is done when its future is."""
        done: Future[T] = Future()
        deadline = time.monotonic() + _ROUND_WAIT_S

        def attempt() -> Future[T]:
            membership = self._c.membership
            if self._c.rejoining:
                if time.monotonic() > deadline:
                    raise IllegalStateError(_NO_LEADER)
                raise _NotYet
            if not membership.is_leader:
                raise NotLeaderError("Only the leader can do this", membership.leader_url or None)
            return job()

        self._try(attempt, done)
        return self._waited(done, "the request")

    def _on_owner(self, instance: str | TaskId, unknown: str, restart: Callable[[], Future[None]]) -> None:
        name = instance if isinstance(instance, str) else instance.connector
        done: Future[None] = Future()
        deadline = time.monotonic() + _ROUND_WAIT_S

        def attempt() -> Future[None]:
            state = self._store.snapshot()
            if not state.contains(name):
                raise NotFoundError(unknown)
            if isinstance(instance, TaskId) and state.task_config(instance) is None:
                raise NotFoundError(f"Unknown task: {instance}")
            running = self._c.work.connectors if isinstance(instance, str) else self._c.work.tasks
            if instance in running:
                return restart()
            if self._c.rejoining or self._c.work.stopping:
                if time.monotonic() > deadline:
                    raise IllegalStateError(_NO_LEADER)
                raise _NotYet
            membership = self._c.membership
            owner = self._c.leader.owner_url(instance) if membership.is_leader else membership.leader_url
            if owner == self._parts.url:
                raise IllegalStateError(f"{instance} is not running on any worker at the moment; try again in a moment")
            what = "connector" if isinstance(instance, str) else "task"
            raise NotLeaderError(f"This worker does not run {what} {instance}", owner or None)

        self._try(attempt, done)
        self._waited(done, f"restarting {instance}")

    def _try(self, attempt: Callable[[], Future[T]], done: Future[T]) -> None:
        """Queues an attempt, and another one as long as it raises _NotYet."""

        def finished(future: Future[T]) -> None:
            error = future.exception()
            if isinstance(error, _NotYet):
                self._c.loop.post(lambda: self._try(attempt, done), 0.05)
            elif error is not None:
                done.set_exception(error)
            else:
                done.set_result(future.result())

        self._c.loop.submit(attempt).add_done_callback(finished)

    def _waited(self, future: Future[T], what: str) -> T:
        try:
            return future.result(_REQUEST_TIMEOUT_S)
        except FutureTimeout as e:
            log.warning("%s was not done within %d s", what, int(_REQUEST_TIMEOUT_S))
            raise ConnectError(self.stages.timed_out()) from e
        except Exception as e:
            raise mask_error(e, self._parts.mask) from e


class _NotYet(Exception):
    """The group is in the middle of a round."""
