"""Two sinks, their maintenance, and a foreign writer on one table, in every order of their steps, with every call failing once.

How to read and replay a failing program: :mod:`tests.support.lake.scheduler`.
"""

from __future__ import annotations

import pytest

from tests.support.lake.programs import COMMITTED, FOLLOWED, FORMATS, HELD, MODES, after, case_of, run_all
from tests.support.lake.random_programs import random_case, random_program
from tests.support.lake.scheduler import Case, faults, freezes, orders
from tests.support.randomness import chance, size

SERVED = ("append 50", "rewrite", "delete 3", "column", "clean", "branch")
"""What a foreign writer may do at any time."""
BESIDE = (["B take 9", "B commit"], ["F rewrite"], ["F delete 1"], ["F clean"])

every_table = pytest.mark.parametrize(("format_", "mode"), [(format_, mode) for format_ in FORMATS for mode in MODES])


# -- every order of neighbors


@every_table
def test_a_frozen_task_commits_nothing_that_its_successor_has_committed(format_: str, mode: str) -> None:
    run_all(case_of(format_, mode), after(HELD, orders(["A maintain", "A commit"], ["B take 2", "B commit"])))


@every_table
@pytest.mark.parametrize("served", SERVED)
@pytest.mark.long
def test_a_frozen_task_commits_nothing_twice_beside_other_writers(format_: str, mode: str, served: str) -> None:
    others = orders(["A maintain", "A commit"], ["B take 2", "B commit", "B maintain"], [f"F {served}"])
    run_all(case_of(format_, mode), after(HELD, others))


@pytest.mark.parametrize(
    ("format_", "mode"),
    [
        ("delta", "append"),
        ("delta", "upsert"),
        ("iceberg", "append"),
        ("iceberg", "upsert"),
    ],
)
def test_a_task_that_gets_a_partition_still_guards_the_others(format_: str, mode: str) -> None:
    case = Case(format_, mode, "c2 c4 c6 c8 | c1 c3")
    before = ["A open 0", "A put 1", "A commit", "A put 2", "A open 1", "B open 0", "B put 9"]
    run_all(case, after(before, orders(["A maintain", "A commit"], ["B commit"])))


@every_table
def test_rows_of_other_writers_are_kept_and_followed(format_: str, mode: str) -> None:
    steps = [step for served in SERVED for step in (f"F {served}", "A put 1", "A commit")]
    run_all(case_of(format_, mode), [[*HELD, "A commit", *steps, "A maintain"], ["A open", *steps, "A maintain"]])


@every_table
@pytest.mark.parametrize("served", SERVED)
@pytest.mark.long
def test_rows_of_other_writers_are_kept_at_any_time(format_: str, mode: str, served: str) -> None:
    case, others = case_of(format_, mode), [f"F {served}"]
    run_all(case, after(["A take 3"], orders(["A commit", "A put 2", "A commit", "A maintain", "A put 9", "A commit"], others)))


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("mode", ["append", "upsert", *(pytest.param(mode, marks=pytest.mark.long) for mode in MODES[2:])])
def test_what_a_rollback_took_is_written_again(format_: str, mode: str) -> None:
    others = orders(["A maintain", "A put 1", "A commit", "A close"], ["F back 2"])
    run_all(case_of(format_, mode), after(COMMITTED, others))


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.long
def test_a_rollback_meets_two_tasks_at_any_time(format_: str, mode: str) -> None:
    others = orders(["A maintain", "A commit", "A close"], ["B take 2", "B commit"], ["F back 1"])
    run_all(case_of(format_, mode), after(HELD, others))


@pytest.mark.parametrize("format_", FORMATS)
def test_what_a_rollback_took_after_a_failed_commit_is_written_again(format_: str) -> None:
    case = case_of(format_, "append")
    run_all(case, faults(case, [*COMMITTED, "F back 1", "A commit"], first=5))


def test_a_restore_beside_a_task_whose_offsets_were_set_to_the_start_is_noticed() -> None:
    steps = ["A take 3", "A commit", "F back 1", "A close", "O reset", "B open", "F back 2", "B put 9", "B commit"]
    run_all(case_of("delta", "append"), [steps])


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("topic", ["c1 c2 t u3", "c1 c2 d1 u3", "c1 c2 d1 d2 c1 u3"])
def test_deletes_and_truncates_are_repeated_in_rows_that_a_rollback_brought_back(format_: str, topic: str) -> None:
    """What Delta's table remembers of the source's order does not go back."""
    case, steps = Case(format_, "ordered", topic), ["A take 2", "A commit", "A put 1", "A commit", "A put 1", "A commit"]
    again = ["A close", "O reset", "A open", "A put 1", "A commit", "A put 9", "A commit"]
    run_all(case, [[*steps, f"F back {versions}", *again] for versions in (1, 2)])


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("mode", ["soft", "ordered-soft"])
def test_a_row_that_is_deleted_before_a_truncate_of_its_commit_stays_as_a_deleted_one(format_: str, mode: str) -> None:
    topic = "c1 u2 d2 d3 t u4"
    run_all(Case(format_, mode, topic), [["A take 9", "A commit"], ["A take 3", "A commit", "A put 9", "A commit"]])


@pytest.mark.parametrize("format_", FORMATS)
def test_an_older_record_of_another_partition_does_not_bring_a_deleted_row_back(format_: str) -> None:
    run_all(Case(format_, "ordered", "c3 | c1 c1 d3"), [["A open 1", "A put 9", "A commit"]])


def test_a_task_goes_on_with_a_table_whose_snapshots_with_offsets_have_expired_once_they_are_set() -> None:
    run_all(case_of("iceberg", "append"), [["A take 3", "A commit", "F append 50", "F expire"]])


@pytest.mark.parametrize(
    ("format_", "mode"),
    [
        ("delta", "upsert"),
        ("delta", "soft"),
        ("delta", "scd2"),
        ("iceberg", "upsert"),
        ("iceberg", "soft"),
        ("iceberg", "scd2"),
    ],
)
def test_a_truncate_of_a_frozen_task_leaves_the_rows_of_its_successor(format_: str, mode: str) -> None:
    held = ["A take 2", "A commit", "A put 2"]
    others = orders(["A maintain", "A commit"], ["B take 9", "B commit"])
    run_all(Case(format_, mode, "c1 c2 t c1 c5 u5"), after(held, others))


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("mode", ["soft", "scd2"])
def test_a_truncate_of_a_task_that_got_a_partition_leaves_the_rows_of_its_successor(format_: str, mode: str) -> None:
    held = ["A open 0", "A put 2", "A commit", "A put 2", "A open 1"]
    others = orders(["A commit"], ["B open 0", "B put 9", "B commit"])
    run_all(Case(format_, mode, "c1 c2 t c1 c5 u5 | "), after(held, others))


# -- every call that fails


@pytest.mark.parametrize("format_", FORMATS)
def test_a_failed_call_or_a_lost_answer_leaves_the_index_right(format_: str) -> None:
    case = case_of(format_, "upsert")
    run_all(case, faults(case, ["A take 3", "A commit", "F rewrite", "A put 1", "A commit"], first=4))


@pytest.mark.parametrize("format_", FORMATS)
def test_commits_of_others_that_cannot_be_read_to_the_end_are_followed_again(format_: str) -> None:
    case = case_of(format_, "upsert")
    steps = ["A take 3", "A commit", "F column", "F append 50", "F rewrite", "A put 1", "A commit"]
    run_all(case, faults(case, steps, ["before"], first=6))


@every_table
@pytest.mark.long
def test_a_failed_call_or_a_lost_answer_loses_and_doubles_nothing(format_: str, mode: str) -> None:
    case = case_of(format_, mode)
    run_all(case, faults(case, FOLLOWED))


@pytest.mark.parametrize("format_", FORMATS)
def test_a_commit_that_is_reported_as_a_conflict_keeps_its_files(format_: str) -> None:
    case = case_of(format_, "upsert")
    run_all(case, faults(case, ["A take 3", "A commit"], ["conflict"]))


# -- others at every call


@every_table
@pytest.mark.parametrize("others", [*BESIDE, ["F back 1"]], ids=", ".join)
@pytest.mark.long
def test_others_may_act_in_the_middle_of_a_commit(format_: str, mode: str, others: list[str]) -> None:
    case = case_of(format_, mode)
    run_all(case, freezes(case, HELD, "A commit", others, ["A put 2", "A commit"]))


@every_table
@pytest.mark.parametrize("others", BESIDE, ids=", ".join)
@pytest.mark.long
def test_others_may_act_in_the_middle_of_maintenance(format_: str, mode: str, others: list[str]) -> None:
    case = case_of(format_, mode)
    run_all(case, freezes(case, [*COMMITTED, "A put 1"], "A maintain", others, ["A commit"]))


# -- long programs


@every_table
@pytest.mark.long
def test_random_programs_lose_and_double_nothing(format_: str, mode: str) -> None:
    for number in range(size("SLUICE_HISTORIES", 10)):
        drawn = chance(f"lake-{format_}-{mode}-{number}")
        case = random_case(drawn, format_, mode, 20)
        program = random_program(drawn, case, size("SLUICE_STEPS", 40))
        run_all(case, [program], shortens=True)
