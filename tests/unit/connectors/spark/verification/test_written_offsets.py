"""How far tables contain their topics, by their own commits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyarrow import fs

from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.tables.application_ids import PartitionId
from connectors.spark.tables.committed_offsets import TableCommit
from connectors.spark.tables.delta.log import DeltaLog
from connectors.spark.tables.iceberg.offsets import PREFIX
from connectors.spark.verification.written_offsets import DeltaOffsets, iceberg_ends

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def commit(folder: Path, version: int, ends: Mapping[TopicPartition, int | None] | None, connector: str = "lake") -> None:
    """Adds a commit; without ends, it is of another writer."""
    info = {"operation": "WRITE"} if ends is None else {"userMetadata": TableCommit(connector, 0, {}, ends).to_json()}
    log = folder / "_delta_log"
    log.mkdir(exist_ok=True)
    (log / f"{version:020d}.json").write_text(json.dumps({"commitInfo": info}))


def application_id(partition: TopicPartition, connector: str = "lake") -> str:
    return str(PartitionId(connector, TopicIdentity("cluster", "id"), partition))


def offsets(folder: Path, version: int) -> DeltaOffsets:
    return DeltaOffsets(DeltaLog(fs.LocalFileSystem(), str(folder)), version, "lake")


def test_newest_commit_that_names_a_partition_counts(tmp_path: Path) -> None:
    commit(tmp_path, 0, {FIRST: 3, SECOND: 9})
    commit(tmp_path, 1, {FIRST: 5})
    commit(tmp_path, 2, None)
    commit(tmp_path, 3, {FIRST: 100}, "other connector")
    assert offsets(tmp_path, 3).read() == {FIRST: 5, SECOND: 9}


def test_checksum_file_saves_reading_older_commits(tmp_path: Path) -> None:
    commit(tmp_path, 6, {FIRST: 7})
    listed = [{"appId": application_id(FIRST), "version": 7}, {"appId": application_id(SECOND), "version": 4}]
    listed.append({"appId": application_id(SECOND, "other connector"), "version": 80})
    (tmp_path / "_delta_log" / f"{6:020d}.crc").write_text(json.dumps({"setTransactions": listed}))
    assert offsets(tmp_path, 6).read() == {FIRST: 7, SECOND: 4}


def test_later_commits_move_the_ends(tmp_path: Path) -> None:
    commit(tmp_path, 0, {FIRST: 3, SECOND: 9})
    found = offsets(tmp_path, 0)
    commit(tmp_path, 1, {FIRST: 8})
    commit(tmp_path, 2, {SECOND: None})
    assert found.read() == {FIRST: 8}
    commit(tmp_path, 3, {SECOND: 2})
    assert found.read() == {FIRST: 8, SECOND: 2}


def test_commit_that_cannot_be_read_yet_does_not_count(tmp_path: Path) -> None:
    commit(tmp_path, 0, {FIRST: 3})
    found = offsets(tmp_path, 0)
    half = tmp_path / "_delta_log" / f"{1:020d}.json"
    half.write_text('{"commitInfo"')
    assert found.read() == {FIRST: 3}
    commit(tmp_path, 1, {FIRST: 4})
    assert found.read() == {FIRST: 4}


def test_newest_snapshot_of_the_sink_counts_for_iceberg() -> None:
    def snapshot(id: int, **ends: int) -> dict[str, Any]:
        by_id = {application_id(TopicPartition(topic, 0)): end for topic, end in ends.items()}
        return {"id": id, "summary": {PREFIX + "lake": json.dumps(by_id)} if ends else {"operation": "replace"}}

    history = [snapshot(3), snapshot(2, orders=8, items=2), snapshot(1, orders=5)]
    assert iceberg_ends(history, "lake") == {FIRST: 8, TopicPartition("items", 0): 2}
    assert iceberg_ends(history, "other connector") == {}
