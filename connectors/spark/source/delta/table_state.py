"""The state of a Delta table at a version: metadata, protocol, and files, from checksum files, checkpoints, and commits.

Format: "Delta Log Entries", "Checkpoints", and "Version Checksum File" of Delta's protocol.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from connect.errors import ConnectError, SchemaError
from connectors.spark.plan.evolution import arrow_type
from connectors.spark.source.errors import TableAbsentError, UnsupportedTableError
from connectors.spark.source.similar_folders import similar_folder
from connectors.spark.source.table_feed import TableColumn, TableSchema
from connectors.spark.source.types import column_schema
from connectors.spark.tables.delta.log import Action, DeltaLog

_FILE = re.compile(
    r"(?P<version>\d{20})\.(?:(?P<commit>json)|checkpoint\.parquet|checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet"
    r"|checkpoint\.(?P<uuid>[0-9a-fA-F-]{36})\.(?:json|parquet))"
)
_READER_VERSION = 3
_READABLE_FEATURES = {
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantType",
    "variantType-preview",
    # Of its modes, which are checked on their own.
    "columnMapping",
}
_MAPPING = "delta.columnMapping.mode"
_PHYSICAL_NAME = "delta.columnMapping.physicalName"
_ADD_FIELDS = ("path", "partitionValues", "size", "modificationTime", "stats", "deletionVector")


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


@dataclass(slots=True)
class DeltaState:
    """Metadata and protocol at a version; ``files`` are the ``add`` actions of its files by path, empty if they were not read."""

    version: int
    metadata: Action
    protocol: Action
    files: dict[str, Action] = field(default_factory=dict)


class DeltaStates:
    """Reads states of the table at ``folder``. Its data is bounded by the number of the table's files, about 1 KB each."""

    def __init__(self, files: fs.FileSystem, folder: str, location: str) -> None:
        """``location`` is the name of the table in messages."""
        self._files = files
        self._log_folder = f"{folder}/_delta_log"
        self.log = DeltaLog(files, folder)
        self.location = location

    def list_log(self) -> LogFiles:
        """Lists the log. Raises TableAbsentError if there is no table."""
        commits, found = set(), []
        for info in self._files.get_file_info(fs.FileSelector(self._log_folder, allow_not_found=True)):
            match = _FILE.fullmatch(info.base_name)
            if match is None or info.size == 0:
                continue
            if match["commit"]:
                commits.add(int(match["version"]))
            else:
                found.append(match)
        if not commits and not found:
            folder = self._log_folder.removesuffix("/_delta_log")
            raise TableAbsentError(f"there is no Delta table at {self.location}{similar_folder(self._files, folder)}")
        return LogFiles(frozenset(commits), _complete_checkpoints(found))

    def read(self, version: int, listed: LogFiles, *, with_files: bool) -> DeltaState | None:
        """The state at a version; None if the log no longer has it. Raises ConnectError for a damaged log."""
        checksum = self.log.checksum(version) or {}
        if "metadata" in checksum and "protocol" in checksum and (not with_files or checksum.get("allFiles") is not None):
            files = {add["path"]: add for add in checksum["allFiles"]} if with_files else {}
            return DeltaState(version, checksum["metadata"], checksum["protocol"], files)
        base = listed.base(version)
        actions = _Replayed(with_files)
        if base is not None:
            for name in listed.checkpoints[base]:
                self._read_checkpoint(name, actions)
        for number in range(0 if base is None else base + 1, version + 1):
            commit = self.log.commit(number)
            if commit is None:
                return None
            actions.apply(commit.metadata, commit.protocol, commit.adds, commit.removes)
        if actions.metadata is None or actions.protocol is None:
            raise ConnectError(f"the log of {self.location} has no metadata or protocol up to version {version}: it is damaged")
        return DeltaState(version, actions.metadata, actions.protocol, actions.files)

    def _read_checkpoint(self, name: str, actions: _Replayed) -> None:
        path = f"{self._log_folder}/{name}"
        try:
            for found in self._checkpoint_actions(path, actions.with_files):
                actions.apply(found.get("metaData"), found.get("protocol"), [found["add"]] if "add" in found else [], [])
                if "sidecar" in found and actions.with_files:
                    sidecar = found["sidecar"]["path"]
                    part = sidecar if "/" in sidecar else f"{self._log_folder}/_sidecars/{sidecar}"
                    for inner in self._checkpoint_actions(part, with_files=True):
                        actions.apply(None, None, [inner["add"]] if "add" in inner else [], [])
        except (pa.ArrowException, FileNotFoundError, ValueError) as e:
            raise ConnectError(
                f"the checkpoint {path} cannot be read: {e}. Restore the file from a backup, or remove the checkpoint if the log "
                "has all commits"
            ) from e

    def _checkpoint_actions(self, path: str, with_files: bool) -> Iterator[Action]:
        if path.endswith(".json"):
            with self._files.open_input_file(path) as file:
                for line in file.read().splitlines():
                    if line.strip():
                        yield json.loads(line)
            return
        with self._files.open_input_file(path) as file:
            parquet = pq.ParquetFile(file)
            wanted = _checkpoint_columns(parquet.schema_arrow, with_files)
            for batch in parquet.iter_batches(10_000, columns=wanted, use_threads=False):
                for name in batch.schema.names:
                    column = batch[name]
                    for action in column.drop_null().to_pylist():
                        yield {name: _without_nulls(action)}


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


def _checkpoint_columns(schema: pa.Schema, with_files: bool) -> list[str]:
    names = set(schema.names)
    found = [name for name in ("metaData", "protocol", "sidecar") if name in names]
    if with_files and "add" in names:
        inside = {member.name for member in schema.field("add").type}
        found += [f"add.{name}" for name in _ADD_FIELDS if name in inside]
    return found


def _without_nulls(action: Mapping[str, Any]) -> Action:
    """An action of a checkpoint as a commit has it: maps are lists of pairs in Arrow, and absent members are null."""
    return {
        name: dict(value) if name in ("partitionValues", "configuration") else value
        for name, value in action.items()
        if value is not None
    }


class _Replayed:
    """What checkpoints and commits add up to."""

    def __init__(self, with_files: bool) -> None:
        self.with_files = with_files
        self.metadata: Action | None = None
        self.protocol: Action | None = None
        self.files: dict[str, Action] = {}

    def apply(self, metadata: Action | None, protocol: Action | None, adds: list[Action], removes: list[Action]) -> None:
        self.metadata = metadata or self.metadata
        self.protocol = protocol or self.protocol
        if self.with_files:
            # A file that gets another deletion vector is removed and added.
            for removed in removes:
                self.files.pop(removed["path"], None)
            for added in adds:
                self.files[added["path"]] = added


@dataclass(frozen=True)
class TableDefinition:
    """What the metadata and protocol of a version mean for a reader of its rows."""

    location: str
    metadata: Action
    protocol: Action

    @property
    def table_id(self) -> str:
        return str(self.metadata["id"])

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(self.metadata.get("partitionColumns") or ())

    @cached_property
    def schema(self) -> TableSchema:
        """The columns. Raises UnsupportedTableError for a feature or type that this reader does not know."""
        is_mapped = self._check_features() == "name"
        columns = []
        for member in json.loads(self.metadata["schemaString"])["fields"]:
            try:
                type_ = arrow_type(member["type"])
                column_schema(type_)
            except SchemaError as e:
                raise UnsupportedTableError(
                    f"column {member['name']} of table {self.location} cannot be read: {e}. Write a table without the column, or "
                    "with another type (CAST, to_json), with Spark, and read that"
                ) from e
            in_files = _field_in_files(member) if is_mapped else None
            columns.append(TableColumn(member["name"], type_, bool(member.get("nullable", True)), in_files))
        return TableSchema(tuple(columns))

    def _check_features(self) -> str:
        """Returns the mode of the column mapping."""
        mode = str((self.metadata.get("configuration") or {}).get(_MAPPING, "none"))
        if mode not in ("none", "name"):
            raise self._unsupported(f"column mapping ({_MAPPING}={mode})")
        version = int(self.protocol.get("minReaderVersion", 1))
        if version > _READER_VERSION:
            raise self._unsupported(f"the reader version {version}")
        unknown = sorted(set(self.protocol.get("readerFeatures") or ()) - _READABLE_FEATURES)
        if unknown:
            raise self._unsupported(f"the reader feature{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}")
        return mode

    def _unsupported(self, feature: str) -> UnsupportedTableError:
        return UnsupportedTableError(
            f"table {self.location} has {feature}, which SparkSource does not read: only Spark reads such a table. Remove the "
            "feature (ALTER TABLE ... DROP FEATURE), or copy the table into one without it with Spark, and read the copy"
        )


def _field_in_files(member: Mapping[str, Any]) -> pa.Field:
    """A field of the schema with the names that data files have for it and for the fields in it."""
    name = (member.get("metadata") or {}).get(_PHYSICAL_NAME, member["name"])
    return pa.field(name, arrow_type(_type_in_files(member["type"])))


def _type_in_files(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node.get("type") == "struct":
        fields = [(_field_in_files(member).name, _type_in_files(member["type"])) for member in node["fields"]]
        return {**node, "fields": [{"name": name, "type": type_} for name, type_ in fields]}
    inner = {part: _type_in_files(node[part]) for part in ("elementType", "keyType", "valueType") if part in node}
    return {**node, **inner}
