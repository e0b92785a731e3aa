"""Two sinks, their maintenance, and a foreign writer on one table, in every order of their steps, with every call failing once.

How to read and replay a failing program: :mod:`tests.support.lake.scheduler`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pytest

from tests.support.lake.random_programs import random_case, random_program
from tests.support.lake.scheduler import Case, faults, freezes, orders, replay, shorten
from tests.support.randomness import chance, size

FORMATS = ("delta", "iceberg")
MODES = ("append", "upsert", "soft", "scd2")
TABLES = [(format_, mode) for format_ in FORMATS for mode in MODES]
SERVED = ("append 50", "rewrite", "delete 3", "column", "clean", "branch")
"""What a foreign writer may do at any time."""

HELD = ["A take 3", "A commit", "A put 2"]
"""A task that has committed once, and holds records."""
COMMITTED = ["A take 1", "A commit", "A put 1", "A commit", "A put 1", "A commit"]
FOLLOWED = ["A take 3", "A commit", "F append 50", "F rewrite", "A put 1", "A commit", "A maintain", "F delete 2", "A put 9", "A commit"]
"""A task that follows the commits of others, and its own."""

every_table = pytest.mark.parametrize(("format_", "mode"), TABLES)


def case_of(format_: str, mode: str) -> Case:
    return Case(format_, mode, "c1 c2 c3 c4 c5 c6 c7" if mode == "append" else "c1 c2 c3 u1 d2 u3 c4")


def run_all(case: Case, programs: Iterable[Sequence[str]]) -> None:
    """Runs all programs; fails with the shortest form of the first that finds something."""
    count = 0
    for steps in programs:
        count += 1
        try:
            replay(case, *steps)
        except AssertionError:
            found = shorten(case, steps)
            raise found if found is not None else AssertionError(f"cannot be repeated: {steps}") from None
    assert count


def after(before: Sequence[str], programs: Iterable[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    return ((*before, *steps) for steps in programs)


# -- every order of neighbors


@every_table
def test_a_frozen_task_commits_nothing_that_its_successor_has_committed(format_: str, mode: str) -> None:
    others = orders(["A maintain", "A commit"], ["B take 2", "B commit"])
    run_all(case_of(format_, mode), after(HELD, others))


@every_table
@pytest.mark.parametrize("served", SERVED)
@pytest.mark.long
def test_a_frozen_task_commits_nothing_twice_beside_other_writers(format_: str, mode: str, served: str) -> None:
    others = orders(["A maintain", "A commit"], ["B take 2", "B commit", "B maintain"], [f"F {served}"])
    run_all(case_of(format_, mode), after(HELD, others))


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_task_that_gets_a_partition_still_guards_the_others(format_: str, mode: str) -> None:
    case = Case(format_, mode, "c2 c4 c6 c8 | c1 c3")
    others = orders(["A maintain", "A commit"], ["B open 0", "B put 9", "B commit"])
    run_all(case, after(["A open 0", "A put 1", "A commit", "A put 2", "A open 1"], others))


@every_table
def test_rows_of_other_writers_are_kept_and_followed(format_: str, mode: str) -> None:
    for served in SERVED:
        run_all(case_of(format_, mode), after(HELD, orders(["A commit", "A put 2", "A commit"], [f"F {served}"])))


@every_table
def test_what_a_rollback_took_is_written_again(format_: str, mode: str) -> None:
    others = orders(["A maintain", "A put 1", "A commit", "A close"], ["F back 2"])
    run_all(case_of(format_, mode), after(COMMITTED, others))


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("mode", ["upsert", "soft", "scd2"])
def test_a_truncate_of_a_frozen_task_leaves_the_rows_of_its_successor(format_: str, mode: str) -> None:
    others = orders(["A maintain", "A commit"], ["B take 9", "B commit"])
    run_all(Case(format_, mode, "c1 c2 t c1 c5 u5"), after(HELD, others))


# -- every call that fails


@every_table
@pytest.mark.long
def test_a_failed_call_or_a_lost_answer_loses_and_doubles_nothing(format_: str, mode: str) -> None:
    case = case_of(format_, mode)
    run_all(case, faults(case, FOLLOWED))


@pytest.mark.parametrize("format_", FORMATS)
def test_a_failed_call_or_a_lost_answer_leaves_the_index_right(format_: str) -> None:
    case = case_of(format_, "upsert")
    run_all(case, faults(case, ["A take 2", "A commit", "F rewrite", "A put 2", "A commit"]))


@every_table
@pytest.mark.long
def test_a_commit_that_is_reported_as_a_conflict_keeps_its_files(format_: str, mode: str) -> None:
    case = case_of(format_, mode)
    run_all(case, faults(case, FOLLOWED, ["conflict"]))


# -- others at every call


@every_table
@pytest.mark.long
@pytest.mark.parametrize("others", [["B take 9", "B commit"], ["F rewrite"], ["F delete 1"], ["F back 1"], ["F clean"]], ids=str)
def test_others_may_act_in_the_middle_of_a_commit(format_: str, mode: str, others: list[str]) -> None:
    case = case_of(format_, mode)
    run_all(case, freezes(case, HELD, "A commit", others, ["A put 2", "A commit"]))


@every_table
@pytest.mark.long
@pytest.mark.parametrize("others", [["B take 9", "B commit"], ["F rewrite"], ["F delete 1"], ["F clean"]], ids=str)
def test_others_may_act_in_the_middle_of_maintenance(format_: str, mode: str, others: list[str]) -> None:
    case = case_of(format_, mode)
    before = [*COMMITTED, "A put 1"]
    run_all(case, freezes(case, before, "A maintain", others, ["A commit"]))


# -- long programs


@every_table
@pytest.mark.long
def test_random_programs(format_: str, mode: str) -> None:
    for number in range(size("SLUICE_HISTORIES", 5)):
        drawn = chance(f"lake-{format_}-{mode}-{number}")
        case = random_case(drawn, format_, mode, 20)
        run_all(case, [random_program(drawn, case, size("SLUICE_STEPS", 40))])
