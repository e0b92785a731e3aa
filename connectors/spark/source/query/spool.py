"""A folder for the rows of one query, sorted by Spark and read by the task."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import tempfile
import uuid
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from connectors.spark.s3_settings import S3Settings
from connectors.spark.tables.staging import open_location

_FOLDER = "sluice-spool"


class QuerySpool:
    """``<location>/sluice-spool/<owner>-<host>-<pid>``: only its process writes there."""

    def __init__(self, location: str, owner: str, s3: S3Settings | None) -> None:
        """An empty location is this machine's temporary directory."""
        location = location or tempfile.gettempdir()
        self._files, root = open_location(location, s3, "source.spool.location")
        self._uri = Path(location).as_uri() if isinstance(self._files, fs.LocalFileSystem) and "://" not in location else location
        self._stem = re.sub(r"[^A-Za-z0-9_.-]", "_", f"{owner}-{socket.gethostname()}-")
        self._root = f"{root}/{_FOLDER}"
        self._own = f"{self._stem}{os.getpid()}"

    def remove_abandoned(self) -> None:
        """Removes the folders of processes of this host that have ended."""
        for info in self._files.get_file_info(fs.FileSelector(self._root, allow_not_found=True)):
            pid = info.base_name.removeprefix(self._stem)
            if info.base_name.startswith(self._stem) and pid.isdigit() and not _runs(int(pid)):
                self._remove(info.path)

    def new_folder(self) -> SpooledFolder:
        """The place for one range. Nothing is created yet."""
        name = f"{_FOLDER}/{self._own}/{uuid.uuid4().hex}"
        root = self._root.removesuffix(f"/{_FOLDER}")
        return SpooledFolder(self._files, f"{root}/{name}", f"{self._uri.rstrip('/')}/{name}")

    def remove(self) -> None:
        """Removes the folder of this process."""
        self._remove(f"{self._root}/{self._own}")

    def _remove(self, folder: str) -> None:
        with contextlib.suppress(OSError):
            self._files.delete_dir(folder)


class SpooledFolder:
    """The files of one range at ``uri``, in the order of their names."""

    def __init__(self, files: fs.FileSystem, folder: str, uri: str) -> None:
        self._files = files
        self._folder = folder
        self.uri = uri

    def names(self) -> list[str]:
        """The data files in order. Raises OSError."""
        found = self._files.get_file_info(fs.FileSelector(self._folder, allow_not_found=True))
        return sorted(info.base_name for info in found if info.base_name.startswith("part-"))

    def open(self, name: str) -> pa.NativeFile:
        """Opens a file. Raises OSError."""
        return self._files.open_input_file(f"{self._folder}/{name}")

    def remove(self) -> None:
        """Removes the files."""
        with contextlib.suppress(OSError):
            self._files.delete_dir(self._folder)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
