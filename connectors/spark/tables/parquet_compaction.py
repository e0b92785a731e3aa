"""Merges small files of a Parquet table, beside its tasks."""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from connect import crash_points
from connect.errors import DataError, SchemaError
from connectors.spark.plan.evolution import Columns, cast_column
from connectors.spark.tables.files.file_writer import bounded_columns
from connectors.spark.tables.parquet_files import SUFFIX, TableFile, TableFiles, is_table_file
from connectors.spark.tables.parquet_manifest import FileSwap, Manifest

log = logging.getLogger(__name__)

_MAX_FILES = 200
"""Per merged file: readers see rows twice while this many files are deleted."""
_BATCH_ROWS = 64 << 10
_ROW_GROUP_BYTES = 64 << 20
_ROW_GROUP_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The number and size of files that were merged, and of the files that replaced them."""

    merged_files: int = 0
    merged_bytes: int = 0
    new_files: int = 0
    new_bytes: int = 0


class ParquetCompaction:
    """One run over one table. It holds no lock: a commit meanwhile only costs another attempt to add the entry.

    A merged file is committed like any other: a draft, an entry of the manifest, a rename, and then the merged files are deleted.
    A reader that lists the directory between the rename and the last deletion sees rows twice; one that opens a file that it
    listed before fails. The other order would hide rows, and lose them if the directory were copied at that moment. After a
    crash, the next task, or the next run, finishes the deletions.
    """

    def __init__(
        self, files: TableFiles, path: str, task: str, drafts_folder: str, target_file_bytes: int, min_files: int
    ) -> None:
        self._files = files
        self._path = path
        self._task = task
        self._drafts_folder = drafts_folder
        self._target_file_bytes = target_file_bytes
        self._min_files = min_files
        self._manifest = Manifest(files, path)

    def run(self) -> CompactionResult:
        """Merges all groups that are worth it. Raises ConnectError and OSError; what was merged until then stays."""
        entry = self._manifest.refresh()
        if entry is None:
            return CompactionResult()
        # On an object store, a copy of the newest file that another process has begun could still create it again.
        newest = None if entry.swap is None else entry.swap.name
        candidates = [f for f in self._files.files_in("") if is_table_file(f.name) and f.name != newest]
        total = CompactionResult()
        for group in plan_groups(candidates, self._target_file_bytes, self._min_files):
            merged_bytes = self._merge(group)
            if merged_bytes is not None:
                total = CompactionResult(
                    total.merged_files + len(group),
                    total.merged_bytes + sum(f.size_bytes for f in group),
                    total.new_files + 1,
                    total.new_bytes + merged_bytes,
                )
        return total

    def _merge(self, group: Sequence[TableFile]) -> int | None:
        """Replaces the files by one and returns its size; None if that is impossible or another process did it."""
        entry = self._manifest.newest
        assert entry is not None
        epoch = entry.state.epochs.get(self._task, 0)
        draft = f"{self._drafts_folder}/{epoch:010d}-{uuid.uuid4().hex}.draft"
        try:
            merged_rows = self._write(draft, [f.name for f in group], entry.state.columns)
        except FileNotFoundError:
            self._delete_draft(draft)
            return None  # merged by another process
        except (DataError, SchemaError, pa.ArrowException) as e:
            log.warning("Files of %s cannot be merged: %s", self._path, e)
            self._delete_draft(draft)
            return None
        except BaseException:
            self._delete_draft(draft)
            raise
        crash_points.point("parquet.merged")
        # Sorts like the newest of the files, so rows of a connector stay in order.
        name = f"{group[-1].name.removesuffix(SUFFIX).rpartition('-')[0]}-{uuid.uuid4().hex[:8]}{SUFFIX}"
        swap = FileSwap(draft, name, tuple(f.name for f in group))
        while True:
            added = self._manifest.add(entry.state, swap, {"merged_files": len(group), "merged_rows": merged_rows})
            if added is not None:
                return next((f.size_bytes for f in self._files.files_in("") if f.name == name), 0)
            entry = self._manifest.newest
            present = {f.name for f in self._files.files_in("")}
            if entry is None or entry.state.epochs.get(self._task, 0) != epoch or not present.issuperset(swap.replaced):
                self._delete_draft(draft)
                return None

    def _write(self, draft: str, names: Sequence[str], columns: Columns) -> list[int]:
        """Returns the number of rows of each file."""
        found: set[str] = set()
        merged_rows = []
        for name in names:
            with self._files.open_input(name) as file:
                metadata = pq.read_metadata(file)
                found.update(metadata.schema.to_arrow_schema().names)
                merged_rows.append(metadata.num_rows)
        schema = pa.schema([(n, t) for n, t in columns.items() if n in found])
        if found - set(schema.names):
            raise SchemaError(f"the manifest lacks the columns {', '.join(sorted(found - set(schema.names)))}")
        options = {"compression": "zstd", "write_statistics": bounded_columns(schema, None)}
        with self._files.open_output(draft) as stream, pq.ParquetWriter(stream, schema, **options) as writer:
            held: list[pa.Table] = []
            for part in self._parts(names, schema):
                held.append(part)
                if sum(p.nbytes for p in held) >= _ROW_GROUP_BYTES or sum(p.num_rows for p in held) >= _ROW_GROUP_ROWS:
                    writer.write_table(pa.concat_tables(held))
                    held = []
            if held:
                writer.write_table(pa.concat_tables(held))
        return merged_rows

    def _parts(self, names: Sequence[str], schema: pa.Schema) -> Iterator[pa.Table]:
        for name in names:
            with self._files.open_input(name) as file, pq.ParquetFile(file) as source:
                for batch in source.iter_batches(_BATCH_ROWS):
                    rows = pa.Table.from_batches([batch])
                    arrays = [
                        cast_column(rows[f.name], f.type, f.name) if f.name in rows.column_names else pa.nulls(len(rows), f.type)
                        for f in schema
                    ]
                    yield pa.table(arrays, schema=schema)

    def _delete_draft(self, draft: str) -> None:
        with contextlib.suppress(OSError):
            self._files.delete(draft)


def plan_groups(files: Sequence[TableFile], target_bytes: int, min_files: int) -> list[list[TableFile]]:
    """Groups small files to merge, in the order of their names.

    A group is at least ``min_files`` files, or enough for a file of the target size. None of its files is larger than all others
    together, unless the result has the target size, so no row is rewritten more often than the table doubles.
    """
    groups: list[list[TableFile]] = []
    group: list[TableFile] = []
    size = 0
    for file in sorted((f for f in files if f.size_bytes < target_bytes // 2), key=lambda f: f.name):
        group.append(file)
        size += file.size_bytes
        if size >= target_bytes or len(group) == _MAX_FILES:
            groups.append(group)
            group, size = [], 0
    groups.append(group)
    found = (group if _size(group) >= target_bytes else _without_large_files(group) for group in groups)
    return [group for group in found if len(group) > 1 and (len(group) >= min_files or _size(group) >= target_bytes)]


def _size(group: Sequence[TableFile]) -> int:
    return sum(f.size_bytes for f in group)


def _without_large_files(group: list[TableFile]) -> list[TableFile]:
    while group and (largest := max(group, key=lambda f: f.size_bytes)).size_bytes * 2 > _size(group):
        group = [f for f in group if f is not largest]
    return group
