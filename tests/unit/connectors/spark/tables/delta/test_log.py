"""What the log of a Delta table tells without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyarrow import fs

from connectors.spark.tables.delta.log import DeltaLog


def _log(folder: Path, *commits: list[dict[str, Any]], checksum: dict[str, Any] | None = None) -> DeltaLog:
    """A log of these commits, and the checksum of the last one."""
    files = folder / "_delta_log"
    files.mkdir()
    for version, actions in enumerate(commits):
        (files / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    if checksum is not None:
        (files / f"{len(commits) - 1:020d}.crc").write_text(json.dumps(checksum))
    return DeltaLog(fs.LocalFileSystem(), str(folder))


def _add(path: str, **more: Any) -> dict[str, Any]:
    return {"add": {"path": path, "size": 1, **more}}


def _remove(path: str) -> dict[str, Any]:
    return {"remove": {"path": path}}


def test_files_of_a_young_table_are_read_from_its_commits(tmp_path: Path) -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "x"}
    log = _log(
        tmp_path,
        [{"metaData": {}}],
        [_add("a"), _add("b")],
        [_add("a", deletionVector=vector), _remove("a")],
        [_remove("b"), _add("c")],
        checksum={"numFiles": 2},
    )
    assert log.listed_files(3) == [_add("a", deletionVector=vector)["add"], _add("c")["add"]]


def test_files_that_the_checksum_lists_are_not_read_from_commits(tmp_path: Path) -> None:
    log = _log(tmp_path, [_add("a")], checksum={"numFiles": 1, "allFiles": [_add("b")["add"]]})
    assert log.listed_files(0) == [_add("b")["add"]]


def test_files_are_unknown_when_a_commit_has_expired_or_is_damaged(tmp_path: Path) -> None:
    log = _log(tmp_path, [_add("a")], [_add("b")])
    first = tmp_path / "_delta_log" / f"{0:020d}.json"
    first.write_text('{"add"')
    assert log.listed_files(1) is None
    first.unlink()
    assert log.listed_files(1) is None


def test_files_are_unknown_after_many_commits(tmp_path: Path) -> None:
    log = _log(tmp_path, *([_add(f"file-{number}")] for number in range(101)))
    found = log.listed_files(99)
    assert found is not None
    assert len(found) == 100
    assert log.listed_files(100) is None
