"""The interface between a herder, which decides what runs, and an executor, which runs it.

A herder (standalone or distributed) alone owns what is wanted: configs, target states, statuses. An executor has the plugins: it
creates connectors and tasks, runs their code on its own threads, and reports their states. No plugin object crosses the
interface: specs, states, and answers are plain data, so an executor can be another process.

Each start of an instance has a start ID, a number that the herder never uses twice. Reports carry it, and a herder ignores the
reports of starts that it has ended or replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from worker.cancellation import Cancellation
from worker.model import PreviewRequest, Stall, State, SystemQuestion, TargetState, TaskId, TaskProgress, TaskSignal
from worker.observability.metrics.task_figures import TaskFigures
from worker.storage.offset_store import OffsetPair, OffsetRecord, OffsetStore


@dataclass(frozen=True, slots=True)
class ConnectorSpec:
    """A connector to run."""

    name: str
    given: Mapping[str, str] = field(repr=False)
    """The config with references to config providers, as it is stored and shown."""
    config: Mapping[str, str] = field(repr=False)
    """The config with the values of these references."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task to run."""

    id: TaskId
    connector: ConnectorSpec
    config: Mapping[str, str] = field(repr=False)
    """The task's own config, with values."""
    paused: bool
    """Whether it starts paused: then it does not start until it is resumed, as in Apache's worker."""
    transactional_id: str | None = None
    """Set for a source task with exactly-once: it writes records and offsets in transactions under this ID (KIP-618)."""


@dataclass(frozen=True, slots=True)
class ConnectorFacts:
    """Facts about a connector class, known without an instance."""

    class_name: str
    """As REST shows it."""
    type: str
    """``source``, ``sink`` or ``unknown``."""
    version: str | None


@dataclass(frozen=True, slots=True)
class ExecutorFigures:
    """The figures of the tasks of one process."""

    process: str
    """Its key, as in logs; ``control`` for the process of the worker itself."""
    pid: int | None
    """None before it has started."""
    answered: bool
    """Whether it answered in time. If not, ``tasks`` are those of its last answer."""
    tasks: Sequence[TaskFigures]


class ExecutorListener(Protocol):
    """Receives reports about started instances. Called on any thread; must not block."""

    def on_connector_state(self, start_id: int, name: str, state: State, trace: str | None, version: str | None) -> None:
        """RUNNING after a successful start, PAUSED or STOPPED when the instance was stopped for it, FAILED with the trace.
        RESTARTING when its process has exited and the executor restarts it in another, with the same start ID."""

    def on_task_state(self, start_id: int, task: TaskId, state: State, trace: str | None, version: str | None) -> None:
        """RUNNING, PAUSED, or FAILED (then the task has ended); UNASSIGNED when it ended on request. RESTARTING as for
        connectors."""

    def on_reconfiguration_requested(self, start_id: int, name: str) -> None:
        """The connector has new task configs to offer."""

    def on_topics(self, start_id: int, task: TaskId, topics: Collection[str]) -> None:
        """The task has used these topics for the first time (KIP-558)."""

    def on_stall(self, start_id: int, instance: str | TaskId, stall: Stall | None) -> None:
        """The connector (by name) or task does not move, repeated while that lasts; None when it moves again."""


class WorkerServices(Protocol):
    """What an executor needs from its worker. Called on tasks' threads; may block; raises errors of connect.errors."""

    @property
    def offsets(self) -> OffsetStore:
        """Source offsets, including those in a connector's own offsets topic."""

    def offset_records(self, connector: str, offsets: Sequence[OffsetPair]) -> list[OffsetRecord]:
        """Returns the records that store these offsets, for a task that writes them in its transaction."""

    def offsets_committed(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        """Records offsets that a task has written in a committed transaction. Tombstones of a connector's own offsets topic are
        written to the worker's topic before that: see :meth:`before_commit`."""

    def before_commit(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        """Called before a transaction that deletes offsets is committed."""

    def confirm_task(self, start_id: int, task: TaskId, *, with_coordinator: bool = False) -> None:
        """Confirms that the task still belongs to this worker; called after a transactional producer was initialized.

        Raises ConnectError, in Apache's words, when another worker owns the task or its config is newer. With
        ``with_coordinator``, for a task that ran before, the group coordinator must confirm this worker's membership too. Raises
        UnreachableError while that cannot be known.
        """


class Executor(Protocol):
    """Runs connectors and tasks. Methods return at once; futures complete when the work is done. Safe from any thread.

    Requests for one connector are carried out in their order. Requests for different connectors do not wait for each other, so a
    connector that hangs blocks no other.
    """

    def start(self) -> None:
        """Starts the executor. Called once, before anything else; does not block."""

    def wait_until_ready(self) -> None:
        """Waits until it accepts work. Raises ConfigError when the worker's converters cannot be loaded. Afterwards its mask
        knows the secrets among the worker's settings."""

    def facts(self, class_name: str, environment: str | None = None) -> ConnectorFacts:
        """Looks up a connector class. Raises PluginNotFoundError; takes as long as importing the class.

        ``environment`` is the connector's ``task.environment``, for a class that exists only there.
        """

    def validate(self, config: Mapping[str, Any], values: Mapping[str, str | None]) -> dict[str, Any]:
        """Validates as :func:`worker.validation.validate` does, for the config as given and the values of config providers.
        Blocks as long as the plugin does."""

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]: ...

    def plugin_config(self, plugin: str, version: str | None) -> list[dict[str, Any]]: ...

    def preview(self, values: Mapping[str, str | None], request: PreviewRequest) -> dict[str, Any]:
        """Runs records through the transformations of a config as :func:`worker.preview.stages.preview_stages` does. Blocks as
        long as the plugins do, and as reading a topic takes."""

    def external_system(
        self, values: Mapping[str, str | None], question: SystemQuestion, secrets: Collection[str], cancellation: Cancellation
    ) -> dict[str, Any]:
        """Answers a question about the system behind a config as
        :func:`worker.validation.external_systems.answer_about_system` does, within its time limit."""

    def dead_letters(self, spec: ConnectorSpec, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answers a request about the connector's dead letters (:func:`worker.dead_letters.engine.answer`). Blocks for as long as
        Kafka and the plugins need, up to about a minute."""

    def start_connector(self, start_id: int, spec: ConnectorSpec, target: TargetState) -> Future[None]:
        """Creates an instance and, if the target is STARTED, starts it. The future fails with the error of the start, which is
        reported as a state too."""

    def set_connector_target(self, name: str, target: TargetState) -> Future[None]:
        """Starts or stops the instance. Does nothing for a connector that does not run here."""

    def stop_connector(self, name: str) -> Future[None]:
        """Stops the instance and removes it. One that does not stop within ``task.shutdown.graceful.timeout.ms`` is abandoned:
        the future completes, and further reports of the instance are ignored."""

    def task_configs(self, name: str) -> Future[list[dict[str, str]]]:
        """Requests the connector's task configs as they are stored: with references where the connector's own config has them,
        and with ``task.class`` and a sink's topics. The future fails with the connector's error, which is also reported as
        FAILED, or with IllegalStateError when the connector does not run here."""

    def alter_offsets(self, spec: ConnectorSpec, offsets: Sequence[OffsetPair], *, reset: bool = False) -> Future[bool]:
        """Calls ``alter_offsets`` of the connector's class, or ``reset_offsets`` of a sink. For sinks, partitions are those of
        the REST API (kafka_topic, kafka_partition) and offsets kafka_offset. The future fails with UnsupportedError or the
        connector's error."""

    def start_task(self, start_id: int, spec: TaskSpec) -> None:
        """Starts a task; its states are reported."""

    def set_task_paused(self, task: TaskId, paused: bool) -> None: ...

    def stop_tasks(self, tasks: Collection[TaskId]) -> Future[None]:
        """Stops tasks in parallel. Those that take longer than ``task.shutdown.graceful.timeout.ms`` in total are abandoned, and
        their writes fenced (promise 4). Completes when each has ended or was abandoned."""

    def progress(self, task: TaskId) -> TaskProgress | None:
        """The progress of a task that runs here, or None."""

    def progress_of(self, tasks: Collection[TaskId]) -> Mapping[TaskId, TaskProgress]:
        """The progress of those of the tasks that run here. Waits for all together as long as :meth:`progress` for one."""

    def figures(self, timeout_s: float) -> list[ExecutorFigures]:
        """Returns the figures of all tasks, by process. Waits at most this long for processes and for code of connectors, and
        returns without those that do not answer."""

    def signal_task(self, task: TaskId, signal: TaskSignal) -> bool:
        """Sends a signal to a task. Returns False if it does not run here. Raises BadRequestError if the task does not take it.
        Blocks until the task's process answers."""

    def set_log_level(self, namespace: str, level: str) -> None:
        """Applies a change of a logger's level (``/admin/loggers``)."""

    def close(self, timeout_s: float) -> None:
        """Stops everything within the timeout, and ends the executor."""
