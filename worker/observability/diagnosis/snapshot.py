"""The facts that a diagnosis goes by, from a worker's own objects or from the JSON of any worker's REST API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect.java.regex import RegexError, compile_java_regex
from worker.model import ConnectorInfo, ConnectorStatus, Stall, Status, TaskProgress


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """A connector instance or a task."""

    task: int | None
    """None for the connector itself."""
    state: str
    worker_id: str
    trace: str | None = None
    restarts: int = 0
    next_restart_ms: int | None = None
    stalled: Stall | None = None
    since_ms: int | None = None
    """Since when it has had this state, at least; None if unknown."""
    progress: TaskProgress | None = None

    @classmethod
    def of_status(cls, task: int | None, status: Status, progress: TaskProgress | None = None) -> InstanceFacts:
        restarts = status.restarts
        stalled = status.stalled or (None if progress is None else progress.stalled)
        return cls(
            task,
            status.state.value,
            status.worker_id,
            status.trace,
            0 if restarts is None else restarts.count,
            None if restarts is None else restarts.next_ms,
            stalled,
            status.since_ms,
            progress,
        )

    @classmethod
    def of_json(cls, task: int | None, status: Mapping[str, Any]) -> InstanceFacts:
        restarts = status.get("restarts") or {}
        return cls(
            task,
            str(status.get("state", "UNASSIGNED")),
            str(status.get("worker_id", "")),
            status.get("trace"),
            restarts.get("count", 0),
            restarts.get("next_ms"),
        )


@dataclass(frozen=True, slots=True)
class VerificationFacts:
    """The last result of ``sluice verify`` for a sink, and the last run of its schedule. Times are in ms since 1970 UTC."""

    differences: int = 0
    missing_tables: Sequence[str] = ()
    """Tables that the target did not have."""
    stored_ms: int | None = None
    error: str | None = None
    """Why the last scheduled run failed."""
    failing_since_ms: int | None = None
    worker_id: str | None = None
    """The worker of that run; None if unknown."""
    next_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ConnectorSnapshot:
    """A connector with its tasks."""

    name: str
    type: str
    config: Mapping[str, str | None] = field(repr=False)
    """With references to config providers."""
    instance: InstanceFacts | None
    """None if there is no status."""
    tasks: Sequence[InstanceFacts]
    has_offsets: bool | None = None
    """Whether offsets are stored or committed; None if unknown."""
    verification: VerificationFacts = VerificationFacts()

    @classmethod
    def of_models(
        cls, info: ConnectorInfo, status: ConnectorStatus | None, progress: Mapping[int, TaskProgress]
    ) -> ConnectorSnapshot:
        """Builds it from a worker's own objects. ``progress`` has the tasks that run on this worker, by number."""
        if status is None:
            return cls(info.name, info.type, info.config, None, ())
        tasks = [InstanceFacts.of_status(number, task, progress.get(number)) for number, task in status.tasks]
        return cls(info.name, info.type, info.config, InstanceFacts.of_status(None, status.connector), tasks)

    @classmethod
    def of_json(cls, name: str, expanded: Mapping[str, Any], *, has_offsets: bool | None = None) -> ConnectorSnapshot:
        """Builds it from ``status`` and ``info`` of a connector, as ``GET /connectors?expand=...`` has them."""
        status, info = expanded.get("status") or {}, expanded.get("info") or {}
        instance = InstanceFacts.of_json(None, status["connector"]) if "connector" in status else None
        tasks = [InstanceFacts.of_json(int(task["id"]), task) for task in status.get("tasks", ())]
        kind = str(status.get("type") or info.get("type") or "unknown")
        return cls(name, kind, info.get("config") or {}, instance, tasks, has_offsets)

    @property
    def state(self) -> str | None:
        return None if self.instance is None else self.instance.state

    @property
    def reads_other_cluster(self) -> bool:
        """Whether a sink's topics are in another Kafka cluster than the worker's."""
        return bool(self.config.get("consumer.override.bootstrap.servers"))

    def text(self, key: str) -> str:
        """Returns the value of a key without blanks around it; empty if it has none, or only a reference to a provider."""
        value = (self.config.get(key) or "").strip()
        return "" if "${" in value else value

    def names(self, key: str) -> list[str]:
        """Returns the value of a key that has a list."""
        return [part.strip() for part in self.text(key).split(",") if part.strip()]

    def topics_in(self, known: Iterable[str]) -> list[str] | None:
        """Returns the topics that a sink names, or those of ``known`` that match ``topics.regex``; None if that is invalid."""
        if not (regex := self.text("topics.regex")):
            return self.names("topics")
        try:
            pattern = compile_java_regex(regex)
        except RegexError:
            return None
        return [topic for topic in known if pattern.fullmatch(topic)]


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic: its partitions, and how many offsets it has between its first and its next record."""

    partitions: int
    records: int | None = None
    """None if that was not asked."""


@dataclass(frozen=True, slots=True)
class KafkaFacts:
    """What Kafka says."""

    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    foreign_members: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By connector: client IDs of members of its consumer group that are no tasks of it."""
    error: str | None = None
    """Why nothing is known: no broker answers, or it refuses."""


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """A cluster as one worker sees it."""

    connectors: Sequence[ConnectorSnapshot]
    at_ms: int
    health: str | None = None
    """``healthy``, ``starting``, or ``unhealthy``; None if unknown."""
    health_message: str = ""
    kafka: KafkaFacts | None = None
    """None if Kafka was not asked."""
    plugins: frozenset[str] | None = None
    """Classes and aliases of connectors that the worker has; None if unknown."""
    rebalance_times_ms: Sequence[int] = ()
    """When the last rebalances of the worker group ended that no new configuration has caused."""
    only_worker: str | None = None
    """Judge only what runs on this worker; None for everything."""
    is_sluice: bool = True
