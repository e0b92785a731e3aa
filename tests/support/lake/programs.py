"""The beginnings of programs, and running many of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tests.support.lake.scheduler import Case, replay, shorten

FORMATS = ("delta", "iceberg")
MODES = ("append", "upsert", "soft", "scd2", "ordered", "ordered-soft")

HELD = ["A take 3", "A commit", "A put 2"]
"""A task that has committed once, and holds records."""
COMMITTED = ["A take 1", "A commit", "A put 1", "A commit", "A put 1", "A commit"]
FOLLOWED = [
    "A take 3",
    "A commit",
    "F append 50",
    "F rewrite",
    "A put 1",
    "A commit",
    "A maintain",
    "F delete 2",
    "A put 9",
    "A commit",
]
"""A task that follows the commits of others, and its own."""


def case_of(format_: str, mode: str) -> Case:
    """A table with changes that its mode can show: in a file with three rows, one stays alone."""
    return Case(format_, mode, "c1 c2 c3 c4 c5 c6 c7" if mode == "append" else "c1 c2 c3 u1 d2 u3 c4")


def after(before: Sequence[str], programs: Iterable[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Programs that all begin with the same steps."""
    return ((*before, *steps) for steps in programs)


def run_all(case: Case, programs: Iterable[Sequence[str]], *, shortens: bool = False) -> None:
    """Runs all programs; fails with the first that finds something, or with its shortest form."""
    count = 0
    for steps in programs:
        count += 1
        try:
            replay(case, *steps)
        except AssertionError as e:
            raise (shorten(case, steps) if shortens else None) or e from None
    assert count
