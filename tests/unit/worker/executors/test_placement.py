"""Which process a task goes to, and what becomes of connectors whose process has ended."""

from __future__ import annotations

import pytest

from connect.testing import ManualClock
from worker.executors.placement import (
    WINDOW_S,
    Aftermath,
    CrashHistory,
    HouseKind,
    Load,
    aftermath,
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
def test_tasks_go_where_few_of_their_connector_are_then_where_few_are(loads: list[Load], expected: int) -> None:
    assert place_for_task(loads) == expected


def test_instances_start_no_process_and_spread_over_those_there_are() -> None:
    assert place_for_instance([Load(True, 9, 0, 50), Load(False, 0, 0, 0)]) == 0
    assert place_for_instance([Load(True, 0, 0, 5), Load(True, 9, 0, 4)]) == 1


def test_after_one_crash_all_go_on_together() -> None:
    assert aftermath({"a", "b"}, lambda _: 1, HouseKind.SHARED, final=False) == Aftermath(frozenset("ab"), (), frozenset())


def test_those_who_were_there_twice_are_set_apart() -> None:
    counts = {"a": 2, "b": 2, "c": 1}
    after = aftermath(counts, lambda name: counts[name], HouseKind.SHARED, final=False)
    assert after == Aftermath(frozenset("c"), (frozenset("a"), frozenset("b")), frozenset())


def test_who_is_alone_with_a_process_that_ends_again_did_it() -> None:
    assert aftermath({"a"}, lambda _: 3, HouseKind.SUSPECTS, final=False).failed == {"a"}
    assert aftermath({"a"}, lambda _: 1, HouseKind.OWN, final=False).again == {"a"}
    assert aftermath({"a"}, lambda _: 2, HouseKind.OWN, final=False).failed == {"a"}
    assert aftermath({"a"}, lambda _: 1, HouseKind.OWN, final=True).failed == {"a"}


def test_a_culprit_among_many_is_found_in_a_few_rounds_with_few_processes() -> None:
    names, counts, rounds = {f"c{i}" for i in range(200)}, dict.fromkeys((f"c{i}" for i in range(200)), 0), 0
    kind = HouseKind.SHARED
    while True:
        rounds += 1
        for name in names:
            counts[name] += 1
        after = aftermath(names, lambda name: counts[name], kind, final=False)
        assert len(after.apart) <= 4
        if after.failed:
            break
        if after.apart:
            kind, names = HouseKind.SUSPECTS, next(set(part) for part in after.apart if "c77" in part)
    assert after.failed == {"c77"}
    assert rounds <= 7


def test_crashes_of_long_ago_are_forgotten() -> None:
    clock = ManualClock()
    history = CrashHistory(clock.monotonic)
    history.note(["a", "b"])
    clock.advance(WINDOW_S - 1)
    history.note(["a"])
    assert (history.count("a"), history.count("b"), history.count("c")) == (2, 1, 0)
    clock.advance(2)
    assert (history.count("a"), history.count("b")) == (1, 0)
