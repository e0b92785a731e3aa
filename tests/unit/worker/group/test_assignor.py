"""The incremental cooperative assignor, round by round."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.worker.group.cluster import MAX_DELAY_MS, Cluster, Config
from worker.group.assignor import IncrementalCooperativeAssignor, owner_urls
from worker.group.protocol import CONFIG_MISMATCH, Assignment, Protocol, WorkerMetadata
from worker.model import TaskId


def settled(*members: str, max_delay_ms: int = MAX_DELAY_MS, **task_counts: int) -> Cluster:
    cluster = Cluster(task_counts=dict(task_counts), max_delay_ms=max_delay_ms)
    cluster.join(*members)
    cluster.settle()
    cluster.assert_complete()
    cluster.assert_balanced()
    return cluster


def test_first_member_gets_everything_in_one_rebalance() -> None:
    cluster = Cluster(task_counts={"a": 2, "b": 1})
    cluster.join("w1")
    answer = cluster.round()["w1"]
    assert answer.connectors == ("a", "b")
    assert answer.tasks == (TaskId("a", 0), TaskId("a", 1), TaskId("b", 0))
    assert (answer.version, answer.error, answer.leader, answer.leader_url) == (2, 0, "w1", "http://w1/")
    assert (answer.revokes, answer.delay_ms) == (False, 0)


def test_second_member_gets_its_half_in_two_rebalances() -> None:
    cluster = settled("w1", a=4, b=4)
    cluster.join("w2")
    first = cluster.round()
    assert len(first["w1"].revoked_tasks) == 4
    assert len(first["w1"].revoked_connectors) == 1
    assert first["w2"].tasks == ()
    second = cluster.round()
    assert set(second["w2"].tasks) == set(first["w1"].revoked_tasks)
    assert second["w2"].connectors == first["w1"].revoked_connectors
    assert not second["w1"].revokes
    cluster.assert_complete()
    cluster.assert_balanced()


def test_new_connector_moves_no_running_instance() -> None:
    cluster = settled("w1", "w2", "w3", a=4, b=3)
    before = cluster.owners()
    cluster.configure("c", 5)
    assert cluster.settle() == 1
    cluster.assert_complete()
    cluster.assert_balanced()
    assert {item: owner for item, owner in cluster.owners().items() if item in before} == before


def test_deleted_connector_stops_and_balanced_instances_stay() -> None:
    cluster = settled("w1", "w2", a=2, b=2, c=2, d=2)
    before = cluster.owners()
    cluster.delete("b")
    answers = cluster.round()
    stopped = [task for answer in answers.values() for task in answer.revoked_tasks]
    assert sorted(stopped) == [TaskId("b", 0), TaskId("b", 1)]
    cluster.settle()
    cluster.assert_complete()
    assert cluster.owners() == {item: owner for item, owner in before.items() if str(item)[0] != "b"}


def test_tasks_of_one_connector_are_spread_over_equally_loaded_workers() -> None:
    cluster = settled("w1", "w2", a=1)
    # w1 has the task; now each new connector of two tasks has one on each worker as far as balance allows.
    for name in ("b", "c", "d", "e"):
        cluster.configure(name, 2)
        cluster.round()
        counts = [sum(task.connector == name for task in cluster.tasks(member)) for member in ("w1", "w2")]
        assert counts == [1, 1], name
    cluster.assert_balanced()


def test_among_equally_loaded_workers_the_one_without_the_connector_gets_its_task() -> None:
    cluster = Cluster(task_counts={"a": 2, "b": 1})
    cluster.join("w1", "w2")
    cluster.allocations = {
        "w1": Assignment(2, connectors=("a",), tasks=(TaskId("a", 0),)),
        "w2": Assignment(2, connectors=("b",), tasks=(TaskId("b", 0),)),
    }
    assert cluster.round()["w2"].tasks == (TaskId("a", 1),)


def test_instances_of_a_departed_worker_are_reassigned_after_the_delay() -> None:
    cluster = settled("w1", "w2", "w3", a=6)
    gone = cluster.tasks("w3")
    cluster.leave("w3")
    assert cluster.round()["w1"].delay_ms == MAX_DELAY_MS
    cluster.turn(100_000)
    assert cluster.round()["w1"].delay_ms == MAX_DELAY_MS - 100_000
    assert gone & (cluster.tasks("w1") | cluster.tasks("w2")) == set()
    cluster.turn(MAX_DELAY_MS - 100_000)
    answers = cluster.round()
    assert cluster.delay_ms == 0
    assert {task for answer in answers.values() for task in answer.tasks} == gone
    cluster.assert_complete()
    cluster.assert_balanced()


def test_worker_that_returns_with_its_instances_ends_the_delay() -> None:
    cluster = settled("w1", "w2", a=4)
    before, held = cluster.owners(), cluster.allocations["w2"]
    cluster.leave("w2")
    assert cluster.round()["w1"].delay_ms == MAX_DELAY_MS
    cluster.allocations["w2"] = held
    answers = cluster.round()
    assert cluster.delay_ms == 0
    assert not any(answer.revokes or answer.tasks or answer.connectors for answer in answers.values())
    assert cluster.owners() == before


def test_worker_that_returns_without_instances_gets_the_lost_ones_after_the_delay() -> None:
    cluster = settled("w1", "w2", "w3", a=6, b=3)
    gone = cluster.tasks("w3"), cluster.connectors("w3")
    others = cluster.tasks("w1"), cluster.tasks("w2")
    cluster.leave("w3")
    cluster.round()
    cluster.turn(1_000)
    cluster.join("w3-again")
    assert cluster.round()["w3-again"].tasks == ()
    cluster.turn(MAX_DELAY_MS - 1_000)
    cluster.settle(wait=False)
    assert (cluster.tasks("w3-again"), cluster.connectors("w3-again")) == gone
    assert (cluster.tasks("w1"), cluster.tasks("w2")) == others


def test_several_workers_that_return_without_instances_share_the_lost_ones() -> None:
    cluster = settled("w1", "w2", "w3", a=9, b=3)
    cluster.leave("w2", "w3")
    cluster.round()
    cluster.join("w4", "w5")
    cluster.round()
    cluster.turn(MAX_DELAY_MS)
    cluster.round()
    assert [len(cluster.tasks(member)) for member in ("w1", "w4", "w5")] == [4, 4, 4]
    cluster.assert_complete()


def test_candidate_that_leaves_again_gets_nothing() -> None:
    cluster = settled("w1", "w2", a=4)
    cluster.leave("w2")
    cluster.round()
    cluster.join("w3")
    cluster.round()
    cluster.leave("w3")
    cluster.turn(MAX_DELAY_MS)
    cluster.round()
    cluster.assert_complete()


def test_nothing_is_balanced_during_the_delay() -> None:
    cluster = settled("w1", "w2", a=8)
    cluster.leave("w2")
    cluster.round()
    cluster.join("w3")
    assert not any(answer.revokes for answer in cluster.round().values())


def test_new_instances_are_assigned_during_the_delay() -> None:
    cluster = settled("w1", "w2", "w3", a=6)
    cluster.leave("w3")
    cluster.round()
    cluster.configure("fresh", 1)
    cluster.round()
    assert cluster.delay_ms > 0
    assert TaskId("fresh", 0) in cluster.owners()


def test_lost_instances_that_are_deleted_during_the_delay_are_dropped() -> None:
    cluster = settled("w1", "w2", a=2, b=2)
    cluster.leave("w2")
    cluster.round()
    cluster.delete("a")
    cluster.delete("b")
    cluster.round()
    assert cluster.delay_ms == 0
    assert cluster.owners() == {}


def test_lost_instances_are_reassigned_at_once_without_a_delay() -> None:
    cluster = settled("w1", "w2", "w3", max_delay_ms=0, a=6, b=2)
    cluster.leave("w3")
    cluster.round()
    assert cluster.delay_ms == 0
    cluster.assert_complete()


def test_assignment_that_was_not_received_is_repeated_without_delay() -> None:
    cluster = settled("w1", "w2", a=2)
    cluster.configure("b", 2)
    cluster.round(unheard_by=["w2"])
    cluster.round()
    assert cluster.delay_ms == 0
    cluster.assert_complete()


def test_revocation_that_was_not_received_is_repeated() -> None:
    cluster = settled("w1", "w2", a=4)
    cluster.delete("a")
    first = cluster.round(unheard_by=["w2"])
    again = cluster.round()
    assert again["w2"].revoked_tasks == first["w2"].revoked_tasks
    assert cluster.owners() == {}


def test_duplicate_instances_stop_everywhere_and_are_then_assigned_once() -> None:
    cluster = settled("w1", "w2", a=2)
    both = Assignment(2, connectors=("a",), tasks=(TaskId("a", 0), TaskId("a", 1)))
    cluster.allocations = {"w1": both, "w2": replace(both, tasks=(TaskId("a", 1),))}
    answers = cluster.round()
    for member in ("w1", "w2"):
        assert answers[member].revoked_tasks == (TaskId("a", 1),)
        assert answers[member].revoked_connectors == ("a",)
    cluster.settle()
    cluster.assert_complete()


def test_successive_revocations_are_delayed_with_backoff() -> None:
    cluster = settled("w1", a=60)
    delays = []
    for number in range(2, 12):
        cluster.join(f"w{number}")
        answers = cluster.round()
        delays.append(cluster.delay_ms)
        if cluster.delay_ms:
            assert not any(answer.revokes for answer in answers.values())
            cluster.turn(cluster.delay_ms)
    assert delays == [0, 40, 0, 1_600, 0, 64_000, 0, MAX_DELAY_MS, 0, MAX_DELAY_MS]
    cluster.settle()
    cluster.assert_complete()
    cluster.assert_balanced()
    # A round without revocation has set the clock back.
    cluster.join("w99")
    cluster.round()
    cluster.join("w991")
    cluster.round()
    assert cluster.delay_ms == 40


def test_successive_revocations_are_not_delayed_with_a_maximum_of_0() -> None:
    cluster = settled("w1", max_delay_ms=0, a=12)
    for number in range(2, 5):
        cluster.join(f"w{number}")
        assert cluster.round()["w1"].revokes
        assert cluster.delay_ms == 0


def test_new_leader_keeps_running_instances_and_assigns_the_others() -> None:
    cluster = settled("w1", "w2", "w3", a=6)
    kept = cluster.tasks("w2"), cluster.tasks("w3")
    cluster.leave("w1")
    cluster.round()
    assert cluster.delay_ms == 0
    cluster.assert_complete()
    assert kept[0] <= cluster.tasks("w2")
    assert kept[1] <= cluster.tasks("w3")


def test_new_leader_stops_instances_deleted_before_it_led() -> None:
    cluster = settled("w1", "w2", a=4)
    cluster.delete("a")
    cluster.leave("w1")
    cluster.round()
    assert cluster.owners() == {}


def test_rebalance_whose_outcome_the_leader_did_not_see_is_ignored() -> None:
    members = {"w1": WorkerMetadata("u", 0)}
    config = Config(0, {"a": 1})
    assignor = IncrementalCooperativeAssignor(MAX_DELAY_MS, lambda: 0)
    for generation in (1, 2):
        answer = assignor.assign(
            members, leader_id="w1", protocol=Protocol.COMPATIBLE, config=config, fresh_config=lambda: config,
            generation=generation, last_completed_generation=-1,
        )  # fmt: skip
        assert answer["w1"].tasks == (TaskId("a", 0),)
        assert (answer["w1"].version, answer["w1"].delay_ms) == (1, 0)


def test_leader_that_is_behind_reads_a_fresh_snapshot() -> None:
    members = {"w1": WorkerMetadata("u1", 3), "w2": WorkerMetadata("u2", 5)}
    assignor = IncrementalCooperativeAssignor(MAX_DELAY_MS, lambda: 0)
    answers = assignor.assign(
        members, leader_id="w1", protocol=Protocol.SESSIONED, config=Config(3, {}), fresh_config=lambda: Config(6, {"a": 1}),
        generation=1, last_completed_generation=-1,
    )  # fmt: skip
    assert answers["w1"].connectors == ("a",)
    assert {answer.config_offset for answer in answers.values()} == {6}


def test_leader_that_stays_behind_sends_a_mismatch_to_all() -> None:
    members = {"w1": WorkerMetadata("u1", 3), "w2": WorkerMetadata("u2", 5)}
    assignor = IncrementalCooperativeAssignor(MAX_DELAY_MS, lambda: 0)
    answers = assignor.assign(
        members, leader_id="w1", protocol=Protocol.SESSIONED, config=Config(3, {"a": 1}),
        fresh_config=lambda: Config(4, {"a": 1}), generation=1, last_completed_generation=-1,
    )  # fmt: skip
    assert answers == dict.fromkeys(members, Assignment(2, CONFIG_MISMATCH, "w1", "u1", 5))
    assert answers["w2"].failed


def test_leader_knows_the_owners_after_the_rebalance() -> None:
    cluster = settled("w1", "w2", a=2)
    cluster.join("w3")
    cluster.configure("b", 1)
    held = {m: WorkerMetadata(f"http://{m}/", 1, allocation) for m, allocation in cluster.allocations.items()}
    connectors, tasks = owner_urls(held, cluster.round())
    expected = {item: f"http://{members[0]}/" for item, members in cluster.owners().items()}
    found: dict[str | TaskId, str] = dict(connectors.items())
    found.update(tasks.items())
    assert found == expected
    assert owner_urls(held, {"w1": Assignment(0, connectors=("z",))}) == ({"z": "http://w1/"}, {})


@pytest.mark.parametrize("protocol", [Protocol.COMPATIBLE, Protocol.SESSIONED])
def test_assignments_have_the_version_of_the_group_protocol(protocol: Protocol) -> None:
    assignor = IncrementalCooperativeAssignor(0, lambda: 0)
    config = Config(-1, {})
    answers = assignor.assign(
        {"w": WorkerMetadata("u", -1)}, leader_id="w", protocol=protocol, config=config, fresh_config=lambda: config,
        generation=1, last_completed_generation=-1,
    )  # fmt: skip
    assert answers == {"w": Assignment(protocol.version, leader="w", leader_url="u")}
