"""Placement of tasks and instances, and decisions after a process has crashed."""

from __future__ import annotations

import pytest

from connect.testing import ManualClock
from worker.executors.placement import (
    WINDOW_S,
    CrashDecision,
    CrashHistory,
    Load,
    ProcessKind,
    decide_after_crash,
    place_for_instance,
    place_for_task,
)


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        ([Load(True, 0, 0, 1), Load(False, 0, 0, 0)], 0),  # one task needs no second process
        ([Load(True, 1, 1, 1), Load(False, 0, 0, 0)], 1),  # two of one connector do
        ([Load(True, 1, 0, 1), Load(False, 0, 0, 0)], 1),
        ([Load(True, 5, 0, 1), Load(True, 2, 1, 0)], 0),
        ([Load(True, 5, 1, 1), Load(True, 2, 1, 0)], 1),
    ],
)
def test_task_goes_to_process_with_fewest_tasks_of_its_connector_then_fewest_tasks(loads: list[Load], expected: int) -> None:
    assert place_for_task(loads) == expected


def test_instances_spread_over_running_processes_and_start_none() -> None:
    assert place_for_instance([Load(True, 9, 0, 50), Load(False, 0, 0, 0)]) == 0
    assert place_for_instance([Load(True, 0, 0, 5), Load(True, 9, 0, 4)]) == 1


def test_all_connectors_restart_together_after_first_crash() -> None:
    assert decide_after_crash({"a", "b"}, lambda _: 1, ProcessKind.SHARED, is_permanent=False) == CrashDecision(
        frozenset("ab"), (), frozenset()
    )


def test_connectors_present_at_two_crashes_are_isolated() -> None:
    counts = {"a": 2, "b": 2, "c": 1}
    after = decide_after_crash(counts, lambda name: counts[name], ProcessKind.SHARED, is_permanent=False)
    assert after == CrashDecision(frozenset("c"), (frozenset("a"), frozenset("b")), frozenset())


def test_connector_alone_in_a_process_that_crashes_again_fails() -> None:
    assert decide_after_crash({"a"}, lambda _: 3, ProcessKind.QUARANTINE, is_permanent=False).failed == {"a"}
    assert decide_after_crash({"a"}, lambda _: 1, ProcessKind.DEDICATED, is_permanent=False).restart == {"a"}
    assert decide_after_crash({"a"}, lambda _: 2, ProcessKind.DEDICATED, is_permanent=False).failed == {"a"}
    assert decide_after_crash({"a"}, lambda _: 1, ProcessKind.DEDICATED, is_permanent=True).failed == {"a"}


def test_cause_among_many_connectors_is_found_in_few_rounds_with_few_processes() -> None:
    names, counts, rounds = {f"c{i}" for i in range(200)}, dict.fromkeys((f"c{i}" for i in range(200)), 0), 0
    kind = ProcessKind.SHARED
    while True:
        rounds += 1
        for name in names:
            counts[name] += 1
        after = decide_after_crash(names, lambda name: counts[name], kind, is_permanent=False)
        assert len(after.isolate) <= 4
        if after.failed:
            break
        if after.isolate:
            kind, names = ProcessKind.QUARANTINE, next(set(part) for part in after.isolate if "c77" in part)
    assert after.failed == {"c77"}
    assert rounds <= 7


def test_old_crashes_do_not_count() -> None:
    clock = ManualClock()
    history = CrashHistory(clock.monotonic)
    history.note(["a", "b"])
    clock.advance(WINDOW_S - 1)
    history.note(["a"])
    assert (history.count("a"), history.count("b"), history.count("c")) == (2, 1, 0)
    clock.advance(2)
    assert (history.count("a"), history.count("b")) == (1, 0)
