"""Puts a distributed worker together from its configuration. What is made here is not started."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from connect.errors import ConnectError
from connect.plugins import Plugins
from worker.config.client_overrides import client_properties
from worker.config.isolation import ENVIRONMENT
from worker.config.plugin_path import extend_python_path
from worker.config.reload_timer import ReloadTimer
from worker.config.resolved_config import ResolvedConfigs
from worker.config.secrets import SecretMask
from worker.config.startup_warnings import find_startup_warnings
from worker.config.worker_config import WorkerConfig
from worker.distributed.auto_restart import Healing
from worker.distributed.herder_core import Coordination, Surroundings
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.leader_client import Peers
from worker.distributed.services import ClusterServices
from worker.distributed.status_writer import StatusWriter
from worker.executor import ConnectorFacts, Executor
from worker.executors.factory import make_executor
from worker.group.config import GroupSettings
from worker.group.member import GroupMember
from worker.kafka.cluster import Cluster
from worker.kafka.fencing import fence_producers
from worker.kafka.settings import ClientKind
from worker.observability.loggers import Loggers
from worker.operations.history.factory import history_of
from worker.operations.history.versions import History
from worker.operations.offsets.sink_groups import SinkGroups
from worker.operations.shutdown import close_all
from worker.storage.config_store import ConfigStore
from worker.storage.status_store import StatusStore
from worker.storage.topic_logs import config_log, status_log
from worker.validation.config_validator import ConfigValidator

log = logging.getLogger(__name__)

_FENCE_TIMEOUT_S = 60.0
_MOMENTS_S = 2.0
_KILL_S = 5.0
"""What it takes to kill processes that do not end."""
_STORES_S = 8.0
"""Some seconds are for what the broker has not acknowledged."""


@dataclass(slots=True)
class Parts:
    """The parts of one worker, and who starts and closes them."""

    config: WorkerConfig
    worker_id: str
    url: str
    mask: SecretMask
    loop: HerderLoop
    executor: Executor
    cluster: Cluster
    values: ResolvedConfigs
    reloads: ReloadTimer
    check: ConfigValidator
    statuses: StatusWriter
    services: ClusterServices
    sink_groups: SinkGroups
    loggers: Loggers
    healing: Healing
    history: History
    coordination: Coordination
    notices: Sequence[str]
    _facts: dict[tuple[str, str | None], ConnectorFacts] = field(default_factory=dict)

    def facts(self, config: Mapping[str, str | None]) -> ConnectorFacts:
        """What is known of the class that a connector's configuration names. Raises PluginNotFoundError."""
        key = config.get("connector.class") or "", config.get(ENVIRONMENT)
        found = self._facts.get(key)
        if found is None:
            found = self._facts[key] = self.executor.facts(*key)
        return found

    def start(self) -> None:
        """Begins everything; the herder's thread goes on from there."""
        for notice in self.notices:
            log.warning("%s", notice)
        self.executor.start()
        self.reloads.start()
        self.healing.start()
        self.history.start()
        self.cluster.start()
        self.coordination.start()

    def close(self, timeout_s: float) -> None:
        """Stops what runs, leaves the group and closes all parts, within the time and some seconds more whatever they do."""
        deadline = time.monotonic() + timeout_s
        close_all({"self-healing": self.healing.close, "the timer of config providers": self.reloads.close}, _MOMENTS_S)
        self.coordination.stop()
        # Stores that wait for a broker at the start would hold up the herder's thread.
        if not self.coordination.ready:
            self._ask_stores_to_close()
        if not self.loop.join(max(1.0, deadline - time.monotonic()) + 2.0):
            stage = self.loop.stages.now()
            log.error("The herder's thread does not end and is abandoned. %s", stage.sentence() if stage is not None else "")
        executor_s = max(0.5, deadline - time.monotonic())
        close_all({"the executor": lambda: self.executor.close(executor_s)}, executor_s + _KILL_S)
        self._ask_stores_to_close()
        stores = {
            "the config topic": self.coordination.store.close,
            "the status topic": self.statuses.store.close,
            "the offset topics": self.services.close,
            "the history": self.history.close,
            "the client for the cluster's id": self.cluster.close,
        }
        close_all(stores, _STORES_S)
        close_all({"config providers": self.config.providers.close}, _MOMENTS_S)

    def _ask_stores_to_close(self) -> None:
        self.coordination.store.ask_to_close()
        self.statuses.store.ask_to_close()
        self.services.ask_to_close()


def assemble(
    config: WorkerConfig,
    *,
    worker_id: str,
    url: str,
    peers: Peers,
    on_fatal: Callable[[ConnectError], None],
    plugins: Plugins | None = None,
) -> Parts:
    """The parts of a worker that others reach at ``url``. Raises ConfigError for settings that cannot work."""
    settings = config.distributed
    assert settings is not None
    mask = config.providers.mask
    notices = [*find_startup_warnings(config.originals, distributed=True), *extend_python_path(config.plugin_path)]
    graceful_s = config.task_shutdown_graceful_timeout_ms / 1000
    group = GroupSettings.of(config.originals, client_id=f"connect-{worker_id}")
    loop, loggers, history = HerderLoop(), Loggers(), history_of(config)
    coordination: list[Coordination] = []  # filled below: what is made before it calls it later
    reloads = ReloadTimer(lambda name, only_if_changed: coordination[0].reload(name, only_if_changed))
    values = ResolvedConfigs(config.providers, reloads)
    status_store = StatusStore(status_log(config), worker_id)
    statuses = StatusWriter(
        status_store, loop, worker_id, mask, tracks_topics=config.topic_tracking_enable, graceful_s=graceful_s
    )
    services = ClusterServices(config, lambda: coordination[0])
    executor = make_executor(config, plugins, services, statuses, mask)
    loggers.on_change(executor.set_log_level)
    around = Surroundings(
        settings=settings,
        url=url,
        loop=loop,
        executor=executor,
        values=values,
        peers=peers,
        statuses=statuses,
        fence_producers=lambda name, ids: _fence(config, values, coordination[0].store.snapshot().config(name), name, ids),
        starts=(
            ("reading the offset topic to its end", services.start),
            ("reading the status topic to its end", status_store.start),
            ("waiting for an executor", executor.wait_until_ready),
        ),
        on_logger_level=lambda namespace, level: _set_level(loggers, namespace, level),
        on_fatal=on_fatal,
        observe=history.observe,
    )
    made = Coordination(
        around,
        lambda listener: ConfigStore(config_log(config), listener),
        lambda c: GroupMember(group, metadata=c.metadata, assign=c.assign, events=c.on_group_event, wake=loop.wake),
    )
    coordination.append(made)
    statuses.work = made.work
    statuses.on_reconfiguration = made.reconfigure
    healing = Healing(made, statuses, config)
    return Parts(
        config=config,
        worker_id=worker_id,
        url=url,
        mask=mask,
        loop=loop,
        executor=executor,
        cluster=Cluster(config.bootstrap_servers, config.originals),
        values=values,
        reloads=reloads,
        check=ConfigValidator(executor, values, mask),
        statuses=statuses,
        services=services,
        sink_groups=SinkGroups(config),
        loggers=loggers,
        healing=healing,
        history=history,
        coordination=made,
        notices=notices,
    )


def _set_level(loggers: Loggers, namespace: str, level: str) -> None:
    try:
        loggers.set_worker_logger(namespace, level)
    except ConnectError as e:
        log.warning("A level for the cluster's loggers is left out: %s", e.message)


def _fence(
    config: WorkerConfig, values: ResolvedConfigs, stored: Mapping[str, str | None] | None, name: str, ids: Sequence[str]
) -> None:
    # With the connector's own settings of admin clients: its producers may be of another cluster.
    own = values.resolve_for_validation(stored or {}).values
    fence_producers(client_properties(ClientKind.ADMIN, config, name, 0, own), ids, _FENCE_TIMEOUT_S)
