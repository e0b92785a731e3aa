"""Reads the manifest of a Parquet table that the sink writes: its commits, and where their rows are.

A commit's rows stay in their order, but not in their file: compaction merges files. Its entries say which files it has merged,
and how many rows each had, so the rows of each commit are found in the merged file. Nothing is written, unlike by
:class:`connectors.spark.tables.parquet_manifest.Manifest`: an entry whose change of files is unfinished counts as finished.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.source.errors import VersionGapError
from connectors.spark.tables.parquet_files import is_table_file
from connectors.spark.tables.parquet_manifest import ENTRIES, FOLDER, ManifestEntry, entry_name, entry_number, parse_entry


@dataclass(frozen=True, slots=True)
class RowSlice:
    """Rows of one file: ``rows`` from ``start`` on; all rows if ``rows`` is None."""

    file: str
    start: int = 0
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class ListedEntries:
    """The numbers of the entries that exist, and when they were written."""

    modified_ms: Mapping[int, int]

    @property
    def newest(self) -> int:
        """The newest number; 0 without entries."""
        return max(self.modified_ms, default=0)

    @property
    def oldest(self) -> int:
        """The oldest number; 1 without entries."""
        return min(self.modified_ms, default=1)


class SinkManifestReader:
    """The manifest of the table at ``folder`` of a file system. Keeps the entries that it has read."""

    def __init__(self, files: fs.FileSystem, folder: str, location: str) -> None:
        self._files = files
        self._folder = folder
        self._location = location
        self._entries: dict[int, ManifestEntry] = {}

    def list_entries(self) -> ListedEntries:
        """Lists the entries. Raises OSError."""
        found = {}
        for info in self._files.get_file_info(fs.FileSelector(f"{self._folder}/{ENTRIES}", allow_not_found=True)):
            number = entry_number(f"{ENTRIES}/{info.base_name}")
            if number is not None and info.type is fs.FileType.File:
                found[number] = (info.mtime_ns or 0) // 1_000_000
        return ListedEntries(found)

    def forget_before(self, number: int) -> None:
        """Drops entries that are not needed any more."""
        for old in [one for one in self._entries if one < number]:
            del self._entries[old]

    def entry(self, number: int) -> ManifestEntry:
        """An entry. Raises VersionGapError if it does not exist any more, ConnectError if it is damaged."""
        if number not in self._entries:
            name = entry_name(number)
            try:
                with self._files.open_input_file(f"{self._folder}/{name}") as file:
                    self._entries[number] = parse_entry(file.read())
            except FileNotFoundError as e:
                listed = self.list_entries()
                raise VersionGapError(
                    f"the manifest of table {self._location} no longer has version {number}",
                    oldest=listed.oldest,
                    newest=listed.newest,
                ) from e
            except ValueError as e:
                raise ConnectError(f"{self._location}/{name} cannot be read: {e}. Restore the file from a backup") from e
        return self._entries[number]

    def files_at(self, number: int) -> list[str]:
        """The names of the table's files at a version, sorted. Raises VersionGapError if later entries are missing."""
        first = self.list_entries().newest
        infos = self._files.get_file_info(fs.FileSelector(self._folder))
        names = {info.base_name for info in infos if info.type is fs.FileType.File and is_table_file(info.base_name)}
        newest = self.list_entries().newest
        # Each entry since the listing may have changed files before or after it; repeating a change does no harm.
        for later in range(min(first, number + 1), newest + 1):
            swap = self.entry(later).swap
            if swap is not None:
                names = (names - set(swap.replaced)) | {swap.name}
        for later in range(newest, number, -1):
            swap = self.entry(later).swap
            if swap is not None:
                names = (names - {swap.name}) | set(swap.replaced)
        return sorted(names)

    def find_rows(self, name: str, number: int) -> RowSlice:
        """Where the rows of a file of version ``number`` are now. Raises VersionGapError if that is unknown."""
        found = RowSlice(name)
        newest = self.list_entries().newest
        for later in range(number + 1, newest + 1):
            swap = self.entry(later).swap
            if swap is not None and found.file in swap.replaced:
                found = self._merged(found, self.entry(later))
        return self._unfinished(found, newest)

    def _merged(self, rows: RowSlice, entry: ManifestEntry) -> RowSlice:
        assert entry.swap is not None
        counts: list[int] = entry.description["merged_rows"]
        place = entry.swap.replaced.index(rows.file)
        return RowSlice(entry.swap.name, sum(counts[:place]) + rows.start, counts[place] if rows.rows is None else rows.rows)

    def _unfinished(self, rows: RowSlice, newest: int) -> RowSlice:
        """The rows in the draft, if the newest entry has not renamed it yet."""
        swap = self.entry(newest).swap if newest else None
        if swap is None or swap.name != rows.file:
            return rows
        named, draft = self._files.get_file_info([f"{self._folder}/{name}" for name in (rows.file, swap.draft)])
        if named.type is fs.FileType.File or draft.type is not fs.FileType.File:
            return rows
        return RowSlice(swap.draft, rows.start, rows.rows)


def has_manifest(files: fs.FileSystem, folder: str) -> bool:
    """Whether the directory is a Parquet table of the sink. Raises OSError."""
    return bool(files.get_file_info([f"{folder}/{FOLDER}"])[0].type is fs.FileType.Directory)
