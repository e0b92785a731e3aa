"""What a table of any format does when other writers are in its way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import ConnectError
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.plan.deduplicate import DeduplicatedChanges
from connectors.spark.plan.row_limits import RowLimits
from connectors.spark.tables.conflicts import CommitConflict, HistoryMoved, TableNotLocked
from connectors.spark.tables.file_table import FileTable
from connectors.spark.tables.table import OffsetCommit, Upsert
from connectors.spark.tables.table_format import FileTableSettings, Moves, Step, View
from connectors.spark.tables.table_lock import TableLock

TP = TopicPartition("t", 0)
COMMIT = OffsetCommit({TP: (0, 1)}, {TP: 1})
ROWS = pa.table({"id": [1]})
_ANY: Any = None


class Change:
    def __init__(self) -> None:
        self.new_rows: dict[str, pa.Table] = {}
        self.is_discarded = False

    def discard(self) -> None:
        self.is_discarded = True


class Format:
    """A table of which each commit has the outcome that ``outcome`` gives it."""

    name = path = place = "t"

    def __init__(self, folder: Path, outcome: Callable[[], None]) -> None:
        self.changes: list[Change] = []
        self.was_locked: list[bool] = []
        """By change: whether the lock was held while it was written."""
        self.shape: object = ""
        self.keys: tuple[str, ...] = ()
        self.commits = 0
        self._outcome = outcome
        self._lock = TableLock(str(folder), "lock")
        self._view = View(
            version=1,
            table_id="t",
            columns={"id": pa.int64()},
            limits=RowLimits(),
            shape="",
            ends={},
            order_state=0,
            order_files=_ANY,
            lock=self._lock,
            keys=(),
        )

    def read(self, before: View | None) -> Step[View]:
        return Step(replace(self._view, shape=self.shape, keys=self.keys), [])

    def set_keys(self, view: View, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)

    def read_files(self, view: View, keys: Any) -> Any:
        class Files:
            keys = {"id": pa.int64()}
            key_count, has_index, find, live = 0, True, None, None

        return Files()

    def is_gone(self, view: View, error: Exception) -> bool:
        return False

    def write(self, view: View, patch: Any, files: Any) -> Change:
        with self._lock.tried() as is_free:
            self.was_locked.append(not is_free)
        self.changes.append(Change())
        return self.changes[-1]

    def commit(self, view: View, change: Change, moves: Moves) -> Step[View]:
        self.commits += 1
        self._outcome()
        return Step(replace(view, version=2, ends=moves.ends))


def open_table(form: Format) -> FileTable[View, Any]:
    settings = FileTableSettings("c", True, False, 100, _ANY, _ANY, 0, 0)
    any_form: Any = form
    table: FileTable[View, Any] = FileTable(any_form, settings, lambda topic: TopicIdentity("cluster", "id"))
    table.load([])
    return table


def conflicts(count: int, then: Callable[[], None] = lambda: None) -> Callable[[], None]:
    left = [then] * count

    def outcome() -> None:
        if left:
            left.pop()()
            raise CommitConflict("another writer")

    return outcome


def test_the_files_of_an_append_are_committed_again_after_a_conflict(tmp_path: Path) -> None:
    form = Format(tmp_path, conflicts(2))
    assert open_table(form).append(ROWS, COMMIT) == 2
    assert (form.commits, [change.is_discarded for change in form.changes]) == (3, [False])


def test_a_key_that_another_task_has_said_meanwhile_stays(tmp_path: Path) -> None:
    form = Format(tmp_path, conflicts(0))
    table = open_table(form)
    table.set_keys(["id"])
    assert form.keys == ("id",)
    other = open_table(form)
    form.keys = ("other",)
    other.set_keys(["id"])
    assert form.keys == ("other",)
    assert table.append(ROWS, COMMIT) is None  # the writer loads again, and judges by the key of the table


def test_the_files_of_an_append_do_not_fit_another_schema(tmp_path: Path) -> None:
    form = Format(tmp_path, conflicts(1, lambda: setattr(form, "shape", "other")))
    table = open_table(form)
    assert table.append(ROWS, COMMIT) is None
    assert (form.commits, [change.is_discarded for change in form.changes]) == (1, [True])
    assert table.view is not None
    assert table.view.shape == ""  # only a load moves on to it, which tells the writer


def test_an_append_that_always_meets_others_is_given_up(tmp_path: Path) -> None:
    form = Format(tmp_path, conflicts(100))
    assert open_table(form).append(ROWS, COMMIT) is None
    assert [change.is_discarded for change in form.changes] == [True]


def test_the_third_attempt_of_an_upsert_keeps_others_waiting(tmp_path: Path) -> None:
    form = Format(tmp_path, conflicts(2))
    table = open_table(form)
    nothing = ROWS.slice(0, 0)
    changes = DeduplicatedChanges(nothing, pa.table({}), pa.chunked_array([], pa.bool_()), {}, None)
    upsert = Upsert(nothing, changes, ("id",), {"id": pa.int64()}, soft_deletes=False)
    assert [table.upsert(upsert, COMMIT) for _ in range(3)] == [None, None, 2]
    assert form.was_locked == [False, False, True]
    assert [change.is_discarded for change in form.changes] == [True, True, False]


def test_an_error_after_which_nothing_was_committed_leaves_no_files(tmp_path: Path) -> None:
    def outcome() -> None:
        raise TableNotLocked("no lock")

    form = Format(tmp_path, outcome)
    with pytest.raises(TableNotLocked):
        open_table(form).append(ROWS, COMMIT)
    assert [change.is_discarded for change in form.changes] == [True]


def test_an_error_of_unknown_outcome_leaves_its_files(tmp_path: Path) -> None:
    def outcome() -> None:
        raise OSError("no answer")

    form = Format(tmp_path, outcome)
    with pytest.raises(OSError, match="no answer"):
        open_table(form).append(ROWS, COMMIT)
    assert [change.is_discarded for change in form.changes] == [False]


def test_a_table_whose_history_has_moved_stays_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form = Format(tmp_path, lambda: None)
    table = open_table(form)

    def refuse(before: View | None) -> Step[View]:
        raise HistoryMoved("somebody went back")

    with monkeypatch.context() as patch:
        patch.setattr(form, "read", refuse)
        with pytest.raises(ConnectError, match="somebody went back"):
            table.append(ROWS, COMMIT)
    assert table.append(ROWS, COMMIT) is None
    table.maintain(lambda: False)
    with pytest.raises(ConnectError, match="somebody went back"):
        table.load([])
