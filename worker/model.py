"""What a worker runs and reports: task IDs, states, statuses, offsets, config versions, and progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class TargetState(Enum):
    """What an operator wants of a connector (KIP-52, KIP-875)."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class State(Enum):
    """What a connector or task is doing. STOPPED is for connectors only."""

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
    """What self-healing has done for a connector or task (:mod:`worker.operations.auto_restart`)."""

    count: int
    """Restarts since it last ran well for long."""
    next_ms: int | None
    """When it will be restarted, in ms since 1970; None while it runs, and when there will be no more."""


@dataclass(frozen=True, slots=True)
class Status:
    """The state of one connector or task. ``trace`` is the failure as text, secrets masked; ``cause`` its first line."""

    state: State
    worker_id: str
    trace: str | None = None
    generation: int = 0
    version: str | None = None
    restarts: Restarts | None = None
    """Only where self-healing is on (``errors.restart.max.attempts``)."""


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector as it was configured: variables unresolved."""

    name: str
    config: Mapping[str, str | None]
    tasks: Sequence[TaskId]
    type: str
    """``source``, ``sink`` or ``unknown``."""


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """A connector's state with its tasks', sorted by number."""

    name: str
    connector: Status
    tasks: Sequence[tuple[int, Status]]
    type: str


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """A task's configuration, variables unresolved."""

    id: TaskId
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What ``GET /`` shows."""

    version: str
    commit: str
    kafka_cluster_id: str | None


@dataclass(frozen=True, slots=True)
class Health:
    """``healthy``, ``starting`` or ``unhealthy``, with the sentence that says so."""

    status: str
    message: str


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """What a restart of several instances touches, for the answer 202."""

    status: ConnectorStatus


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One stored offset: a source's own maps, or for sinks kafka_topic/kafka_partition and kafka_offset."""

    partition: Mapping[str, Any] | None
    """None only in a request, where it is wrong for sinks and a matter of the connector for sources."""
    offset: Mapping[str, Any] | None


class Origin(Enum):
    """Where a change of a connector's configuration came from."""

    REST = "rest"
    COMMAND_LINE = "command-line"
    DIRECTORY = "directory"
    """A file of ``connectors.dir``."""
    ROLLBACK = "rollback"
    CLUSTER = "cluster"
    """Found in the config topic: another worker made it, Apache's or one without history."""


@dataclass(frozen=True, slots=True)
class ConfigVersion:
    """One configuration that a connector had. Versions of a name are counted from 1 and never given twice."""

    version: int
    at_ms: int
    """When it was recorded, in ms since 1970."""
    origin: Origin
    config: Mapping[str, str | None] | None = field(repr=False)
    """As it was given, with references to config providers; None when the connector was deleted."""


@dataclass(frozen=True, slots=True)
class ConnectorFileState:
    """A file of ``connectors.dir`` and what became of it."""

    file: str
    """Its name in the directory."""
    connector: str | None
    """None as long as the file could not be read."""
    state: str
    """``applied``, ``pending`` (not looked at yet, or still being written), ``waiting`` (another worker is the leader),
    ``invalid`` (cannot be read, or two files have the name) or ``failed`` (the worker refused it)."""
    error: str | None = None


@dataclass(slots=True)
class ErrorCounts:
    """What became of records that failed, since the task started; Apache's ``task-error-metrics`` under shorter names."""

    failures: int = 0
    """Failed operations, each attempt of a retried one (total-record-failures)."""
    errors: int = 0
    """Records whose conversion or transformation failed for good, or that ended the task (total-record-errors)."""
    skipped: int = 0
    """Records left out by the worker (total-records-skipped)."""
    retries: int = 0
    """Operations called again (total-retries)."""
    logged: int = 0
    """Records told of in the log (total-errors-logged)."""
    dead_letters: int = 0
    """Records given to the dead letter queue (deadletterqueue-produce-requests)."""
    dead_letter_failures: int = 0
    """Of those, not written (deadletterqueue-produce-failures)."""
    last_error_ms: int | None = None
    """When a record failed last, in ms since 1970 (last-error-timestamp)."""

    def add(self, before: ErrorCounts) -> None:
        """Goes on from what was counted before."""
        self.failures += before.failures
        self.errors += before.errors
        self.skipped += before.skipped
        self.retries += before.retries
        self.logged += before.logged
        self.dead_letters += before.dead_letters
        self.dead_letter_failures += before.dead_letter_failures
        self.last_error_ms = self.last_error_ms or before.last_error_ms


@dataclass(slots=True)
class TaskProgress:
    """What a running task reports about itself, beyond Apache's status; all counts since the task started."""

    records: int = 0
    """Records sent to or taken from Kafka."""
    bytes: int = 0
    lag: Mapping[str, int] | None = None
    """For sinks: per ``topic-partition`` the records not yet delivered."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What the connector itself tells, as snapshot progress: ``SourceTask.progress()``."""
    errors: ErrorCounts = field(default_factory=ErrorCounts)


@dataclass(frozen=True, slots=True)
class RequestSignature:
    """How a request between workers was signed: headers X-Connect-Authorization and X-Connect-Request-Signature-Algorithm, and
    the exact body they are about."""

    body: bytes = field(repr=False)
    signature: str | None = field(repr=False)
    """Base64; None when the header is missing."""
    algorithm: str | None


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """The level of a logger, in Java's names (TRACE to OFF), and when it was changed over REST, in ms since 1970."""

    level: str
    last_modified: int | None


class Stopped(Exception):
    """The task is to end while a record waits to be tried again, or to be reported. Not an error: the record is not done, and is
    read again by the next run."""
