"""What a standalone worker's connector and its tasks are doing: statuses, task configurations, runs, and used topics."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from worker.model import ConnectorStatus, Stall, State, Status, TaskId, TaskInfo


class ConnectorState:
    """Safe from any thread; never blocks."""

    def __init__(self, name: str, worker_id: str, version: str | None) -> None:
        self._name = name
        self._worker_id = worker_id
        self._lock = threading.Lock()
        self._status = Status(State.UNASSIGNED, worker_id, version=version, since_ms=_now_ms())
        self._task_statuses: dict[int, Status] = {}
        self._task_configs: Sequence[Mapping[str, str]] = ()  # with references where the connector's configuration has them
        self._config_of_tasks: Mapping[str, str] = {}
        self._task_start_ids: dict[int, int] = {}
        self._topics: set[str] = set()

    # --- the connector

    @property
    def state(self) -> State:
        with self._lock:
            return self._status.state

    def set_state(self, state: State, trace: str | None, version: str | None) -> None:
        with self._lock:
            before = self._status
            self._status = Status(state, self._worker_id, trace, version=version, since_ms=_since_ms(before, state))

    def set_stall(self, stall: Stall | None) -> None:
        """Sets or clears the stall of the connector. A new state clears it too."""
        with self._lock:
            self._status = replace(self._status, stalled=stall)

    # --- tasks

    @property
    def task_count(self) -> int:
        with self._lock:
            return len(self._task_configs)

    def task_config(self, number: int) -> Mapping[str, str]:
        with self._lock:
            return self._task_configs[number]

    def set_tasks(self, configs: Sequence[Mapping[str, str]], connector_config: Mapping[str, str]) -> None:
        """Replaces the task configurations; ``connector_config`` is the one that they were computed from."""
        with self._lock:
            self._task_configs = configs
            self._config_of_tasks = connector_config
            self._task_statuses = {}

    def clear_tasks(self) -> None:
        """Drops task configurations and statuses."""
        with self._lock:
            self._task_configs = ()
            self._task_statuses = {}

    def has_tasks(self, configs: Sequence[Mapping[str, str]], connector_config: Mapping[str, str]) -> bool:
        """Returns whether these are the current task configurations, computed from this connector configuration."""
        with self._lock:
            return list(configs) == list(self._task_configs) and connector_config == self._config_of_tasks

    def has_tasks_of(self, connector_config: Mapping[str, str]) -> bool:
        """Returns whether all task configurations, if any, were computed from this connector configuration."""
        with self._lock:
            return not self._task_configs or connector_config == self._config_of_tasks

    def add_task_start(self, number: int, start_id: int, version: str | None) -> None:
        with self._lock:
            self._task_start_ids[number] = start_id
            self._task_statuses[number] = Status(State.UNASSIGNED, self._worker_id, version=version, since_ms=_now_ms())

    def remove_task_runs(self, numbers: Collection[int] | None) -> list[int]:
        """Removes the runs of these tasks, or of all. Returns the tasks that had one."""
        with self._lock:
            removed = [number for number in self._task_start_ids if numbers is None or number in numbers]
            for number in removed:
                del self._task_start_ids[number]
        return removed

    def running_tasks(self) -> list[int]:
        with self._lock:
            return list(self._task_start_ids)

    def report_task(self, start_id: int, number: int, state: State, trace: str | None, version: str | None) -> bool:
        """Sets the state of a task. Returns False for an outdated run, which is ignored."""
        with self._lock:
            if self._task_start_ids.get(number) != start_id:
                return False
            since_ms = _since_ms(self._task_statuses.get(number), state)
            self._task_statuses[number] = Status(state, self._worker_id, trace, version=version, since_ms=since_ms)
        return True

    def start_ids(self) -> list[int]:
        """Returns the start IDs of all tasks; empty while not all of them are started."""
        with self._lock:
            found = list(self._task_start_ids.values())
            return found if len(found) == len(self._task_configs) else []

    def set_task_stall(self, start_id: int, number: int, stall: Stall | None) -> None:
        """Sets or clears the stall of a task, unless its run is outdated. A new state clears it too."""
        with self._lock:
            if self._task_start_ids.get(number) == start_id and number in self._task_statuses:
                self._task_statuses[number] = replace(self._task_statuses[number], stalled=stall)

    def set_task_state(self, number: int, state: State) -> None:
        """Changes only the state in the status of a task, if it has one."""
        with self._lock:
            if number in self._task_statuses:
                self._task_statuses[number] = replace(self._task_statuses[number], state=state, stalled=None, since_ms=_now_ms())

    def add_topics(self, start_id: int, number: int, topics: Collection[str]) -> None:
        """Adds topics that a task has used, unless its run is outdated."""
        with self._lock:
            if self._task_start_ids.get(number) == start_id:
                self._topics.update(topics)

    def keep_topics(self, topics: Collection[str]) -> None:
        """Adds topics that a deleted connector with this name has used."""
        with self._lock:
            self._topics.update(topics)

    # --- snapshots

    def connector_status(self, connector_type: str) -> ConnectorStatus:
        with self._lock:
            return ConnectorStatus(self._name, self._status, sorted(self._task_statuses.items()), connector_type)

    def statuses(self) -> list[tuple[int | None, Status]]:
        """Returns the status of the connector, under None, and those of its tasks, by number."""
        with self._lock:
            return [(None, self._status), *self._task_statuses.items()]

    def task_infos(self) -> list[TaskInfo]:
        with self._lock:
            return [TaskInfo(TaskId(self._name, n), dict(config)) for n, config in enumerate(self._task_configs)]

    def topics(self) -> list[str]:
        with self._lock:
            return sorted(self._topics)

    def reset_topics(self) -> None:
        with self._lock:
            self._topics.clear()


def _since_ms(before: Status | None, state: State) -> int | None:
    return before.since_ms if before is not None and before.state is state else _now_ms()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
