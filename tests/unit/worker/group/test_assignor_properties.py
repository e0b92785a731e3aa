"""What holds of the assignor whatever happens to the group."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit.worker.group.cluster import Cluster
from worker.model import TaskId

NAMES = ("a", "b", "c", "d", "e", "f")
MEMBERS = ("w1", "w2", "w3", "w4", "w5")

task_counts = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 7))
groups = st.lists(st.sampled_from(MEMBERS), unique=True, min_size=1)
delays = st.sampled_from([0, 1, 300_000])


class Group(RuleBasedStateMachine):
    """Workers come and go, connectors are made, changed and deleted, answers get lost; from anywhere the group settles."""

    @initialize(counts=task_counts, members=groups, max_delay_ms=delays)
    def start(self, counts: dict[str, int], members: list[str], max_delay_ms: int) -> None:
        self.cluster = Cluster(task_counts=counts, max_delay_ms=max_delay_ms)
        self.cluster.join(*members)

    @rule(name=st.sampled_from(NAMES), tasks=st.integers(0, 7))
    def configure(self, name: str, tasks: int) -> None:
        self.cluster.configure(name, tasks)

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        self.cluster.delete(name)

    @rule(member=st.sampled_from(MEMBERS))
    def join(self, member: str) -> None:
        self.cluster.join(*{member} - set(self.cluster.allocations))

    @precondition(lambda self: len(self.cluster.allocations) > 1)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.cluster.leave(data.draw(st.sampled_from(sorted(self.cluster.allocations))))

    @rule(step_ms=st.sampled_from([1, 40, 5_000, 300_000]))
    def wait(self, step_ms: int) -> None:
        self.cluster.turn(step_ms)

    @rule(unheard_by=st.lists(st.sampled_from(MEMBERS), max_size=2))
    def round(self, unheard_by: list[str]) -> None:
        before = self.cluster.owners()
        answers = self.cluster.round(unheard_by=unheard_by)
        # What somebody still said to run is given to nobody.
        given = [item for answer in answers.values() for item in (*answer.connectors, *answer.tasks)]
        assert not set(given) & set(before)
        assert len(given) == len(set(given))

    @rule()
    def settle(self) -> None:
        self.cluster.settle()
        self.cluster.assert_complete()
        self.cluster.assert_balanced()

    @invariant()
    def nothing_runs_twice(self) -> None:
        # Promise 4, as far as it is the leader's to keep.
        if hasattr(self, "cluster"):
            assert all(len(members) == 1 for members in self.cluster.owners().values())


Group.TestCase.settings = settings(max_examples=80, stateful_step_count=25, deadline=None)
TestGroup = Group.TestCase


def settled(counts: dict[str, int], members: list[str], max_delay_ms: int = 300_000) -> Cluster:
    cluster = Cluster(task_counts=counts, max_delay_ms=max_delay_ms)
    cluster.join(*members)
    cluster.settle()
    return cluster


@settings(deadline=None)
@given(task_counts, groups, st.integers(0, 9))
def test_added_connector_moves_nothing(counts: dict[str, int], members: list[str], tasks: int) -> None:
    cluster = settled(counts, members)
    before = cluster.owners()
    cluster.configure("new", tasks)
    assert cluster.settle() == 1
    cluster.assert_complete()
    cluster.assert_balanced()
    assert before.items() <= cluster.owners().items()


@settings(deadline=None)
@given(task_counts.filter(bool), groups, st.data())
def test_deleted_connector_moves_only_what_balance_requires(
    counts: dict[str, int], members: list[str], data: st.DataObject
) -> None:
    cluster = settled(counts, members)
    deleted = data.draw(st.sampled_from(sorted(counts)))
    left = {item: owner for item, owner in cluster.owners().items() if deleted not in (item, getattr(item, "connector", None))}
    needed = 0
    for kind in (str, TaskId):
        sizes = sorted(sum(isinstance(item, kind) for item, owner in left.items() if owner == [m]) for m in members)
        share, extras = divmod(sum(sizes), len(sizes))
        targets = [share] * (len(sizes) - extras) + [share + 1] * extras
        needed += sum(max(0, size - target) for size, target in zip(sizes, targets, strict=True))
    cluster.delete(deleted)
    cluster.settle()
    cluster.assert_complete()
    moved = [item for item, owner in left.items() if cluster.owners()[item] != owner]
    assert len(moved) <= needed


@settings(deadline=None)
@given(task_counts, groups.filter(lambda members: len(members) > 1), st.integers(0, 299_999), st.data())
def test_worker_that_returns_within_the_delay_gets_its_instances_back(
    counts: dict[str, int], members: list[str], away_ms: int, data: st.DataObject
) -> None:
    cluster = settled(counts, members)
    before = cluster.owners()
    # Not the leader, whose memory goes with it.
    bounced = data.draw(st.sampled_from(sorted(members)[1:]))
    cluster.leave(bounced)
    cluster.settle(wait=False)
    cluster.turn(away_ms)
    cluster.join(bounced)
    cluster.settle()
    cluster.assert_complete()
    # With nobody else empty-handed, all of it comes back to where it was.
    if all(cluster.connectors(member) or cluster.tasks(member) for member in members):
        assert cluster.owners() == before
