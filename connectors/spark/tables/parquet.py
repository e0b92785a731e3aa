"""A plain directory of Parquet files that only grows. No Spark is needed to write it, and no log says what is in it:
each file's footer carries its commit, and a file appears by one rename."""

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
from connectors.spark.tables.committed_offsets import Commit, Ledger, read_commit
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
        """The columns of all files, each in the type it has had all along; None when there are no files.

        A file's footer lists the columns that its task knew of, those of earlier files too, so that the newest footers tell of
        all: one a task would do, and more are read than there are tasks.
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
        known = with_additions(self._known, _columns(rows.schema))
        listed = base64.b64encode(pa.schema(list(known.items())).serialize())
        described = rows.replace_schema_metadata({_KEY: commit.to_json(), _COLUMNS_KEY: listed})
        try:
            self._files.create_dir(self.path, recursive=True)
            with self._files.open_output_stream(draft) as stream:
                pq.write_table(described, stream, compression="zstd")
            self._files.move(draft, f"{self.path}/{name}")
        except OSError as e:
            raise ConnectError(f"nothing can be written to {self.path}: {e}") from e
        self._known = known
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


def _columns(schema: pa.Schema) -> Columns:
    return {f.name: f.type for f in schema}
