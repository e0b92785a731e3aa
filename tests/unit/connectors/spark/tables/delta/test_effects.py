"""What commits of other writers do to a Delta table: logs that delta-rs writes, and commits as Spark has logged them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from pyarrow import fs

from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.delta.log import DeltaLog, LoggedCommit
from connectors.spark.tables.effects import Effect

NOTHING = Effect(0)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "day": pa.array([str(i % 2) for i in ids])})


@pytest.mark.parametrize(
    ("change", "effect"),
    [
        (lambda t: deltalake.write_deltalake(t, rows(7), mode="append"), Effect.ADDS_ROWS),
        (lambda t: t.update(updates={"id": "id + 10"}, predicate="id = 1"), Effect.CHANGES_ROWS),
        (lambda t: t.delete("id = 1"), Effect.CHANGES_ROWS),
        (
            lambda t: deltalake.write_deltalake(t, rows(1, 7), mode="overwrite", predicate="day = '1'"),
            Effect.CHANGES_ROWS,
        ),
        (lambda t: t.merge(rows(1), "s.id = t.id", "s", "t").when_matched_delete().execute(), Effect.CHANGES_ROWS),
        (lambda t: t.optimize.compact(), Effect.REARRANGES),
        (lambda t: t.alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"}), Effect.ALTERS),
        (
            lambda t: deltalake.write_deltalake(t, rows(7), mode="overwrite"),
            Effect.CHANGES_ROWS | Effect.MOVES_HISTORY,
        ),
    ],
    ids=["append", "update", "delete", "overwrite of a part", "merge", "compaction", "property", "overwrite"],
)
def test_commits_of_delta_rs(tmp_path: Path, change: Callable[[Any], Any], effect: Effect) -> None:
    table = make_table(tmp_path)
    change(table)
    assert newest(tmp_path).effect == effect


@pytest.mark.parametrize("was_deleted", [False, True])
def test_a_restored_table_has_another_history_whatever_its_files(tmp_path: Path, was_deleted: bool) -> None:
    table = make_table(tmp_path)
    if was_deleted:
        table.delete("day = '1'")  # its file, so that restoring adds one and removes none
        table.restore(2)
    else:
        table.restore(1)
    assert newest(tmp_path).effect & Effect.MOVES_HISTORY


def make_table(folder: Path) -> deltalake.DeltaTable:
    for ids in ((1, 2), (3, 4), (5, 6)):
        deltalake.write_deltalake(str(folder), rows(*ids), mode="append", partition_by=["day"])
    return deltalake.DeltaTable(str(folder))


def newest(folder: Path) -> LoggedCommit:
    log = DeltaLog(fs.LocalFileSystem(), str(folder))
    found = log.commit(deltalake.DeltaTable(str(folder)).version())
    assert found is not None
    return found


ADD, REMOVE = {"path": "a", "dataChange": True}, {"path": "b", "dataChange": True}


def logged(operation: str, parameters: dict[str, Any] | None = None, **more: Any) -> LoggedCommit:
    metadata = more.pop("metadata", None)
    info = {"operation": operation, "operationParameters": parameters or {}, "userMetadata": metadata}
    return LoggedCommit(3, info, **more)


@pytest.mark.parametrize(
    ("commit", "effect"),
    [
        (logged("WRITE", {"mode": "Append"}, adds=[ADD]), Effect.ADDS_ROWS),
        (logged("WRITE", {"mode": "Overwrite"}, adds=[ADD], removes=[REMOVE]), Effect.CHANGES_ROWS | Effect.MOVES_HISTORY),
        (logged("WRITE", {"mode": "Overwrite"}, adds=[ADD]), Effect.ADDS_ROWS),  # the table had no rows
        (logged("WRITE", {"mode": "Overwrite", "predicate": "day = 1"}, adds=[ADD], removes=[REMOVE]), Effect.CHANGES_ROWS),
        *(
            (
                logged("WRITE", {"mode": "Overwrite", "isDynamicPartitionOverwrite": is_so}, adds=[ADD], removes=[REMOVE]),
                Effect.CHANGES_ROWS,
            )
            for is_so in (True, "true")
        ),
        (
            logged("WRITE", {"mode": "Overwrite"}, removes=[REMOVE], metadata=TableCommit("c", 1, {}, {}).to_json()),
            Effect.CHANGES_ROWS,  # a truncate of the sink
        ),
        (logged("TRUNCATE", removes=[REMOVE]), Effect.CHANGES_ROWS | Effect.MOVES_HISTORY),
        (logged("TRUNCATE"), NOTHING),
        (logged("RESTORE", adds=[ADD]), Effect.ADDS_ROWS | Effect.MOVES_HISTORY),
        (logged("CLONE", adds=[ADD], alters=True), Effect.ADDS_ROWS | Effect.ALTERS | Effect.MOVES_HISTORY),
        (logged("VACUUM END"), NOTHING),
        (logged("ROW TRACKING BACKFILL", adds=[{"path": "a", "dataChange": False}]), Effect.REARRANGES),
        (logged("WRITE", {"mode": "Append"}, adds=[ADD], alters=True), Effect.ADDS_ROWS | Effect.ALTERS),
    ],
)
def test_commits_of_spark(commit: LoggedCommit, effect: Effect) -> None:
    assert commit.effect == effect


def test_an_action_that_nobody_knows_alters_the_table(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / f"{0:020d}.json").write_text('{"teleport": {}}')
    found = DeltaLog(fs.LocalFileSystem(), str(tmp_path)).commit(0)
    assert found is not None
    assert found.effect == Effect.ALTERS
