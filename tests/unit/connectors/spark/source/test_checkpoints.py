"""States of a table come from every kind of checkpoint, and from checksum files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connectors.spark.tables.delta.log_files import LogFiles
from tests.support.delta_writer import DeltaWriter
from tests.support.replayed_events import events, read_all

_TEXT = pa.string()
_TEXTS = pa.list_(_TEXT)
_PAIRS = pa.map_(_TEXT, _TEXT)
_VECTOR = pa.struct(
    [
        ("storageType", _TEXT),
        ("pathOrInlineDv", _TEXT),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_ADD = [("path", _TEXT), ("partitionValues", _PAIRS), ("size", pa.int64()), ("modificationTime", pa.int64()), ("stats", _TEXT)]
_TYPES = {
    "add": pa.struct([*_ADD, ("deletionVector", _VECTOR)]),
    "metaData": pa.struct([("id", _TEXT), ("schemaString", _TEXT), ("partitionColumns", _TEXTS), ("configuration", _PAIRS)]),
    "protocol": pa.struct([("minReaderVersion", pa.int32()), ("readerFeatures", _TEXTS)]),
    "sidecar": pa.struct([("path", _TEXT), ("sizeInBytes", pa.int64())]),
}


def _write(path: Path, actions: Sequence[dict[str, Any]]) -> None:
    """A Parquet file of actions, as Spark writes them: one column per kind."""
    columns = {}
    for kind, type_ in _TYPES.items():
        found = [action.get(kind) for action in actions]
        plain = [value and {f.name: _plain(value.get(f.name)) for f in type_} for value in found]
        columns[kind] = pa.array(plain, type_)
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), path)


def _plain(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) and "storageType" not in value else value


def _classic(log: Path, name: str, head: list[dict[str, Any]], adds: list[dict[str, Any]]) -> None:
    _write(log / f"{name}.checkpoint.parquet", [*head, *adds])


def _parts(log: Path, name: str, head: list[dict[str, Any]], adds: list[dict[str, Any]]) -> None:
    for number, actions in enumerate([head, adds[:1], adds[1:]], 1):
        _write(log / f"{name}.checkpoint.{number:010d}.{3:010d}.parquet", actions)


_UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"


def _sidecars(log: Path, head: list[dict[str, Any]], adds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for number, add in enumerate(adds):
        _write(log / "_sidecars" / f"{number}.parquet", [add])
    return [*head, *({"sidecar": {"path": f"{n}.parquet", "sizeInBytes": 1}} for n in range(len(adds)))]


def _v2_parquet(log: Path, name: str, head: list[dict[str, Any]], adds: list[dict[str, Any]]) -> None:
    _write(log / f"{name}.checkpoint.{_UUID}.parquet", _sidecars(log, head, adds))


def _v2_json(log: Path, name: str, head: list[dict[str, Any]], adds: list[dict[str, Any]]) -> None:
    text = "\n".join(map(json.dumps, [{"checkpointMetadata": {"version": 1}}, *_sidecars(log, head, adds)]))
    (log / f"{name}.checkpoint.{_UUID}.json").write_text(text)


def _checksum(log: Path, name: str, head: list[dict[str, Any]], adds: list[dict[str, Any]]) -> None:
    found = {"metadata": head[0]["metaData"], "protocol": head[1]["protocol"], "allFiles": [add["add"] for add in adds]}
    (log / f"{name}.crc").write_text(json.dumps(found))
    _classic(log, name, head, adds)


Writer = Callable[[Path, str, list[dict[str, Any]], list[dict[str, Any]]], None]


@pytest.mark.parametrize("write", [_classic, _parts, _v2_parquet, _v2_json, _checksum])
def test_table_is_read_from_its_checkpoint_with_deletion_vectors(tmp_path: Path, write: Writer) -> None:
    table = DeltaWriter(tmp_path / "t", {"id": pa.int64(), "day": pa.string()}, partitioned_by=["day"]).create()
    table.protocol["readerFeatures"] = ["deletionVectors", "v2Checkpoint"]
    for day in ("a", "b", "c"):
        table.insert([{"id": number, "day": day} for number in range(4)])
    table.delete(lambda row: row["id"] == 2 and row["day"] != "a")
    table.delete(lambda row: row["day"] == "c")
    newest = len(table.versions) - 1
    head = [table.metadata(), {"protocol": table.protocol}]
    write(table.log, f"{newest:020d}", head, [{"add": table._action(path, True)} for path in table.files])
    for version in range(newest):
        table.commit_file(version).unlink()
    table.insert([{"id": 9, "day": None}])
    expected = [(0, "a"), (1, "a"), (2, "a"), (3, "a"), (0, "b"), (1, "b"), (3, "b"), (9, None)]
    assert [(after["id"], after["day"]) for _, _, after in events(read_all(table.folder))] == expected
    later = events(read_all(table.folder, source_start=str(newest + 1)))
    assert later == [("c", None, {"id": 9, "day": None})]


def test_incomplete_checkpoint_is_not_used(tmp_path: Path) -> None:
    table = DeltaWriter(tmp_path / "t", {"id": pa.int64()}).create([{"id": 1}])
    (table.log / f"{0:020d}.checkpoint.{1:010d}.{2:010d}.parquet").write_bytes(b"half")
    assert len(read_all(table.folder)) == 1


@pytest.mark.parametrize(
    ("commits", "checkpoints", "oldest"),
    [
        ({0, 1, 2}, set(), 0),
        ({3, 4, 5}, {3}, 3),
        ({3, 4, 5}, {2}, 3),
        ({3, 4, 5}, {4}, 4),
        ({0, 1, 4, 5}, {4}, 4),
        ({0, 1, 4, 5}, set(), 6),
        (set(), {7}, 8),
    ],
)
def test_oldest_version_has_its_commit_and_a_state_beside_it(commits: set[int], checkpoints: set[int], oldest: int) -> None:
    assert LogFiles(frozenset(commits), dict.fromkeys(checkpoints, ())).oldest == oldest
