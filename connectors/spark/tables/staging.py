"""Files between the task and Spark: Parquet beside the tables, gone as soon as a table has them."""

from __future__ import annotations

import contextlib
import re
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from connect.errors import ConnectError

FOLDER = ".sluice-staging"


class Staging:
    """The staging folder of one task: ``<table.location>/.sluice-staging/<connector>-<task>``.

    Only its task writes there, so what it finds when it starts is left from a crash, and goes.
    """

    def __init__(self, location: str, owner: str) -> None:
        self._files, root = open_location(location)
        safe = re.sub(r"[^A-Za-z0-9_.-]", "_", owner)
        self._folder = f"{root}/{FOLDER}/{safe}"
        self._uri = f"{location}/{FOLDER}/{safe}"

    def clear(self) -> None:
        """Removes what a crash left, and the folder."""
        with contextlib.suppress(FileNotFoundError):
            self._files.delete_dir(self._folder)
        parent = self._folder.rpartition("/")[0]
        with contextlib.suppress(OSError):  # another task's folder may be in it
            if not self._files.get_file_info(fs.FileSelector(parent, allow_not_found=True)):
                self._files.delete_dir(parent)

    def write(self, rows: pa.Table) -> StagedFile:
        """Writes one file. The rows are read once, at once, and locally as a rule: no compression, no dictionaries."""
        name = f"{uuid.uuid4().hex}.parquet"
        try:
            self._files.create_dir(self._folder, recursive=True)
            with self._files.open_output_stream(f"{self._folder}/{name}") as stream:
                pq.write_table(
                    rows, stream, compression="lz4", use_dictionary=False, write_statistics=False, row_group_size=256 * 1024
                )
        except OSError as e:
            raise ConnectError(f"nothing can be staged in {self._uri}: {e}") from e
        return StagedFile(self._files, f"{self._folder}/{name}", f"{self._uri}/{name}")


def list_tables(location: str) -> list[str]:
    """Names of the folders below a location in which a Delta table lies."""
    files, root = open_location(location)
    folders = [i for i in files.get_file_info(fs.FileSelector(root, allow_not_found=True)) if i.type == fs.FileType.Directory]
    logs = files.get_file_info([f"{i.path}/_delta_log" for i in folders])
    return sorted(i.base_name for i, found in zip(folders, logs, strict=True) if found.type == fs.FileType.Directory)


class StagedFile:
    """A staged file; ``uri`` is where Spark finds it. Used in a with block, it is gone afterwards."""

    def __init__(self, files: fs.FileSystem, path: str, uri: str) -> None:
        self._files = files
        self._path = path
        self.uri = uri

    def __enter__(self) -> StagedFile:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._files.delete_file(self._path)


def open_location(location: str) -> tuple[fs.FileSystem, str]:
    """The file system and the path in it of a directory or URI. Raises ConnectError for one that Arrow cannot open."""
    try:
        if "://" in location or location.startswith("file:"):
            files, path = fs.FileSystem.from_uri(location)
            return files, path
    except (pa.ArrowException, ValueError, OSError) as e:
        raise ConnectError(f"table.location {location} cannot be opened: {e}") from e
    return fs.LocalFileSystem(), location
