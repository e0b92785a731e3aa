"""A plain directory of Parquet files that only grows. No Spark is needed to write it, and no log says what is in it:
each file's footer carries its commit, and a file appears by one rename."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Collection

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from connect.errors import ConnectError
from connect.record import TopicPartition
from connectors.spark.evolution import Columns
from connectors.spark.ledger import Commit, Ledger, read_commit
from connectors.spark.staging import open_location

_KEY = b"sluice"
_PREFIX = "sluice-"
_DRAFT = "."


class ParquetTable:
    """One directory. Files are named ``sluice-<connector>-<sequence>-<unique>.parquet``, so the newest sorts last."""

    def __init__(self, path: str, connector: str) -> None:
        self._files, self.path = open_location(path)
        self._connector = connector
        self._stem = f"{_PREFIX}{connector.replace('/', '_')}-"

    def columns(self) -> Columns | None:
        """The columns of all files by the newest that has each; None when there are no files."""
        found: Columns = {}
        names = self._own_files()
        # The newest file alone would do for names; older ones may hold columns that are gone from the source since.
        for name in names[:1]:
            schema = pq.read_schema(self._files.open_input_file(f"{self.path}/{name}"))
            found |= {f.name: f.type for f in schema}
        return found or None

    def ledger(self, partitions: Collection[TopicPartition]) -> Ledger:
        ledger = Ledger()
        for name in self._own_files():
            with self._files.open_input_file(f"{self.path}/{name}") as file:
                metadata = pq.read_metadata(file).metadata or {}
            commit = read_commit((metadata.get(_KEY) or b"").decode())
            if commit is not None and commit.connector == self._connector:
                ledger.read_back(commit)
            if ledger.knows(partitions):
                break
        return ledger

    def append(self, rows: pa.Table, commit: Commit) -> int:
        """Adds one file. It is there whole or not at all."""
        name = f"{self._stem}{commit.sequence:020d}-{uuid.uuid4().hex[:8]}.parquet"
        draft = f"{self.path}/{_DRAFT}{name}"
        try:
            self._files.create_dir(self.path, recursive=True)
            with self._files.open_output_stream(draft) as stream:
                pq.write_table(rows.replace_schema_metadata({_KEY: commit.to_json()}), stream, compression="zstd")
            self._files.move(draft, f"{self.path}/{name}")
        except OSError as e:
            raise ConnectError(f"nothing can be written to {self.path}: {e}") from e
        return commit.sequence

    def clear_drafts(self) -> None:
        """Removes what a crash left half written."""
        for info in self._files.get_file_info(fs.FileSelector(self.path, allow_not_found=True)):
            if info.base_name.startswith(_DRAFT + self._stem):
                with contextlib.suppress(OSError):
                    self._files.delete_file(info.path)

    def _own_files(self) -> list[str]:
        """This connector's files, the newest first."""
        found = self._files.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        return sorted((i.base_name for i in found if i.base_name.startswith(self._stem)), reverse=True)
