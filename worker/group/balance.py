"""The load of workers: what each holds, what an overloaded one must give up, and who gets new instances.

Connectors and tasks are balanced separately, by number. All functions are deterministic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from worker.model import TaskId

_T = TypeVar("_T")


@dataclass(slots=True)
class Work:
    """Connectors and tasks without duplicates, in insertion order."""

    connectors: dict[str, None] = field(default_factory=dict)
    tasks: dict[TaskId, None] = field(default_factory=dict)

    @classmethod
    def of(cls, connectors: Iterable[str] = (), tasks: Iterable[TaskId] = ()) -> Work:
        return cls(dict.fromkeys(connectors), dict.fromkeys(tasks))

    @classmethod
    def union(cls, parts: Iterable[Work]) -> Work:
        result = cls()
        for part in parts:
            result.add(part)
        return result

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def copy(self) -> Work:
        return Work(dict(self.connectors), dict(self.tasks))

    def add(self, other: Work) -> None:
        self.connectors.update(other.connectors)
        self.tasks.update(other.tasks)

    def remove(self, other: Work) -> None:
        for connector in other.connectors:
            self.connectors.pop(connector, None)
        for task in other.tasks:
            self.tasks.pop(task, None)

    def without(self, *others: Work) -> Work:
        result = self.copy()
        for other in others:
            result.remove(other)
        return result

    def common(self, other: Work) -> Work:
        """Returns the intersection, in this one's order."""
        return Work.of(
            (connector for connector in self.connectors if connector in other.connectors),
            (task for task in self.tasks if task in other.tasks),
        )


Loads = Mapping[str, Work]
"""What each member holds, by member ID."""


def held_more_than_once(loads: Loads) -> Work:
    """Returns what runs on two or more members."""
    connectors = Counter(connector for work in loads.values() for connector in work.connectors)
    tasks = Counter(task for work in loads.values() for task in work.tasks)
    return Work.of(
        (connector for connector, owners in connectors.items() if owners > 1),
        (task for task, owners in tasks.items() if owners > 1),
    )


def excess(configured: Work, loads: Loads) -> dict[str, Work]:
    """Returns what members must give up so that each can have its share; only members that give up something are included."""
    connectors = _excess(len(configured.connectors), {member: work.connectors for member, work in loads.items()})
    tasks = _excess(len(configured.tasks), {member: work.tasks for member, work in loads.items()})
    return {
        member: Work.of(connectors.get(member, ()), tasks.get(member, ()))
        for member in loads
        if member in connectors or member in tasks
    }  # fmt: skip


def _excess(total: int, held: Mapping[str, Collection[_T]]) -> dict[str, list[_T]]:
    share, extras = divmod(total, len(held))
    if sorted(map(len, held.values())) == [share] * (len(held) - extras) + [share + 1] * extras:
        return {}
    result: dict[str, list[_T]] = {}
    for member, items in held.items():
        if len(items) <= share:
            continue
        allowed = share
        if extras > 0:
            # One of the members that may keep one more than the others.
            extras -= 1
            allowed += 1
        if len(items) > allowed:
            result[member] = list(items)[: len(items) - allowed]
    return result


def give_connectors(loads: Loads, connectors: Iterable[str]) -> None:
    """Adds each connector to the member with the fewest; ties go to the lowest member ID."""
    for connector in sorted(connectors):
        _least(loads, lambda work: (len(work.connectors),)).connectors[connector] = None


def give_tasks(loads: Loads, tasks: Iterable[TaskId]) -> None:
    """Adds each task to the member with the fewest; ties go to the one with the fewest tasks of the same connector.

    Apache's assignor considers only the number of tasks, so one worker can get all tasks of a connector (KAFKA-17049,
    KAFKA-10413).
    """
    same_connector = {id(work): Counter(task.connector for task in work.tasks) for work in loads.values()}
    for task in sorted(tasks):

        def load(work: Work, connector: str = task.connector) -> Sequence[int]:
            return len(work.tasks), same_connector[id(work)][connector]

        chosen = _least(loads, load)
        chosen.tasks[task] = None
        same_connector[id(chosen)][task.connector] += 1


def distribute(workers: Sequence[Work], work: Work) -> None:
    """Adds connectors, and then tasks, to the workers in turn, regardless of their load."""
    for number, connector in enumerate(work.connectors):
        workers[number % len(workers)].connectors[connector] = None
    for number, task in enumerate(work.tasks):
        workers[number % len(workers)].tasks[task] = None


def _least(loads: Loads, load: Callable[[Work], Sequence[int]]) -> Work:
    return loads[min(loads, key=lambda member: (tuple(load(loads[member])), member))]
