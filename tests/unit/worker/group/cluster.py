"""A worker group without Kafka: members that do what they are told, a leader that assigns, a clock that tests turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from worker.group.assignor import IncrementalCooperativeAssignor
from worker.group.protocol import Assignment, Protocol, WorkerMetadata, allocation_after
from worker.model import TaskId

MAX_DELAY_MS = 300_000


@dataclass(frozen=True)
class Config:
    """A ConfigView: connectors and how many tasks each has."""

    offset: int
    task_counts: dict[str, int]

    def connectors(self) -> Sequence[str]:
        return list(self.task_counts)

    def tasks(self, name: str) -> Sequence[TaskId]:
        return [TaskId(name, number) for number in range(self.task_counts[name])]


@dataclass
class Cluster:
    """The first member by id leads, with a new memory whenever the leader changes."""

    task_counts: dict[str, int] = field(default_factory=dict)
    max_delay_ms: int = MAX_DELAY_MS
    now_ms: int = 1_000_000
    allocations: dict[str, Assignment | None] = field(default_factory=dict)
    offset: int = 0
    generation: int = 0
    last: dict[str, Assignment] = field(default_factory=dict)
    _leader: str = ""
    _assignor: IncrementalCooperativeAssignor | None = None
    _last_completed: int = -1

    def join(self, *members: str) -> None:
        for member in members:
            self.allocations[member] = None

    def leave(self, *members: str) -> None:
        for member in members:
            del self.allocations[member]

    def configure(self, name: str, tasks: int) -> None:
        self.task_counts = {**self.task_counts, name: tasks}
        self.offset += 1

    def delete(self, name: str) -> None:
        self.task_counts = {other: tasks for other, tasks in self.task_counts.items() if other != name}
        self.offset += 1

    def turn(self, step_ms: int) -> None:
        self.now_ms += step_ms

    def round(self, *, unheard_by: Sequence[str] = ()) -> dict[str, Assignment]:
        """All join, the leader assigns, all follow but those that do not get its answer."""
        leader = min(self.allocations)
        if leader != self._leader or self._assignor is None:
            self._leader, self._last_completed = leader, -1
            self._assignor = IncrementalCooperativeAssignor(self.max_delay_ms, lambda: self.now_ms)
        self.generation += 1
        config = Config(self.offset, self.task_counts)
        self.last = self._assignor.assign(
            {m: WorkerMetadata(f"http://{m}/", self.offset, held) for m, held in self.allocations.items()},
            leader_id=leader, protocol=Protocol.SESSIONED, config=config, fresh_config=lambda: config,
            generation=self.generation, last_completed_generation=self._last_completed,
        )  # fmt: skip
        self._last_completed = self.generation
        for member, answer in self.last.items():
            if member not in unheard_by:
                self.allocations[member] = allocation_after(self.allocations[member], answer)
        return self.last

    @property
    def delay_ms(self) -> int:
        return max(answer.delay_ms for answer in self.last.values())

    def settle(self, *, wait: bool = True) -> int:
        """Rounds while members have a reason to join again, with ``wait`` also when a delay is over. Returns how many."""
        for count in range(1, 30):
            answers = self.round().values()
            if any(answer.revokes for answer in answers):
                continue
            if not wait or self.delay_ms == 0:
                return count
            self.turn(self.delay_ms)
        raise AssertionError("the group does not settle")

    def tasks(self, member: str) -> set[TaskId]:
        held = self.allocations[member]
        return set(held.tasks) if held else set()

    def connectors(self, member: str) -> set[str]:
        held = self.allocations[member]
        return set(held.connectors) if held else set()

    def owners(self) -> dict[str | TaskId, list[str]]:
        """Who runs what, of all that runs."""
        owners: dict[str | TaskId, list[str]] = {}
        for member in sorted(self.allocations):
            items: list[str | TaskId] = [*self.connectors(member), *self.tasks(member)]
            for item in items:
                owners.setdefault(item, []).append(member)
        return owners

    def assert_complete(self) -> None:
        """Everything that is configured runs, once, and nothing else does."""
        wanted: set[str | TaskId] = set(self.task_counts)
        wanted |= {TaskId(name, number) for name, tasks in self.task_counts.items() for number in range(tasks)}
        owners = self.owners()
        assert set(owners) == wanted
        assert {item: members for item, members in owners.items() if len(members) > 1} == {}

    def assert_balanced(self) -> None:
        for held in (self.connectors, self.tasks):
            sizes = [len(held(member)) for member in self.allocations]
            assert max(sizes) - min(sizes) <= 1
