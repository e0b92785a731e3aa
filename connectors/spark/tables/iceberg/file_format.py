"""Data files as Iceberg's metadata describes them (see ``files`` in ``IcebergTables.java``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.tables.files.file_columns import FIELD_ID, FileColumn, FileColumns
from connectors.spark.tables.files.live_files import Entry, LiveFile, Vector, reading
from connectors.spark.tables.files.row_bitmaps import Rows
from connectors.spark.tables.iceberg import puffin
from connectors.spark.tables.iceberg.columns import BinaryValue, file_columns, identity_values
from connectors.spark.tables.iceberg.types import Json
from connectors.spark.tables.staging import path_in_file_system

ROW_ID, LAST_SEQUENCE = "_row_id", "_last_updated_sequence_number"
LINEAGE = {ROW_ID: pa.int64(), LAST_SEQUENCE: pa.int64()}
"""Columns of row lineage, which files have only if their rows were in another file before."""
LINEAGE_FIELDS = {
    name: pa.field(name, LINEAGE[name], metadata={FIELD_ID: number})
    for name, number in ((ROW_ID, b"2147483540"), (LAST_SEQUENCE, b"2147483539"))
}

_POSITION_DELETES, _PUFFIN = "POSITION_DELETES", "PUFFIN"


class IcebergFormat:
    """The files of a table in this state (see ``read`` in ``IcebergTables.java``). Their paths are URIs."""

    restore_hint = "(CALL <catalog>.system.rollback_to_snapshot); if its snapshots have expired, there may be none"

    def __init__(self, state: Json) -> None:
        """An empty state suffices where no rows are read."""
        self._state = state
        self._specs = {spec["spec-id"]: spec for spec in state.get("specs") or ()}

    def path(self, entry: Entry) -> str:
        return str(entry["path"])

    def vector(self, entry: Entry) -> Vector | None:
        """All delete files of the data file."""
        deletes: Sequence[Entry] = entry.get("deletes") or ()
        for delete in deletes:
            if delete["content"] != _POSITION_DELETES or delete["format"] not in (_PUFFIN, "PARQUET"):
                raise ConnectError(
                    f"the table has {delete['content'].lower().replace('_', ' ')} in {delete['path']} ({delete['format']}), "
                    "which are not supported; rewrite the data files with Spark (CALL <catalog>.system.rewrite_data_files with "
                    "'delete-file-threshold' => '1'), then restart the task"
                )
        # A deletion vector replaces all other deletes of its file.
        vectors = [delete for delete in deletes if delete["format"] == _PUFFIN]
        return {"deletes": vectors or list(deletes), "path": entry["path"]} if deletes else None

    def describe(self, number: int, entry: Entry) -> LiveFile:
        if entry["format"] != "PARQUET":
            raise ConnectError(
                f"the data file {entry['path']} has the format {entry['format']}, which is not supported; rewrite the data files "
                "as Parquet with Spark (CALL <catalog>.system.rewrite_data_files), then restart the task"
            )
        return LiveFile(
            number,
            {k: v for k, v in entry.items() if k != "deletes"},
            str(entry["path"]),
            int(entry["size"]),
            int(entry["rows"]),
            created=int(entry.get("sequence", 0)),
            values=identity_values(list(map(_binary, entry["partition"])), self._specs.get(entry["spec"], {})),
            partition=(entry["spec"], json.dumps(entry["partition"])),
        )

    def location(self, path: str) -> str:
        return path_in_file_system(path)

    def read_vector(self, files: fs.FileSystem, vector: Vector, read: dict[str, bytes]) -> Rows:
        parts = [np.empty(0, np.int64)]
        for delete in vector["deletes"]:
            path = self.location(delete["path"])
            with reading(path, self.restore_hint):
                if path not in read:
                    with files.open_input_file(path) as file:
                        read[path] = bytes(file.read())
                if delete["format"] == _PUFFIN:
                    parts.append(puffin.read_vector(read[path], delete["offset"], delete["length"], delete["rows"]))
                else:
                    parts.append(_positions(read[path], vector["path"]))
        return np.unique(np.concatenate(parts))

    def columns(self, types: Mapping[str, pa.DataType]) -> FileColumns:
        return self._columns.only(types)

    @cached_property
    def _columns(self) -> FileColumns:
        """All columns of the schema, and those of row lineage."""
        found = file_columns(self._state["schema"]["fields"], self._state["properties"])
        lineage = (FileColumn(name, type_, LINEAGE_FIELDS[name]) for name, type_ in LINEAGE.items())
        return FileColumns((*found.columns, *lineage), found.lookup)


def _binary(value: str | None) -> BinaryValue | None:
    """A value of a partition, which comes in hexadecimal."""
    return None if value is None else BinaryValue(bytes.fromhex(value))


def _positions(content: bytes, path: str) -> Rows:
    """The deleted rows of a data file in a file of position deletes."""
    table = pq.read_table(pa.BufferReader(content), columns=["file_path", "pos"], filters=[("file_path", "=", path)])
    found: Rows = table["pos"].to_numpy()
    return found


def vector_entry(file: LiveFile, path: str, size: int, place: tuple[int, int], count: int) -> dict[str, Any]:
    """The delete file of a deletion vector at this place of a Puffin file."""
    return {
        "path": path,
        "content": _POSITION_DELETES,
        "format": _PUFFIN,
        "size": size,
        "rows": count,
        "spec": file.entry["spec"],
        "partition": file.entry["partition"],
        "of": file.path,
        "offset": place[0],
        "length": place[1],
    }


def replaced_deletes(file: LiveFile) -> list[Entry]:
    """The delete files of a data file that belong to it alone, so that a deletion vector or its removal replaces them."""
    return [] if file.vector is None else [delete for delete in file.vector["deletes"] if delete.get("of") == file.path]
