"""Commits of which a writer does not learn that they are in the table: they are not repeated, and their files stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.connectors.spark.tables.delta.fake_delta import CONFLICT, TP, FakeDelta, Thrown, offsets, rows


@pytest.fixture
def delta(tmp_path: Path) -> FakeDelta:
    return FakeDelta(tmp_path / "t")


def test_a_commit_that_conflicts_with_itself_has_landed(delta: FakeDelta) -> None:
    task = delta.open()
    task.load([TP])
    delta.lost_answers = [Thrown(CONFLICT)]
    assert task.append(rows(1, 2), offsets(0, 2)) == 1
    assert task.append(rows(3), offsets(2, 3)) == 2
    assert (delta.rows(), delta.missing_files()) == (3, [])


def test_a_compaction_that_conflicts_with_itself_has_landed(delta: FakeDelta) -> None:
    task = delta.open(min_files=2)
    task.load([TP])
    for first in range(3):
        assert task.append(rows(first), offsets(first, first + 1)) is not None
    delta.lost_answers = [Thrown(CONFLICT)]
    task.compact()
    assert (delta.rows(), len(delta.files()), delta.missing_files()) == (3, 1, [])
    assert task.append(rows(3), offsets(3, 4)) is not None
    assert delta.rows() == 4


def test_a_commit_of_unknown_outcome_is_looked_for_before_it_is_repeated(delta: FakeDelta) -> None:
    task = delta.open()
    task.load([TP])
    delta.lost_answers = [Thrown("java.io.IOException")]
    with pytest.raises(Thrown):
        task.append(rows(1, 2), offsets(0, 2))
    assert delta.missing_files() == []
    assert task.load([TP]).ends == {TP: 2}


def test_a_commit_that_another_task_came_before_leaves_no_files(delta: FakeDelta) -> None:
    task, successor = delta.open(), delta.open()
    task.load([TP])
    successor.load([TP])
    assert task.view is not None
    begun = [task.view.transaction]
    assert successor.append(rows(1, 2), offsets(0, 2)) is not None
    form: Any = task._format
    form._transactions.begin = lambda: begun.pop() if begun else delta.begin()
    assert task.append(rows(1), offsets(0, 1)) is None
    assert delta.rows() == 2
    assert len(list(delta.folder.glob("*.parquet"))) == 1
