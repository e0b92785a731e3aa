"""What a worker runs and reports: task IDs, states, statuses, offsets, config versions, and progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class TargetState(Enum):
    """The state that an operator requested for a connector (KIP-52, KIP-875)."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class State(Enum):
    """The state of a connector or task. STOPPED applies to connectors only."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """One task: connector name and number."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


@dataclass(frozen=True, slots=True)
class Restarts:
    """Automatic restarts of a connector or task (:mod:`worker.operations.auto_restart`)."""

    count: int
    """Restarts since its last long run without a failure."""
    next_ms: int | None
    """When it will be restarted, in ms since 1970; None while it runs, and when no restart follows."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A connector or task that does not move, although its state says that it runs (:mod:`worker.observability.stalls`)."""

    kind: str
    """``call`` (one that does not return), ``retries``, ``offsets``, ``lag``, ``pending``, or ``executor``."""
    phase: str
    """What it is doing: a phase of :class:`worker.observability.activity.TaskPhase`, or the connector's method."""
    since_ms: int
    """In ms since 1970."""
    message: str


@dataclass(frozen=True, slots=True)
class Status:
    """The state of one connector or task. ``trace`` is the failure as text, secrets masked; ``cause`` its first line."""

    state: State
    worker_id: str
    trace: str | None = None
    generation: int = 0
    version: str | None = None
    restarts: Restarts | None = None
    """None unless automatic restarts are on (``errors.restart.max.attempts``)."""
    stalled: Stall | None = None
    """None unless it does not move."""
    since_ms: int | None = field(default=None, compare=False)
    """Since when it has had this state, at least, as far as this worker knows; not stored."""


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector's configuration, variables unresolved."""

    name: str
    config: Mapping[str, str | None]
    tasks: Sequence[TaskId]
    type: str
    """``source``, ``sink`` or ``unknown``."""


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """The state of a connector and its tasks, sorted by number."""

    name: str
    connector: Status
    tasks: Sequence[tuple[int, Status]]
    type: str


@dataclass(frozen=True, slots=True)
class TaskSignal:
    """A signal that a user sends to running tasks. ``data`` is JSON or None; ``type`` says what it needs."""

    id: str
    type: str
    data: str | None


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task's configuration, variables unresolved."""

    id: TaskId
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The response of ``GET /``."""

    version: str
    commit: str
    kafka_cluster_id: str | None


@dataclass(frozen=True, slots=True)
class Health:
    """``healthy``, ``starting``, or ``unhealthy``, with a message."""

    status: str
    message: str


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One condition of :class:`Readiness`."""

    name: str
    passes: bool
    message: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """The response of a probe: it succeeds if all its checks pass."""

    checks: Sequence[HealthCheck]

    @property
    def is_ready(self) -> bool:
        return all(check.passes for check in self.checks)


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """The instances that a restart affects, for response 202."""

    status: ConnectorStatus


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One stored offset: the maps of a source, or for sinks kafka_topic, kafka_partition, and kafka_offset."""

    partition: Mapping[str, Any] | None
    """None only in a request, where it is invalid for sinks; for sources the connector decides."""
    offset: Mapping[str, Any] | None


class Origin(Enum):
    """The origin of a change of a connector's configuration."""

    REST = "rest"
    COMMAND_LINE = "command-line"
    DIRECTORY = "directory"
    """A file of ``connectors.dir``."""
    ROLLBACK = "rollback"
    CLUSTER = "cluster"
    """Found in the config topic: made by a worker without history, such as Apache's."""


@dataclass(frozen=True, slots=True)
class ConfigVersion:
    """One configuration that a connector had. Versions of a name are counted from 1 and never reused."""

    version: int
    at_ms: int
    """When it was recorded, in ms since 1970."""
    origin: Origin
    config: Mapping[str, str | None] | None = field(repr=False)
    """With references to config providers; None when the connector was deleted."""


@dataclass(frozen=True, slots=True)
class ConnectorFileState:
    """A file of ``connectors.dir`` and its state."""

    file: str
    """Its name in the directory."""
    connector: str | None
    """None until the file could be read."""
    state: str
    """``applied``, ``pending`` (not read yet, or still being written), ``waiting`` (another worker is the leader), ``invalid``
    (unreadable, or several files describe the connector), or ``failed`` (the worker rejected it)."""
    error: str | None = None


@dataclass(slots=True)
class ErrorCounts:
    """Counts of failed records since the task started: Apache's ``task-error-metrics`` under shorter names."""

    failures: int = 0
    """Failed operations, including each attempt of a retried one (total-record-failures)."""
    errors: int = 0
    """Records whose conversion or transformation failed after all retries, or that failed the task (total-record-errors)."""
    skipped: int = 0
    """Records skipped by the worker (total-records-skipped)."""
    retries: int = 0
    """Retried operations (total-retries)."""
    logged: int = 0
    """Logged records (total-errors-logged)."""
    dead_letters: int = 0
    """Records sent to the dead letter queue (deadletterqueue-produce-requests)."""
    dead_letter_failures: int = 0
    """Records that could not be written to it (deadletterqueue-produce-failures)."""
    last_error_ms: int | None = None
    """Time of the last failure, in ms since 1970 (last-error-timestamp)."""

    def add(self, before: ErrorCounts) -> None:
        """Adds earlier counts."""
        self.failures += before.failures
        self.errors += before.errors
        self.skipped += before.skipped
        self.retries += before.retries
        self.logged += before.logged
        self.dead_letters += before.dead_letters
        self.dead_letter_failures += before.dead_letter_failures
        self.last_error_ms = self.last_error_ms or before.last_error_ms


@dataclass(frozen=True, slots=True)
class TaskActivity:
    """What a task is doing. Times are in ms since 1970."""

    phase: str
    """A phase of :class:`worker.observability.activity.TaskPhase`."""
    since_ms: int
    at_ms: int
    """The time of this snapshot."""
    last_record_ms: int | None = None
    """When records were last polled or put; None before."""
    last_commit_ms: int | None = None
    """When offsets were last stored or committed; None before."""
    uncommitted_since_ms: int | None = None
    """When the first record was polled or put whose offset is not stored or committed; None if there is none."""
    retrying_since_ms: int | None = None
    """Since when ``poll`` or ``put`` has been failing and repeated; None if the last call succeeded."""
    retry_error: str | None = None
    polls_return: bool = False
    """Whether ``poll`` has returned without records before."""
    lag_grows_since_ms: int | None = None
    """Since when a sink's lag has been growing without records that arrive."""
    is_paused_by_sink: bool = False
    """Whether the sink itself has paused partitions."""
    pending_since_ms: int | None = None
    """Since when work has been waiting inside the connector although its methods return; None if there is none."""
    pending_work: str | None = None


@dataclass(slots=True)
class TaskProgress:
    """Live figures of a running task, beyond Apache's status; counts start with the task."""

    records: int = 0
    """Records sent to or taken from Kafka."""
    bytes: int = 0
    lag: Mapping[str, int] | None = None
    """For sinks: the undelivered records by ``topic-partition``."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Details of the connector, such as snapshot progress: ``SourceTask.progress()``."""
    errors: ErrorCounts = field(default_factory=ErrorCounts)
    activity: TaskActivity | None = None
    stalled: Stall | None = None


@dataclass(frozen=True, slots=True)
class RequestSignature:
    """The signature of a request between workers: headers X-Connect-Authorization and X-Connect-Request-Signature-Algorithm, and
    the exact signed body."""

    body: bytes = field(repr=False)
    signature: str | None = field(repr=False)
    """Base64; None without the header."""
    algorithm: str | None


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """The level of a logger, with Java's names (TRACE to OFF), and when it was changed over REST, in ms since 1970."""

    level: str
    last_modified: int | None


class TaskStopped(Exception):
    """The task must stop while a record waits for a retry or an error report. Not an error: the next run reads the record
    again."""


@dataclass(frozen=True, slots=True)
class PreviewRequest:
    """Records to run through the transformations of a configuration: those given, else those of the topic, else samples of the
    connector, else those of its first topic."""

    records: Sequence[Any] | None = None
    """In the format of :mod:`worker.preview.record_lines`."""
    topic: str | None = None
    limit: int = 5

    def to_plain(self) -> dict[str, Any]:
        return {"records": None if self.records is None else list(self.records), "topic": self.topic, "limit": self.limit}

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> PreviewRequest:
        return cls(plain["records"], plain["topic"], plain["limit"])


class SystemQuestion(Enum):
    """What REST asks about the external system of a configuration: see :mod:`worker.validation.external_systems`."""

    CAPABILITIES = "capabilities"
    """Whether the connector's class has connection tests, and which keys select tables. Connects to nothing."""
    CONNECTION_TEST = "connection-test"
    DATA_COLLECTIONS = "data-collections"
