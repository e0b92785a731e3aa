"""Which files the log of a Delta table has, and what its checkpoints contain.

Format: "Delta Log Entries" and "Checkpoints" of Delta's protocol.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.errors import is_damaged_parquet
from connectors.spark.tables.delta.log import Action

_FILE = re.compile(
    r"(?P<version>\d{20})\.(?:(?P<commit>json)|checkpoint\.parquet|checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet"
    r"|checkpoint\.(?P<uuid>[0-9a-fA-F-]{36})\.(?:json|parquet))"
)


@dataclass(frozen=True, slots=True)
class LogFiles:
    """What a table's log contains."""

    commits: frozenset[int]
    checkpoints: Mapping[int, tuple[str, ...]]
    """By version: the names of a complete checkpoint's files."""

    @property
    def newest(self) -> int:
        """The newest version; -1 if there is none."""
        return max((*self.commits, *self.checkpoints), default=-1)

    @property
    def oldest(self) -> int:
        """The oldest version whose changes can be read; one more than the newest if there is none."""
        lowest = self.newest + 1
        while lowest - 1 in self.commits:
            lowest -= 1
        if lowest == 0:
            return 0
        # What a commit changes is known only with the state before it, or after it.
        known = [one for one in self.checkpoints if one >= lowest - 1]
        return max(lowest, min(known, default=self.newest + 1))

    def base(self, version: int) -> int | None:
        """The newest checkpoint that is not after a version."""
        return max((one for one in self.checkpoints if one <= version), default=None)


def list_log(files: fs.FileSystem, log_folder: str) -> LogFiles:
    """Lists a log; without files if there is none."""
    commits, found = set(), []
    for info in files.get_file_info(fs.FileSelector(log_folder, allow_not_found=True)):
        match = _FILE.fullmatch(info.base_name)
        if match is None or info.size == 0:
            continue
        if match["commit"]:
            commits.add(int(match["version"]))
        else:
            found.append(match)
    return LogFiles(frozenset(commits), _complete_checkpoints(found))


def _complete_checkpoints(found: list[re.Match[str]]) -> dict[int, tuple[str, ...]]:
    complete: dict[int, tuple[str, ...]] = {}
    parts: dict[tuple[int, int], list[str]] = {}
    for match in sorted(found, key=lambda m: m[0]):
        version = int(match["version"])
        if match["parts"]:
            parts.setdefault((version, int(match["parts"])), []).append(match[0])
        else:
            complete.setdefault(version, (match[0],))
    for (version, count), names in parts.items():
        if len(names) == count:
            complete.setdefault(version, tuple(names))
    return complete


def checkpoint_actions(files: fs.FileSystem, path: str, wanted: Sequence[str]) -> Iterator[Action]:
    """The actions in one file of a checkpoint. ``wanted`` are kinds of actions, or members of a kind (``add.path``); of a file in
    JSON, all actions come. Raises ConnectError if the file cannot be read."""
    try:
        yield from _read_actions(files, path, wanted)
    except (pa.ArrowException, OSError, ValueError) as e:
        if isinstance(e, OSError) and not isinstance(e, FileNotFoundError) and not is_damaged_parquet(e):
            raise
        raise ConnectError(
            f"the checkpoint {path} cannot be read: {e}. Restore the file from a backup, or remove the checkpoint if the log "
            "has all commits"
        ) from e


def _read_actions(files: fs.FileSystem, path: str, wanted: Sequence[str]) -> Iterator[Action]:
    if path.endswith(".json"):
        with files.open_input_file(path) as file:
            for line in file.read().splitlines():
                if line.strip():
                    yield json.loads(line)
        return
    with files.open_input_file(path) as file:
        parquet = pq.ParquetFile(file)
        columns = [name for name in wanted if _has_column(parquet.schema_arrow, name)]
        for batch in parquet.iter_batches(10_000, columns=columns, use_threads=False):
            for name in batch.schema.names:
                for action in batch[name].drop_null().to_pylist():
                    yield {name: _without_nulls(action)}


def _has_column(schema: pa.Schema, name: str) -> bool:
    kind, _, member = name.partition(".")
    return kind in schema.names and (not member or schema.field(kind).type.get_field_index(member) >= 0)


def _without_nulls(action: Mapping[str, Any]) -> Action:
    """An action of a checkpoint as a commit has it: maps are lists of pairs in Arrow, and absent members are null."""
    return {
        name: dict(value) if name in ("partitionValues", "configuration") else value
        for name, value in action.items()
        if value is not None
    }
