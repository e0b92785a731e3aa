"""A task commits only from the ends that it has read records for, whatever maintenance meets in between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connect.errors import ConnectError
from connectors.spark.tables.iceberg.offsets import PREFIX
from tests.unit.connectors.spark.tables.iceberg.fake_catalog import TP, FakeCatalog, offsets, rows

REPLACED = "another writer replaced the table's rows"
ROLLED_BACK = r"was rolled back.*Restart the task"


@pytest.fixture
def catalog(tmp_path: Path) -> FakeCatalog:
    return FakeCatalog(tmp_path / "t")


@pytest.mark.parametrize("visits", [0, 1, 2])
def test_maintenance_does_not_let_a_task_commit_what_its_successor_has_committed(catalog: FakeCatalog, visits: int) -> None:
    frozen = catalog.open()
    frozen.load([TP])
    assert frozen.append(rows(1, 2), offsets(0, 2)) is not None
    successor = catalog.open()
    assert successor.load([TP]).ends == {TP: 2}
    assert successor.append(rows(3, 4), offsets(2, 4)) is not None
    view = frozen.view
    assert view is not None
    files = view.files = frozen._format.read_files(view, {})
    for _ in range(visits):
        frozen.maintain(lambda: False)
    assert frozen.append(rows(3, 4), offsets(2, 4)) is None
    assert (catalog.rows, catalog.offset()) == (4, 4)
    assert frozen.load([TP]).ends == {TP: 4}
    assert frozen.view is not None
    assert frozen.view.files is files


def test_a_task_goes_on_after_commits_that_move_no_partition_of_its_own(catalog: FakeCatalog) -> None:
    task = catalog.open()
    task.load([TP])
    assert task.append(rows(1, 2), offsets(0, 2)) is not None
    catalog.commit({"operation": "append"})
    task.maintain(lambda: False)
    assert task.append(rows(3), offsets(2, 3)) is not None
    assert (catalog.rows, catalog.offset()) == (3, 3)


def test_a_task_goes_on_when_a_snapshot_expires_while_it_follows_several(catalog: FakeCatalog) -> None:
    task = catalog.open()
    task.load([TP])
    assert task.append(rows(1, 2), offsets(0, 2)) is not None
    assert task.view is not None
    task.view.files = task._format.read_files(task.view, {})
    other = catalog.open()
    other.load([TP])
    for first in (2, 3, 4):
        assert other.append(rows(first), offsets(first, first + 1)) is not None
    catalog.expire_before_changes = 2
    assert task.load([TP]).ends == {TP: 5}
    assert task.append(rows(5), offsets(5, 6)) is not None
    assert catalog.offset() == 6


@pytest.mark.parametrize("met_by", ["maintenance", "a commit"])
def test_a_task_whose_table_was_rolled_back_commits_nothing_more(catalog: FakeCatalog, met_by: str) -> None:
    task = catalog.open()
    task.load([TP])
    for first in (0, 2, 4):
        assert task.append(rows(first, first + 1), offsets(first, first + 2)) is not None
    catalog.roll_back(2)
    with pytest.raises(ConnectError, match=ROLLED_BACK):
        task.maintain(lambda: False) if met_by == "maintenance" else task.append(rows(6), offsets(6, 7))
    # As when the task closes with records that wait.
    for _ in range(2):
        task.maintain(lambda: False)
        assert task.append(rows(6), offsets(6, 7)) is None
        with pytest.raises(ConnectError, match=ROLLED_BACK):
            task.load([TP])
    assert (catalog.rows, catalog.offset()) == (2, 2)
    restarted = catalog.open()
    assert restarted.load([TP]).ends == {TP: 2}
    assert restarted.append(rows(2, 3), offsets(2, 4)) is not None


def test_a_commit_of_unknown_outcome_is_looked_for_before_it_is_repeated(catalog: FakeCatalog) -> None:
    task = catalog.open()
    task.load([TP])
    catalog.lose_answer = True
    with pytest.raises(OSError, match="no answer"):
        task.append(rows(1, 2), offsets(0, 2))
    assert all(Path(entry["path"].removeprefix("file:")).exists() for entry in catalog.snapshots[-1]["added"])
    assert task.load([TP]).ends == {TP: 2}
    assert task.append(rows(3), offsets(2, 3)) is not None
    assert (catalog.rows, catalog.offset()) == (3, 3)


def test_a_rollback_is_noticed_after_a_failed_read(catalog: FakeCatalog) -> None:
    task = catalog.open()
    task.load([TP])
    for first in (0, 2):
        assert task.append(rows(first, first + 1), offsets(first, first + 2)) is not None
    catalog.fail_read = True
    with pytest.raises(OSError, match="no answer"):
        task.load([TP])
    catalog.fail_read = False
    catalog.roll_back(1)
    with pytest.raises(ConnectError, match=ROLLED_BACK):
        task.load([TP])


def test_a_connector_without_rows_in_the_table_may_begin_after_maintenance(catalog: FakeCatalog) -> None:
    other = "sluice:other:cluster:topic-id:0:topic"
    catalog.commit({f"{PREFIX}other": json.dumps({other: 7})})
    task = catalog.open()
    task.load([TP])
    catalog.commit({"operation": "append"})
    task.maintain(lambda: False)  # repeats the ends of the other one
    assert task.load([TP]).ends == {}
    assert task.append(rows(1), offsets(0, 1)) is not None


def test_a_connector_may_begin_in_a_table_that_somebody_has_filled_by_overwriting_it(catalog: FakeCatalog) -> None:
    catalog.overwrite()
    task = catalog.open()
    assert task.load([TP]).ends == {}
    assert task.append(rows(1), offsets(0, 1)) is not None
    assert catalog.open().load([TP]).ends == {TP: 1}


def test_rows_that_are_replaced_before_the_first_commit_do_not_stop_the_task(catalog: FakeCatalog) -> None:
    task = catalog.open()
    task.load([TP])
    catalog.overwrite()
    other_task = catalog.open()
    other_task.load([TP])
    assert other_task.append(rows(1), offsets(0, 1)) is not None
    assert task.load([TP]).ends == {TP: 1}
    assert task.append(rows(2), offsets(1, 2)) is not None


def test_offsets_can_be_set_after_somebody_has_replaced_the_rows(catalog: FakeCatalog) -> None:
    task = catalog.open()
    task.load([TP])
    assert task.append(rows(1, 2), offsets(0, 2)) is not None
    catalog.overwrite()
    with pytest.raises(ConnectError, match=REPLACED):
        catalog.open().load([TP])
    catalog.open().move_offsets({TP: 1})
    continued = catalog.open()
    assert continued.load([TP]).ends == {TP: 1}
    assert continued.append(rows(2), offsets(1, 2)) is not None


@pytest.mark.parametrize("hides_it", ["a commit of a new connector", "offsets that are set"])
def test_another_connector_does_not_hide_that_rows_were_replaced(catalog: FakeCatalog, hides_it: str) -> None:
    for connector in ("b", "c"):
        task = catalog.open(connector)
        task.load([TP])
        assert task.append(rows(1, 2), offsets(0, 2)) is not None
    running = task
    catalog.overwrite()
    if hides_it == "offsets that are set":
        catalog.open("b").move_offsets({TP: 1})
        assert catalog.open("b").load([TP]).ends == {TP: 1}
    else:
        beginning = catalog.open("new")
        assert beginning.load([TP]).ends == {}
        assert beginning.append(rows(3), offsets(0, 1)) is not None
    with pytest.raises(ConnectError, match=REPLACED):
        running.load([TP])
    with pytest.raises(ConnectError, match="another writer has replaced the rows"):
        catalog.open().load([TP])
    catalog.open().move_offsets({TP: None})
    assert catalog.open().load([TP]).ends == {}
