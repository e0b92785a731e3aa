"""What maintenance of a table that is only appended to may pass over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connectors.spark.tables.conflicts import UnsuitableTable
from tests.unit.connectors.spark.tables.delta.fake_delta import TP, FakeDelta, offsets, rows

OWN, OTHER = "sluice:c:cluster:topic-id:0:topic", "another connector's"


@pytest.fixture
def delta(tmp_path: Path) -> FakeDelta:
    return FakeDelta(tmp_path / "t")


@pytest.mark.parametrize(
    ("actions", "version", "end"),
    [
        ([], 2, 1),
        ([{"txn": {"appId": OTHER, "version": 7}}], 2, 1),
        ([{"txn": {"appId": OWN, "version": 7}}], 2, 7),
        (None, 1, 1),
    ],
    ids=["rows of others", "offsets of others", "offsets of a successor", "schema"],
)
def test_only_rows_of_others_are_passed_over(delta: FakeDelta, actions: list[Any] | None, version: int, end: int) -> None:
    task = delta.open(min_files=2)
    task.load([TP])
    assert task.append(rows(1), offsets(0, 1)) == 1
    if actions is None:
        delta.add_column()
    else:
        delta.commit(actions)
    task.compact()
    assert task.view is not None
    assert (task.view.version, task.view.ends[OWN]) == (version, end)
    # The next commit of the task is refused if a successor has moved its ends, or if its rows were planned for other columns.
    assert (task.append(rows(2), offsets(1, 2)) is not None) == (version == 2 and end == 1)


def test_a_commit_leaves_it_to_the_next_load_to_say_that_spark_must_write_the_table(delta: FakeDelta) -> None:
    task = delta.open(min_files=2)
    task.load([TP])
    delta.alter({"delta.constraints.small": "id < 1000"})
    assert not task.compact()
    assert task.append(rows(1), offsets(0, 1)) is None
    with pytest.raises(UnsuitableTable, match="constraints"):
        task.load([TP])
