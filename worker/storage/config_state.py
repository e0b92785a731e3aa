"""What the config topic says, as a value: each record makes a new state of the one before.

A state never changes, so a snapshot costs nothing and may be kept as long as one likes. Semantics are those of Apache's
``KafkaConfigBackingStore`` and ``ClusterConfigState`` (recordings/internal_topics pins them).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from worker.model import TargetState, TaskId
from worker.storage.record_codec import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    LoggerRecord,
    Properties,
    RestartRequest,
    SessionKey,
    TargetStateRecord,
    TaskCountRecord,
    TaskRecord,
    Unreadable,
)


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """All that is known of one connector's name, whether the connector exists or not."""

    config: Properties | None = None
    applied_config: Properties | None = None
    """The configuration that the present task configurations were made from."""
    target_state: TargetState | None = None
    task_count: int = 0
    task_configs: tuple[Properties, ...] = ()
    deferred: Mapping[int, Properties] = field(default_factory=dict)
    """Task configurations that no commit has followed yet."""
    inconsistent: bool = False
    task_count_record: int | None = None
    pending_fencing: bool = False
    task_generation: int | None = None


_UNKNOWN = ConfigEntry()


@dataclass(frozen=True, slots=True)
class ConfigState:
    """The cluster's configuration after all records below ``offset``; -1 before the first."""

    offset: int = -1
    session_key: SessionKey | None = None
    entries: Mapping[str, ConfigEntry] = field(default_factory=dict, repr=False)  # configurations may hold secrets

    def connectors(self) -> list[str]:
        """Names of all connectors, sorted."""
        return sorted(name for name, entry in self.entries.items() if entry.config is not None)

    def contains(self, name: str) -> bool:
        return self._entry(name).config is not None

    def config(self, name: str) -> Properties | None:
        """As it was written: references to config providers are not resolved. None when there is no such connector."""
        return self._entry(name).config

    def applied_config(self, name: str) -> Properties | None:
        """The configuration that the present tasks come from; None before the first tasks."""
        return self._entry(name).applied_config

    def target_state(self, name: str) -> TargetState | None:
        """None when there is no such connector and no state was written ahead of it."""
        return self._entry(name).target_state

    def tasks(self, name: str) -> list[TaskId]:
        """In order of their numbers; none while the task configurations are inconsistent."""
        entry = self._entry(name)
        return [] if entry.inconsistent else [TaskId(name, number) for number in range(entry.task_count)]

    def task_config(self, task: TaskId) -> Properties | None:
        configs = self._entry(task.connector).task_configs
        return configs[task.task] if 0 <= task.task < len(configs) else None

    def task_configs(self, name: str) -> list[Properties]:
        """Of all tasks, in order of their numbers."""
        return list(self._entry(name).task_configs)

    def task_count(self, name: str) -> int:
        """As the last commit has it, also while the configurations are inconsistent."""
        return self._entry(name).task_count

    @property
    def inconsistent(self) -> frozenset[str]:
        """Connectors whose last commit speaks of more tasks than there are configurations: none run until new ones come."""
        return frozenset(name for name, entry in self.entries.items() if entry.inconsistent)

    def is_inconsistent(self, name: str) -> bool:
        """Whether a connector is one of those."""
        return self._entry(name).inconsistent

    def task_count_record(self, name: str) -> int | None:
        """How many tasks' producers the last round of fencing made way for; None if there was none."""
        return self._entry(name).task_count_record

    def pending_fencing(self, name: str) -> bool:
        """Whether producers of an earlier set of tasks must be fenced before the present set starts."""
        entry = self._entry(name)
        return entry.pending_fencing and entry.config is not None

    def task_generation(self, name: str) -> int | None:
        """Counts the sets of task configurations, from 0, as far back as the topic was read."""
        return self._entry(name).task_generation

    def _entry(self, name: str) -> ConfigEntry:
        return self.entries.get(name, _UNKNOWN)


class ConnectorUpdated(NamedTuple):
    """A connector was created, or its configuration written anew (even if it is the same)."""

    name: str


class ConnectorRemoved(NamedTuple):
    name: str


class TasksUpdated(NamedTuple):
    """A new set of tasks was committed; empty when the connector was stopped, or is inconsistent."""

    name: str
    tasks: tuple[TaskId, ...]


class TargetStateUpdated(NamedTuple):
    name: str


Update = ConnectorUpdated | ConnectorRemoved | TasksUpdated | TargetStateUpdated | SessionKey | RestartRequest | LoggerRecord
"""What a record means to the workers."""


class Applied(NamedTuple):
    """The state after a record, and what it means to the workers, if anything."""

    state: ConfigState
    update: Update | None = None
    problem: str | None = None
    """Why the record was left out."""


def apply(state: ConfigState, record: ConfigRecord, offset: int) -> Applied:
    """The state after a record that lies at this offset."""
    # As positions of a consumer: the offset of the next record, also after one that is left out.
    state = replace(state, offset=offset + 1)
    match record:
        case ConnectorRecord(name, None):
            # Count record and generation outlive the connector: one of the same name must fence its producers.
            gone = state._entry(name)
            rest = ConfigEntry(
                target_state=gone.target_state,
                task_count_record=gone.task_count_record,
                pending_fencing=gone.pending_fencing,
                task_generation=gone.task_generation,
            )
            return Applied(_with(state, name, rest), ConnectorRemoved(name))
        case ConnectorRecord(name, properties):
            entry = state._entry(name)
            target = entry.target_state or TargetState.STARTED
            return Applied(_with(state, name, replace(entry, config=properties, target_state=target)), ConnectorUpdated(name))
        case TargetStateRecord(name, None):
            # Written with the deletion of the connector, which is what the workers hear of.
            entry = state._entry(name)
            target_state = None if entry.config is None else TargetState.STARTED
            return Applied(_with(state, name, replace(entry, target_state=target_state)))
        case TargetStateRecord(name, target_state):
            entry = state._entry(name)
            changed = _with(state, name, replace(entry, target_state=target_state))
            # Without a connector it is the initial state of one that is being created.
            return Applied(changed, None if entry.config is None else TargetStateUpdated(name))
        case TaskRecord(task, properties):
            entry = state._entry(task.connector)
            deferred = {**entry.deferred, task.task: properties}
            return Applied(_with(state, task.connector, replace(entry, deferred=deferred)))
        case CommitRecord():
            return _committed(state, record)
        case TaskCountRecord(name, task_count):
            entry = replace(state._entry(name), task_count_record=task_count, pending_fencing=False)
            return Applied(_with(state, name, entry))
        case SessionKey():
            return Applied(replace(state, session_key=record), record)
        case RestartRequest() | LoggerRecord():
            return Applied(state, record)
        case Unreadable(reason):
            return Applied(state, None, reason)


def _committed(state: ConfigState, record: CommitRecord) -> Applied:
    name, count = record.name, record.tasks
    entry = state._entry(name)
    if entry.config is None:
        # Deleted before, and compaction has taken the deletion: what is left of its tasks means nothing.
        return Applied(_with(state, name, replace(entry, task_count=0, task_configs=(), deferred={}, inconsistent=False)))
    # More than these may lie before the commit: compaction removes older commits, and keeps what they were about.
    complete = all(number in entry.deferred for number in range(count))
    if complete:
        entry = replace(
            entry,
            task_configs=tuple(entry.deferred[number] for number in range(count)),
            task_generation=0 if entry.task_generation is None else entry.task_generation + 1,
            applied_config=entry.config,
        )
    # What was incomplete stays unused for good: a whole new set has to be written.
    entry = replace(entry, task_count=count, deferred={}, inconsistent=not complete, pending_fencing=True)
    tasks = tuple(TaskId(name, number) for number in range(count)) if complete else ()
    return Applied(_with(state, name, entry), TasksUpdated(name, tasks))


def _with(state: ConfigState, name: str, entry: ConfigEntry) -> ConfigState:
    entries = dict(state.entries)
    if entry == _UNKNOWN:
        entries.pop(name, None)
    else:
        entries[name] = entry
    return replace(state, entries=entries)
