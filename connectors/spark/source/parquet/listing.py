"""Lists the data files of a directory and of its subdirectories, one at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import unquote

from pyarrow import fs

from connectors.spark.source.errors import TableAbsentError
from connectors.spark.source.parquet.positions import ListedFile
from connectors.spark.source.similar_folders import similar_folder

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_NS_PER_MS = 1_000_000


def list_files(files: fs.FileSystem, folder: str, location: str) -> Iterator[ListedFile]:
    """Yields the files below a folder in no order, without empty and hidden ones. Raises TableAbsentError if there is no folder.

    Hidden are files and folders whose names start with ``_`` or ``.``, except partitions such as ``_day=1``, and files that
    Hadoop is copying. An empty file is one that its writer has only created yet.
    """
    if isinstance(files, fs.LocalFileSystem):
        try:
            yield from _list_local(folder, "")
        except (FileNotFoundError, NotADirectoryError) as e:
            raise TableAbsentError(f"there is no directory {location}{similar_folder(files, folder)}") from e
        return
    if files.get_file_info([folder])[0].type is not fs.FileType.Directory:
        raise TableAbsentError(f"there is no directory {location}{similar_folder(files, folder)}")
    start = len(folder) + 1
    for info in files.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True)):
        name = info.path[start:]
        if info.type is fs.FileType.File and info.size and not any(map(_is_hidden, name.split("/"))):
            yield ListedFile((info.mtime_ns or 0) // _NS_PER_MS, name, info.size)


def find_file(files: fs.FileSystem, folder: str, name: str) -> ListedFile | None:
    """A file as it is now; None if there is none."""
    info = files.get_file_info([f"{folder}/{name}"])[0]
    if info.type is not fs.FileType.File:
        return None
    return ListedFile((info.mtime_ns or 0) // _NS_PER_MS, name, info.size)


def is_unchanged(listed: ListedFile, found: ListedFile) -> bool:
    """Whether a file is as it was listed. Object stores may say the seconds only when they are asked for one file."""
    if listed.size_bytes != found.size_bytes:
        return False
    times = (listed.modified_ms, found.modified_ms)
    return times[0] == times[1] or (times[0] // 1000 == times[1] // 1000 and any(ms % 1000 == 0 for ms in times))


def partition_values(name: str) -> dict[str, str | None]:
    """The values in the folders of a file's name, such as ``day=2026-01-02/part-0.parquet``."""
    found: dict[str, str | None] = {}
    for part in name.split("/")[:-1]:
        column, sign, value = part.partition("=")
        if sign and column:
            found[unquote(column)] = None if value == _NULL_PARTITION else unquote(value)
    return found


def _list_local(folder: str, inside: str) -> Iterator[ListedFile]:
    # Arrow lists a whole folder at once; this needs no memory for files that are done.
    with os.scandir(f"{folder}/{inside}") as entries:
        for entry in entries:
            if _is_hidden(entry.name):
                continue
            name = f"{inside}{entry.name}"
            try:
                if entry.is_dir():
                    yield from _list_local(folder, f"{name}/")
                    continue
                found = entry.stat()
            except FileNotFoundError:
                continue  # it was removed, or is a link to nothing
            if found.st_size:
                yield ListedFile(found.st_mtime_ns // _NS_PER_MS, name, found.st_size)


def _is_hidden(name: str) -> bool:
    return (name[0] == "_" and "=" not in name) or name[0] == "." or name.endswith("._COPYING_")
