"""The programs of test_programs.py would find known faults: each test brings one back, and a program must fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from connect.errors import ConnectError
from connectors.spark.tables.file_table import FileTable
from connectors.spark.tables.files.indexed_files import IndexedFiles
from connectors.spark.tables.table import OffsetCommit
from connectors.spark.tables.writer import TableWriter
from tests.support.lake import iceberg
from tests.support.lake.checks import Finding
from tests.support.lake.programs import COMMITTED, FORMATS, HELD, case_of
from tests.support.lake.scheduler import Case, World, failure, faults, freezes, replay


def test_files_that_move_before_their_keys_are_read_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def move(self: IndexedFiles, adds: Iterable[Any], removes: Iterable[Any], keys_of: Callable[[Any], Any]) -> None:
        move = self.live.prepare(adds, removes)
        self.live.swap(move)
        if self._index is not None:
            self._index.swap(self._index.plan(entries for file in move.new for entries in keys_of(file)))

    monkeypatch.setattr(IndexedFiles, "_move", move)
    case = case_of("delta", "upsert")
    programs = faults(case, ["A take 3", "A commit", "F rewrite", "A put 1", "A commit"], first=4)
    assert any("believes" in str(failure(case, steps)) for steps in programs)


@pytest.mark.parametrize("format_", FORMATS)
def test_a_commit_that_does_not_begin_at_the_ends_of_the_table_is_noticed(
    format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(OffsetCommit, "continues", lambda self, stored, identities: True)
    steps = [*HELD, "B take 2", "B commit", "A maintain", "A commit"]
    found = str(failure(case_of(format_, "append"), steps))
    assert "believes in version" in found or "doubled" in found or "rows" in found


def test_a_commit_after_a_rollback_that_skips_records_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = FileTable._read

    def read(self: FileTable[Any, Any]) -> Any:
        try:
            return real(self)
        except ConnectError:
            self._refusal = ""
            raise

    monkeypatch.setattr(FileTable, "_read", read)
    monkeypatch.setattr(TableWriter, "_check_ends", lambda *_: None)
    steps = [*COMMITTED, "F back 2", "A maintain", "A put 1", "A commit"]
    assert "missing rows" in str(failure(case_of("iceberg", "append"), steps))


def test_a_vector_for_a_file_that_was_rewritten_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = iceberg._validate
    monkeypatch.setattr(iceberg, "_validate", lambda metadata, asked: real(metadata, {**asked, "add_vectors": []}))
    case = case_of("iceberg", "upsert")
    programs = freezes(case, HELD, "A commit", ["F rewrite"], [])
    assert any("which is not in the table" in str(failure(case, steps)) for steps in programs)


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_lost_doubled_and_wrong_rows_are_noticed(format_: str) -> None:
    case = case_of(format_, "upsert")
    for change in ("delete", "double"):
        found = failure_of_silent_change(case, change)
        assert ("missing rows" if change == "delete" else "wrong or doubled rows") in found


def failure_of_silent_change(case: Case, change: str) -> str:
    """What is found when somebody changes rows and says that nothing has changed."""
    world = World(case)
    for step in HELD:
        world.step(step)
    lake = world.lake
    if change == "delete":
        lake.replace("delete", lambda row: row["id"] == 1, None, list)
    else:
        lake.change("append", list, rows=[row for _, _, row in lake.live_rows(lake.newest)])
    with pytest.raises(Finding) as e:
        world.check()
    return str(e.value)


def test_a_finding_says_how_to_replay_it() -> None:
    with pytest.raises(
        AssertionError, match=r'step 2 \(A fly\).*\n    replay\(Case\("delta", "append", "c1"\), "A open", "A fly"\)'
    ):
        replay(Case("delta", "append", "c1"), "A open", "A fly")
