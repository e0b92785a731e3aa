"""The contents of the config topic as an immutable value: each record produces a new state from the previous one.

A snapshot therefore costs nothing and may be kept. The rules are those of Apache's ``KafkaConfigBackingStore`` and
``ClusterConfigState`` (recordings/internal_topics pins them).
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
    """Everything known about one connector's name, whether or not the connector exists."""

    config: Properties | None = None
    applied_config: Properties | None = None
    """The config from which the current task configs were created."""
    target_state: TargetState | None = None
    task_count: int = 0
    task_configs: tuple[Properties, ...] = ()
    deferred: Mapping[int, Properties] = field(default_factory=dict)
    """Task configs without a commit record yet."""
    inconsistent: bool = False
    task_count_record: int | None = None
    pending_fencing: bool = False
    task_generation: int | None = None


_UNKNOWN = ConfigEntry()


@dataclass(frozen=True, slots=True)
class ConfigState:
    """The cluster's configuration after all records before ``offset``; -1 before the first."""

    offset: int = -1
    session_key: SessionKey | None = None
    entries: Mapping[str, ConfigEntry] = field(default_factory=dict, repr=False)  # may contain secrets

    def connectors(self) -> list[str]:
        """Returns the names of all connectors, sorted."""
        return sorted(name for name, entry in self.entries.items() if entry.config is not None)

    def contains(self, name: str) -> bool:
        return self._entry(name).config is not None

    def config(self, name: str) -> Properties | None:
        """Returns the config as written, with unresolved references to config providers; None if there is no such connector."""
        return self._entry(name).config

    def applied_config(self, name: str) -> Properties | None:
        """Returns the config that the current tasks were created from; None before the first tasks."""
        return self._entry(name).applied_config

    def target_state(self, name: str) -> TargetState | None:
        """Returns None if there is no such connector and no state was written in advance."""
        return self._entry(name).target_state

    def tasks(self, name: str) -> list[TaskId]:
        """Returns the tasks in order; none while the task configs are inconsistent."""
        entry = self._entry(name)
        return [] if entry.inconsistent else [TaskId(name, number) for number in range(entry.task_count)]

    def task_config(self, task: TaskId) -> Properties | None:
        configs = self._entry(task.connector).task_configs
        return configs[task.task] if 0 <= task.task < len(configs) else None

    def task_configs(self, name: str) -> list[Properties]:
        """Returns the configs of all tasks, in order."""
        return list(self._entry(name).task_configs)

    def task_count(self, name: str) -> int:
        """Returns the number of tasks in the last commit, also while the configs are inconsistent."""
        return self._entry(name).task_count

    @property
    def inconsistent(self) -> frozenset[str]:
        """Connectors whose last commit names more tasks than there are configs: none of them runs until new configs are
        written."""
        return frozenset(name for name, entry in self.entries.items() if entry.inconsistent)

    def is_inconsistent(self, name: str) -> bool:
        """Whether a connector is inconsistent."""
        return self._entry(name).inconsistent

    def task_count_record(self, name: str) -> int | None:
        """Returns the number of tasks that the last round of fencing was for; None if there was none."""
        return self._entry(name).task_count_record

    def pending_fencing(self, name: str) -> bool:
        """Whether producers of the previous set of tasks must be fenced before the current set starts."""
        entry = self._entry(name)
        return entry.pending_fencing and entry.config is not None

    def task_generation(self, name: str) -> int | None:
        """Returns the number of task config sets that were read, starting at 0."""
        return self._entry(name).task_generation

    def _entry(self, name: str) -> ConfigEntry:
        return self.entries.get(name, _UNKNOWN)


class ConnectorUpdated(NamedTuple):
    """A connector was created, or its config was written (even if unchanged)."""

    name: str


class ConnectorRemoved(NamedTuple):
    name: str


class TasksUpdated(NamedTuple):
    """A new set of tasks was committed; empty if the connector was stopped or is inconsistent."""

    name: str
    tasks: tuple[TaskId, ...]


class TargetStateUpdated(NamedTuple):
    name: str


Update = ConnectorUpdated | ConnectorRemoved | TasksUpdated | TargetStateUpdated | SessionKey | RestartRequest | LoggerRecord
"""What a record means for the workers."""


class Applied(NamedTuple):
    """The state after a record, and what it means for the workers, if anything."""

    state: ConfigState
    update: Update | None = None
    problem: str | None = None
    """Why the record was skipped."""


def apply(state: ConfigState, record: ConfigRecord, offset: int) -> Applied:
    """Returns the state after the record at this offset."""
    # Like consumer positions: the offset of the next record, also after a skipped one.
    state = replace(state, offset=offset + 1)
    match record:
        case ConnectorRecord(name, None):
            # The count record and the generation outlive the connector: a connector with the same name must fence its producers.
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
            # Written together with the deletion of the connector, which workers are notified of.
            entry = state._entry(name)
            target_state = None if entry.config is None else TargetState.STARTED
            return Applied(_with(state, name, replace(entry, target_state=target_state)))
        case TargetStateRecord(name, target_state):
            entry = state._entry(name)
            changed = _with(state, name, replace(entry, target_state=target_state))
            # Without a connector, this is the initial state of one that is being created.
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
        # The connector was deleted and compaction has removed the deletion: its task records mean nothing.
        return Applied(_with(state, name, replace(entry, task_count=0, task_configs=(), deferred={}, inconsistent=False)))
    # There may be more task records before the commit: compaction removes older commits but not their tasks.
    complete = all(number in entry.deferred for number in range(count))
    if complete:
        entry = replace(
            entry,
            task_configs=tuple(entry.deferred[number] for number in range(count)),
            task_generation=0 if entry.task_generation is None else entry.task_generation + 1,
            applied_config=entry.config,
        )
    # An incomplete set stays unused: a whole new set has to be written.
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
