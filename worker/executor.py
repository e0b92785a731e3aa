"""The seam between a herder, which decides what runs, and an executor, in which it runs.

A herder (standalone or distributed) is the only owner of what is wanted: configurations, target states, statuses. An executor
has the plugins: it makes connectors and tasks, runs their code on threads of theirs, and tells what became of them. Nothing that
crosses this seam is a plugin's object: specs, states and answers are plain data, so that an executor can be another process.

Each start of an instance has a ``run``, a number that the herder never gives twice. What an executor tells carries it, and a
herder does not listen to runs that it has ended or replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from worker.model import State, TargetState, TaskId, TaskProgress
from worker.storage.offset_store import OffsetPair, OffsetRecord, OffsetStore


@dataclass(frozen=True, slots=True)
class ConnectorSpec:
    """A connector to be run."""

    name: str
    given: Mapping[str, str] = field(repr=False)
    """The configuration with references to config providers, as it is stored and shown."""
    config: Mapping[str, str] = field(repr=False)
    """The same with values in place of them."""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A task to be run."""

    id: TaskId
    connector: ConnectorSpec
    config: Mapping[str, str] = field(repr=False)
    """The task's own configuration, with values."""
    paused: bool
    """Whether it begins paused: then it is not even started before it is resumed, as in Apache's worker."""
    transactional_id: str | None = None
    """Given for a source task with exactly-once: it writes records and offsets in transactions under this id (KIP-618)."""


@dataclass(frozen=True, slots=True)
class ConnectorFacts:
    """What is to be known of a connector's class without an instance that runs."""

    class_name: str
    """As REST shows it."""
    type: str
    """``source``, ``sink`` or ``unknown``."""
    version: str | None
    shares_executor: str | None = None
    """Connectors of which this is the same run in one process together (:attr:`connect.connector.Connector.shares_executor`)."""


class ExecutorListener(Protocol):
    """Hears what becomes of what was started. Called on any thread; must not block."""

    def on_connector_state(self, run: int, name: str, state: State, trace: str | None, version: str | None) -> None:
        """RUNNING after a successful start, PAUSED or STOPPED when the instance was stopped for it, FAILED with the trace.
        RESTARTING when the process it ran in has ended and the executor starts it anew in another, under the same run."""

    def on_task_state(self, run: int, task: TaskId, state: State, trace: str | None, version: str | None) -> None:
        """RUNNING, PAUSED or FAILED (then the task has ended); UNASSIGNED when it has ended as it was asked to. RESTARTING as for
        connectors."""

    def on_reconfiguration_requested(self, run: int, name: str) -> None:
        """The connector wants to be asked for its tasks again."""

    def on_topics(self, run: int, task: TaskId, topics: Collection[str]) -> None:
        """The task has used these topics for the first time (KIP-558)."""


class WorkerServices(Protocol):
    """What runs in an executor asks of its worker. Called on tasks' threads; may block; raises errors of connect.errors."""

    @property
    def offsets(self) -> OffsetStore:
        """Source offsets; for a connector with an offsets topic of its own, those in it too."""

    def offset_records(self, connector: str, offsets: Sequence[OffsetPair]) -> list[OffsetRecord]:
        """The records that store these offsets, for a task that writes them in its transaction."""

    def offsets_committed(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        """A task has written these in a transaction that is committed. Tombstones for an own topic are written to the worker's
        before that; see :meth:`before_commit`."""

    def before_commit(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        """Called before such a transaction is committed, when offsets in it are to be forgotten."""

    def confirm_task(self, run: int, task: TaskId, *, anew: bool = False) -> None:
        """After a transactional producer was initialised: raises ConnectError in Apache's words when the task is no longer this
        worker's, or has a newer configuration. With ``anew``, for a task that has run before, the group's coordinator is asked
        too whether the worker is still what it takes itself for. Raises UnreachableError while it cannot be known."""


class Executor(Protocol):
    """Runs connectors and tasks. Methods return at once; futures tell when it is done. Safe from any thread.

    What is asked for one connector happens in the order in which it was asked; what is asked for different ones does not wait
    for each other, so that a connector that hangs holds up nobody else.
    """

    def start(self) -> None:
        """Begins. Called once, before anything else; does not wait for anything."""

    def wait_until_ready(self) -> None:
        """Waits until it can do what is asked of it. Raises ConfigError when what runs in it cannot load the worker's converters.
        The secrets among the worker's own settings are known to its mask then."""

    def facts(self, class_name: str, environment: str | None = None) -> ConnectorFacts:
        """Raises PluginNotFoundError; may take as long as importing the class does. ``environment`` is the connector's
        ``task.environment``, for a class that is only there."""

    def validate(self, config: Mapping[str, Any], values: Mapping[str, str | None]) -> dict[str, Any]:
        """The answer of :func:`worker.validation.validate`: for the configuration as given, with the values of config providers.
        Raises what that raises. May block as long as the plugin does."""

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]: ...

    def plugin_config(self, plugin: str, version: str | None) -> list[dict[str, Any]]: ...

    def start_connector(self, run: int, spec: ConnectorSpec, target: TargetState) -> Future[None]:
        """Makes an instance and, if the target is STARTED, starts it. The future has what made it fail; a state was told too."""

    def set_connector_target(self, name: str, target: TargetState) -> Future[None]:
        """Starts or stops the instance as the target says. Nothing happens for a name that does not run here."""

    def stop_connector(self, name: str) -> Future[None]:
        """Stops the instance and forgets it. One that does not stop within ``task.shutdown.graceful.timeout.ms`` is abandoned:
        the future is done then, and nothing the instance still says is passed on."""

    def task_configs(self, name: str) -> Future[list[dict[str, str]]]:
        """Asks the connector for its tasks: configurations as they are stored, with references where the connector's own has
        them, ``task.class`` and a sink's topics added. The future fails with what the connector raised (its state is told as
        FAILED then too), or with IllegalStateError when no such connector runs here."""

    def alter_offsets(self, spec: ConnectorSpec, offsets: Sequence[OffsetPair]) -> Future[bool]:
        """Asks a connector's class (``alter_offsets``) about offsets that are to change: for sinks the partition maps are those
        of REST (kafka_topic, kafka_partition) and the offsets kafka_offset. The future fails with UnsupportedError, or with what
        the connector raises."""

    def start_task(self, run: int, spec: TaskSpec) -> None:
        """Starts a task; what becomes of it is told."""

    def set_task_paused(self, task: TaskId, paused: bool) -> None: ...

    def stop_tasks(self, tasks: Collection[TaskId]) -> Future[None]:
        """Stops tasks side by side. Those that take longer than ``task.shutdown.graceful.timeout.ms``, all together, are cut off:
        what they still write is fenced (promise 4). Done when each has ended or was cut off."""

    def progress(self, task: TaskId) -> TaskProgress | None:
        """Live numbers of a task that runs here, or None."""

    def set_log_level(self, namespace: str, level: str) -> None:
        """Passes a change of a logger on (``/admin/loggers``)."""

    def close(self, timeout_s: float) -> None:
        """Stops everything that runs, within the time; then the executor is of no more use."""
