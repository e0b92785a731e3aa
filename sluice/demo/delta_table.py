"""Reads a Delta table into Arrow, using only its log and its Parquet files.

The demo verifies its result with a reader that shares no code with Spark. It supports what the demo's tables need: JSON commits,
checkpoints, added and removed files, columns added later. It rejects other features (deletion vectors, column mapping) instead of
returning wrong rows. Source: the Delta transaction log protocol.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from connect.errors import ConnectError, NotFoundError

_PRIMITIVES = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


@dataclass
class DeltaSnapshot:
    """One version of a table: its columns as Arrow types, and its live data files."""

    location: Path
    version: int = -1
    columns: dict[str, pa.DataType] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """Returns the rows, unordered; columns that a file does not have are null."""
        names = list(self.columns) if columns is None else columns
        schema = pa.schema([(name, self.columns[name]) for name in names])
        parts = [self._read_file(path, names, schema) for path in self.files]
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def _read_file(self, path: str, names: list[str], schema: pa.Schema) -> pa.Table:
        file = pq.ParquetFile(self.location / unquote(path))
        present = set(file.schema_arrow.names)
        table = file.read(columns=[name for name in names if name in present])
        arrays = [
            table.column(name).cast(schema.field(name).type)
            if name in present
            else pa.nulls(table.num_rows, schema.field(name).type)
            for name in names
        ]
        return pa.table(arrays, schema=schema)


def open_delta(location: Path) -> DeltaSnapshot:
    """Reads the newest version. Raises NotFoundError when present is no table, ConnectError for unsupported features."""
    log = location / "_delta_log"
    commits = sorted(log.glob("*.json")) if log.is_dir() else []
    if not commits:
        raise NotFoundError(f"there is no Delta table at {location}")
    snapshot = DeltaSnapshot(location)
    checkpoint = _last_checkpoint(log)
    if checkpoint is not None:
        snapshot.version = checkpoint
        for action in pq.read_table(log / f"{checkpoint:020d}.checkpoint.parquet").to_pylist():
            _apply(snapshot, {kind: body for kind, body in action.items() if body is not None})
    for commit in commits:
        version = int(commit.stem)
        if version > snapshot.version:
            for line in commit.read_text(encoding="utf-8").splitlines():
                _apply(snapshot, json.loads(line))
            snapshot.version = version
    return snapshot


def _last_checkpoint(log: Path) -> int | None:
    versions = [int(path.name.split(".")[0]) for path in log.glob("*.checkpoint.parquet") if path.name.count(".") == 2]
    return max(versions, default=None)


def _apply(snapshot: DeltaSnapshot, action: dict[str, Any]) -> None:
    if metadata := action.get("metaData"):
        configuration = dict(metadata.get("configuration") or {})
        if configuration.get("delta.columnMapping.mode", "none") != "none":
            raise ConnectError(f"{snapshot.location} uses column mapping, which this reader does not support")
        schema = json.loads(metadata["schemaString"])
        snapshot.columns = {f["name"]: _arrow_type(f["type"]) for f in schema["fields"]}
    if add := action.get("add"):
        if add.get("deletionVector"):
            raise ConnectError(f"{snapshot.location} has deletion vectors, which this reader does not support")
        snapshot.files[add["path"]] = add
    if remove := action.get("remove"):
        snapshot.files.pop(remove["path"], None)


def _arrow_type(kind: Any) -> pa.DataType:
    if isinstance(kind, dict):
        if kind["type"] == "array":
            return pa.list_(_arrow_type(kind["elementType"]))
        if kind["type"] == "map":
            return pa.map_(_arrow_type(kind["keyType"]), _arrow_type(kind["valueType"]))
        return pa.struct([(f["name"], _arrow_type(f["type"])) for f in kind["fields"]])
    if kind.startswith("decimal("):
        precision, scale = kind[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _PRIMITIVES[kind]
