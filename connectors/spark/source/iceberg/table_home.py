"""Where the newest metadata of an Iceberg table is; of a table in a directory, by the number in the file's name."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from pyarrow import fs

from connect.errors import ConfigError, ConnectError
from connectors.spark.source.errors import TableAbsentError
from connectors.spark.source.iceberg.metadata import Json, TableMetadata, parse_metadata
from connectors.spark.source.similar_folders import similar_folder

_METADATA = re.compile(r"v(\d+)(\.gz)?\.metadata\.json(\.gz)?")
_OF_CATALOG = re.compile(r"\d+-[0-9a-fA-F-]{36}(\.gz)?\.metadata\.json(\.gz)?")
_ENDINGS = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")


class TableHome(Protocol):
    """Where a table's metadata is found."""

    def read(self) -> tuple[Json, str]:
        """The content of the newest metadata file, of any format version, and its location. Raises TableAbsentError."""
        ...

    def load(self) -> tuple[TableMetadata, fs.FileSystem]:
        """The newest metadata, and the file system of the table's files. Raises TableAbsentError."""
        ...

    def has_changed(self, known: TableMetadata) -> bool:
        """Whether there may be newer metadata, or the table was replaced."""
        ...


@dataclass(frozen=True, slots=True)
class TableDirectory:
    """A table in a directory with numbered metadata files, as Hadoop catalogs and tables by path have."""

    files: fs.FileSystem
    folder: str
    location: str
    """Names the table in messages."""

    def read(self) -> tuple[Json, str]:
        path = self._newest()
        try:
            with self.files.open_input_file(path) as stream:
                content = bytes(stream.read())
            return json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content), path
        except (ValueError, gzip.BadGzipFile) as e:
            raise self._unreadable(path, e) from e

    def load(self) -> tuple[TableMetadata, fs.FileSystem]:
        content, path = self.read()
        try:
            return parse_metadata(content, path, self.location), self.files
        except (ValueError, KeyError, TypeError) as e:
            raise self._unreadable(path, e) from e

    def _unreadable(self, path: str, error: Exception) -> ConnectError:
        return ConnectError(
            f"the metadata {path} of table {self.location} cannot be read: {error}. Restore the file from a backup"
        )

    def has_changed(self, known: TableMetadata) -> bool:
        match = _METADATA.fullmatch(PurePosixPath(known.source).name)
        assert match is not None, "it was found by such a name"
        version = int(match[1])
        return self._find(version + 1) is not None or self._find(version) is None

    def _newest(self) -> str:
        version = self._hinted_version()
        path = None if version is None else self._find(version)
        if version is None or path is None:
            return self._listed()
        # Writers change the hint after their commit, and some readers before them.
        while (later := self._find(version + 1)) is not None:
            version, path = version + 1, later
        return path

    def _hinted_version(self) -> int | None:
        try:
            with self.files.open_input_file(f"{self.folder}/metadata/version-hint.text") as stream:
                return int(stream.read())
        except (FileNotFoundError, ValueError):
            return None

    def _find(self, version: int) -> str | None:
        paths = [f"{self.folder}/metadata/v{version}{ending}" for ending in _ENDINGS]
        return next((str(info.path) for info in self.files.get_file_info(paths) if info.type is fs.FileType.File), None)

    def _listed(self) -> str:
        infos = self.files.get_file_info(fs.FileSelector(f"{self.folder}/metadata", allow_not_found=True))
        found = [(int(match[1]), str(info.path)) for info in infos if (match := _METADATA.fullmatch(info.base_name))]
        if found:
            return max(found)[1]
        if any(_OF_CATALOG.fullmatch(info.base_name) for info in infos):
            raise ConfigError(
                f"the Iceberg table at {self.location} belongs to a catalog, which knows its newest metadata: set table.catalog "
                "and source.table instead of source.location",
                key="source.location",
            )
        raise TableAbsentError(f"there is no Iceberg table at {self.location}{similar_folder(self.files, self.folder)}")
