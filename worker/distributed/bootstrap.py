"""Builds the components of a distributed worker from its configuration, and starts and closes them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from connect.errors import ConnectError
from connect.plugins import Plugins
from worker.config.client_overrides import client_properties
from worker.config.plugin_path import extend_python_path
from worker.config.reload_timer import ReloadTimer
from worker.config.resolved_config import ResolvedConfigs
from worker.config.startup_warnings import find_startup_warnings
from worker.config.worker_config import WorkerConfig
from worker.distributed.assignment_reconciler import AssignmentReconciler
from worker.distributed.auto_restart import FailedInstances
from worker.distributed.config_changes import ConfigChangeFollower, ConfigChangeListener
from worker.distributed.config_sync import ConfigSync
from worker.distributed.connector_specs import ConnectorSpecs
from worker.distributed.group_session import GroupSession
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.herder_thread import HerderThread
from worker.distributed.instance_events import ExecutorReports, InstanceEventHandler
from worker.distributed.leader import Leader
from worker.distributed.leader_client import LeaderClient
from worker.distributed.local_instances import LocalInstances
from worker.distributed.local_restarts import LocalRestarts
from worker.distributed.provider_reload import RELOAD_S, LeaderTurns, ProviderReload
from worker.distributed.rebalances import RebalanceHandler
from worker.distributed.reload_turns import ReloadTurns
from worker.distributed.services import ClusterServices
from worker.distributed.session_key_manager import SessionKeyManager
from worker.distributed.source_fencing import SourceFencing
from worker.distributed.status_writer import StatusWriter
from worker.distributed.task_config_publisher import TaskConfigPublisher
from worker.distributed.task_ownership import TaskOwnership
from worker.executor import Executor
from worker.executors.factory import make_executor
from worker.group.config import GroupSettings
from worker.group.member import GroupMember
from worker.group.protocol import WorkerMetadata
from worker.kafka.cluster import Cluster
from worker.kafka.fencing import fence_producers
from worker.kafka.settings import ClientKind
from worker.model import TaskId
from worker.observability.loggers import Loggers
from worker.observability.worker_metrics.start_counts import StartCounts
from worker.operations.auto_restart import AutoRestart
from worker.operations.history.topic import create_history
from worker.operations.history.versions import History
from worker.operations.shutdown import close_all
from worker.storage.config_store import ConfigStore
from worker.storage.status_store import StatusStore
from worker.storage.topic_logs import config_log, status_log

log = logging.getLogger(__name__)

_POOL_THREADS = 8
_FENCE_TIMEOUT_S = 60.0
_CLOSE_S = 2.0
_KILL_S = 5.0
"""The time to kill processes that do not end."""
_CLOSE_STORES_S = 8.0
"""Includes some seconds for records that the broker has not acknowledged."""


@dataclass(frozen=True, slots=True)
class WorkerComponents:
    """The components of one worker that requests use, or that have to be started and closed."""

    config: WorkerConfig
    worker_id: str
    url: str
    """Where other workers reach this one; ends with a slash."""
    loop: HerderLoop
    thread: HerderThread
    config_sync: ConfigSync
    group: GroupSession
    leader: Leader
    instances: LocalInstances
    reconciler: AssignmentReconciler
    restarts: LocalRestarts
    specs: ConnectorSpecs
    statuses: StatusWriter
    status_store: StatusStore
    services: ClusterServices
    executor: Executor
    values: ResolvedConfigs
    cluster: Cluster
    loggers: Loggers
    history: History
    reloads: ReloadTimer
    turns: ReloadTurns
    auto_restart: AutoRestart
    starts: StartCounts
    warnings: Sequence[str]

    def start(self) -> None:
        """Starts everything; the herder's thread continues in the background."""
        for warning in self.warnings:
            log.warning("%s", warning)
        self.executor.start()
        self.reloads.start()
        self.auto_restart.start()
        self.history.start()
        self.cluster.start()
        self.thread.start()

    def close(self, timeout_s: float) -> None:
        """Stops all instances, leaves the group, and closes all components, within the time and a bounded margin."""
        deadline = time.monotonic() + timeout_s
        close_all({"automatic restarts": self.auto_restart.close, "the timer of config providers": self.reloads.close}, _CLOSE_S)
        self.thread.stop()
        # Stores that wait for a broker at startup would block the herder's thread.
        if not self.group.is_ready:
            self._ask_stores_to_close()
        if not self.loop.join(max(1.0, deadline - time.monotonic()) + 2.0):
            operation = self.loop.activity.now()
            doing = operation.sentence() if operation is not None else ""
            log.error("The herder's thread does not end and is abandoned. %s", doing)
        executor_s = max(0.5, deadline - time.monotonic())
        close_all({"the executor": lambda: self.executor.close(executor_s)}, executor_s + _KILL_S)
        self._ask_stores_to_close()
        stores = {
            "the config topic": self.config_sync.store.close,
            "the status topic": self.status_store.close,
            "the offset topics": self.services.close,
            "the history": self.history.close,
            "the client for the cluster's id": self.cluster.close,
        }
        close_all(stores, _CLOSE_STORES_S)
        close_all({"config providers": self.config.providers.close}, _CLOSE_S)

    def _ask_stores_to_close(self) -> None:
        self.config_sync.store.ask_to_close()
        self.status_store.ask_to_close()
        self.services.ask_to_close()


def assemble(
    config: WorkerConfig,
    *,
    worker_id: str,
    url: str,
    leader_client: LeaderClient,
    on_fatal: Callable[[ConnectError], None],
    plugins: Plugins | None = None,
) -> WorkerComponents:
    """Builds a worker that others reach at ``url``. Nothing is started. Raises ConfigError for invalid settings."""
    settings = config.distributed
    assert settings is not None
    mask = config.providers.mask
    warnings = [*find_startup_warnings(config.originals, distributed=True), *extend_python_path(config.plugin_path)]
    graceful_s = config.task_shutdown_graceful_timeout_ms / 1000
    loggers, history = Loggers(), create_history(config)
    pool = ThreadPoolExecutor(_POOL_THREADS, thread_name_prefix="herder-work")

    # Components call those that are built after them through these functions, only once the worker has started.
    def interrupt_member() -> None:
        member.interrupt()

    def reload(name: str, only_if_changed: bool) -> Future[None]:
        return provider_reload.reload(name, only_if_changed)

    def reconfigure(name: str) -> None:
        publisher.reconfigure(name)

    def restart_failed(name: str, task: int | None) -> None:
        instance = name if task is None else TaskId(name, task)
        loop.post(lambda: failed_instances.restart(instance, restarts.restart_failed))

    def confirm_task(start_id: int, task: TaskId, *, with_coordinator: bool) -> None:
        ownership.confirm(start_id, task, with_coordinator=with_coordinator)

    def metadata() -> WorkerMetadata:
        return WorkerMetadata(url, store.snapshot().offset, reconciler.held)

    def fence(name: str, transactional_ids: Sequence[str]) -> None:
        _fence(config, values, store.snapshot().config(name), name, transactional_ids)

    loop = HerderLoop(interrupt_member)
    store = ConfigStore(
        config_log(config),
        ConfigChangeListener(loop, lambda: follower, lambda namespace, level: _set_level(loggers, namespace, level)),
    )
    sync = ConfigSync(store, loop, settings.sync_timeout_ms / 1000)
    instances = LocalInstances()
    reloads = ReloadTimer(reload, max_restart_s=RELOAD_S)
    values = ResolvedConfigs(config.providers, reloads)
    specs = ConnectorSpecs(values, pool)

    auto_restart = AutoRestart(config, restart_failed)
    failed_instances = FailedInstances(auto_restart, sync, instances)
    status_store = StatusStore(status_log(config), worker_id)
    tracks_topics = config.topic_tracking_enable
    statuses = StatusWriter(status_store, worker_id, mask, failed_instances, tracks_topics=tracks_topics)
    reports = ExecutorReports(loop, sync, instances, statuses, status_store if tracks_topics else None, reconfigure)
    services = ClusterServices(config, sync, specs, confirm_task)
    starts = StartCounts(reports)
    executor = make_executor(config, plugins, services, starts, mask)
    loggers.on_change(executor.set_log_level)

    leader = Leader(settings, store, fence, pool)
    member = GroupMember(
        GroupSettings.of(config.originals, client_id=f"connect-{worker_id}"),
        metadata=metadata,
        assign=lambda members, protocol, leader_id: leader.assign(
            members,
            protocol,
            leader_id,
            generation=member.forming_generation,
            last_completed_generation=member.last_completed_generation,
        ),
        events=lambda event: rebalances.on_group_event(event),
        wake=loop.wake,
    )
    group = GroupSession(member, loop, sync)
    keys = SessionKeyManager(settings, loop, store, group, leader)
    publisher = TaskConfigPublisher(loop, sync, group, instances, leader, leader_client, keys, executor, pool)
    fencing = SourceFencing(settings, loop, sync, group, instances, leader, leader_client, keys, executor, pool)
    events = InstanceEventHandler(statuses, reconfigure, lambda: rebalances.stop_finished())
    reconciler = AssignmentReconciler(
        executor, instances, events, specs.resolve, fencing.before_tasks, loop.post, lambda: sync.state
    )
    restarts = LocalRestarts(loop, instances, reconciler, statuses, graceful_s)
    ownership = TaskOwnership(settings.group_id, loop, sync, instances, reconciler, member.confirm)
    turns = ReloadTurns()
    take_turn = LeaderTurns(worker_id, turns, group, keys, leader_client, pool)
    provider_reload = ProviderReload(loop, sync, values, pool, instances, reconciler, statuses, take_turn)
    follower = ConfigChangeFollower(loop, sync, group, instances, reconciler, statuses, restarts, keys, values, history.observe)
    rebalances = RebalanceHandler(settings, loop, sync, group, reconciler, leader, keys, statuses, publisher)
    services_to_start = (
        ("reading the config topic to its end", store.start),
        ("reading the offset topic to its end", services.start),
        ("reading the status topic to its end", status_store.start),
        ("waiting for an executor", executor.wait_until_ready),
    )
    thread = HerderThread(loop, sync, group, instances, reconciler, rebalances, pool, services_to_start, graceful_s, on_fatal)
    return WorkerComponents(
        config=config,
        worker_id=worker_id,
        url=url,
        loop=loop,
        thread=thread,
        config_sync=sync,
        group=group,
        leader=leader,
        instances=instances,
        reconciler=reconciler,
        restarts=restarts,
        specs=specs,
        statuses=statuses,
        status_store=status_store,
        services=services,
        executor=executor,
        values=values,
        cluster=Cluster(config.bootstrap_servers, config.originals),
        loggers=loggers,
        history=history,
        reloads=reloads,
        turns=turns,
        auto_restart=auto_restart,
        starts=starts,
        warnings=warnings,
    )


def _set_level(loggers: Loggers, namespace: str, level: str) -> None:
    try:
        loggers.set_worker_logger(namespace, level)
    except ConnectError as e:
        log.warning("Ignoring a log level for the cluster: %s", e.message)


def _fence(
    config: WorkerConfig, values: ResolvedConfigs, stored: Mapping[str, str | None] | None, name: str, ids: Sequence[str]
) -> None:
    # With the connector's own settings of admin clients: its producers may belong to another cluster.
    own = values.resolve_for_validation(stored or {}).values
    fence_producers(client_properties(ClientKind.ADMIN, config, name, 0, own), ids, _FENCE_TIMEOUT_S)
