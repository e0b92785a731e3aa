"""The state of a Delta table at a version: metadata, protocol, and files, from checksum files, checkpoints, and commits.

Format: "Delta Log Entries" and "Version Checksum File" of Delta's protocol.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyarrow import fs

from connect.errors import ConnectError, SchemaError
from connectors.spark.plan.evolution import arrow_type
from connectors.spark.source.errors import TableAbsentError, UnsupportedTableError
from connectors.spark.source.similar_folders import similar_folder
from connectors.spark.source.table_feed import TableColumn, TableSchema
from connectors.spark.source.types import column_schema
from connectors.spark.tables.delta.log import Action, DeltaLog
from connectors.spark.tables.delta.log_files import LogFiles, checkpoint_actions, list_log

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
_CHECKPOINT = ("metaData", "protocol", "sidecar")
_FILES = tuple(f"add.{name}" for name in ("path", "partitionValues", "size", "modificationTime", "stats", "deletionVector"))


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
        listed = list_log(self._files, self._log_folder)
        if listed.newest < 0:
            folder = self._log_folder.removesuffix("/_delta_log")
            raise TableAbsentError(f"there is no Delta table at {self.location}{similar_folder(self._files, folder)}")
        return listed

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
        wanted = (*_CHECKPOINT, *_FILES) if actions.with_files else _CHECKPOINT
        for found in checkpoint_actions(self._files, f"{self._log_folder}/{name}", wanted):
            actions.apply(found.get("metaData"), found.get("protocol"), [found["add"]] if "add" in found else [], [])
            if "sidecar" in found and actions.with_files:
                sidecar = found["sidecar"]["path"]
                part = sidecar if "/" in sidecar else f"{self._log_folder}/_sidecars/{sidecar}"
                for inner in checkpoint_actions(self._files, part, _FILES):
                    actions.apply(None, None, [inner["add"]] if "add" in inner else [], [])


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
