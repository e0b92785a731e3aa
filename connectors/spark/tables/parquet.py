"""An append-only directory of Parquet files, written without Spark and without a log.

Each file's footer carries its commit; a rename makes the file visible.
"""

from __future__ import annotations

import base64
import contextlib
import uuid
from collections.abc import Collection

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from connect.errors import ConnectError
from connect.record import TopicPartition
from connectors.spark.plan.evolution import Columns, with_additions
from connectors.spark.tables.committed_offsets import CommittedOffsets, TableCommit, parse_commit
from connectors.spark.tables.staging import open_location

_KEY = b"sluice"
_COLUMNS_KEY = b"sluice.columns"
_FOOTERS = 100
_PREFIX = "sluice-"
_DRAFT = "."


class ParquetTable:
    """One directory. Files are named ``sluice-<connector>-<sequence>-<unique>.parquet``, so the newest sorts last."""

    def __init__(self, path: str, connector: str) -> None:
        self._files, self.path = open_location(path)
        self._connector = connector
        self._stem = f"{_PREFIX}{connector.replace('/', '_')}-"
        self._known: Columns = {}

    def columns(self) -> Columns | None:
        """The columns of all files, each with the type that it had first; None when there are no files.

        A file's footer lists all columns that its task knew, including those of earlier files. So one recent footer per task is
        enough, and more footers are read than there are tasks.
        """
        found: Columns = {}
        for name in self._own_files()[:_FOOTERS]:
            with self._files.open_input_file(f"{self.path}/{name}") as file:
                schema = pq.read_schema(file)
            listed = (schema.metadata or {}).get(_COLUMNS_KEY)
            if listed is not None:
                found = with_additions(found, _columns(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(listed)))))
            found = with_additions(found, _columns(schema))
        self._known = with_additions(found, self._known)
        return found or None

    def committed_offsets(self, partitions: Collection[TopicPartition]) -> CommittedOffsets:
        committed_offsets = CommittedOffsets()
        for name in self._own_files():
            with self._files.open_input_file(f"{self.path}/{name}") as file:
                metadata = pq.read_metadata(file).metadata or {}
            commit = parse_commit((metadata.get(_KEY) or b"").decode())
            if commit is not None and commit.connector == self._connector:
                committed_offsets.add_older_commit(commit)
            if committed_offsets.covers(partitions):
                break
        return committed_offsets

    def append(self, rows: pa.Table, commit: TableCommit) -> int:
        """Adds one file, atomically."""
        name = f"{self._stem}{commit.sequence:020d}-{uuid.uuid4().hex[:8]}.parquet"
        draft = f"{self.path}/{_DRAFT}{name}"
        known = with_additions(self._known, _columns(rows.schema))
        listed = base64.b64encode(pa.schema(list(known.items())).serialize())
        described = rows.replace_schema_metadata({_KEY: commit.to_json(), _COLUMNS_KEY: listed})
        try:
            self._files.create_dir(self.path, recursive=True)
            with self._files.open_output_stream(draft) as stream:
                pq.write_table(described, stream, compression="zstd")
            self._files.move(draft, f"{self.path}/{name}")
        except OSError as e:
            raise ConnectError(f"cannot write to {self.path}: {e}") from e
        self._known = known
        return commit.sequence

    def delete_drafts(self) -> None:
        """Removes incomplete files that a crash left behind."""
        for info in self._files.get_file_info(fs.FileSelector(self.path, allow_not_found=True)):
            if info.base_name.startswith(_DRAFT + self._stem):
                with contextlib.suppress(OSError):
                    self._files.delete_file(info.path)

    def _own_files(self) -> list[str]:
        """This connector's files, newest first."""
        found = self._files.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        return sorted((i.base_name for i in found if i.base_name.startswith(self._stem)), reverse=True)


def _columns(schema: pa.Schema) -> Columns:
    return {f.name: f.type for f in schema}
