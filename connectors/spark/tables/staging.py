"""Staging files: Parquet files that the task writes and Spark reads, deleted after the table commit."""

from __future__ import annotations

import contextlib
import re
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.errors import explain
from connectors.spark.plan.stored_variants import for_file
from connectors.spark.s3_settings import S3Settings, is_s3

FOLDER = ".sluice-staging"


class Staging:
    """The staging folder of one task: ``<table.location>/.sluice-staging/<connector>-<task>``.

    Only its task writes there; files that exist at its start are left from a crash and are deleted.
    """

    def __init__(self, location: str, owner: str, s3: S3Settings | None = None) -> None:
        self.s3 = s3
        self._files, root = open_location(location, s3)
        safe = re.sub(r"[^A-Za-z0-9_.-]", "_", owner)
        self._folder = f"{root}/{FOLDER}/{safe}"
        self._uri = f"{location}/{FOLDER}/{safe}"

    def clear(self) -> None:
        """Removes the folder with files that a crash left behind."""
        try:
            with contextlib.suppress(FileNotFoundError):
                self._files.delete_dir(self._folder)
        except OSError as e:
            raise explain(e, f"cannot clear the staging folder {self._uri}") from e
        parent = self._folder.rpartition("/")[0]
        with contextlib.suppress(OSError):  # it may contain another task's folder
            if not self._files.get_file_info(fs.FileSelector(parent, allow_not_found=True)):
                self._files.delete_dir(parent)

    def write(self, rows: pa.Table) -> StagedFile:
        """Writes one file. It is read once, soon, and usually locally: cheap compression, no dictionaries."""
        name = f"{uuid.uuid4().hex}.parquet"
        try:
            self._files.create_dir(self._folder, recursive=True)
            with self._files.open_output_stream(f"{self._folder}/{name}") as stream:
                options = {"use_dictionary": False, "write_statistics": False, "row_group_size": 256 * 1024}
                pq.write_table(for_file(rows), stream, compression="lz4", **options)
        except OSError as e:
            self._delete(name)
            raise explain(e, f"cannot write staging files to {self._uri}") from e
        return StagedFile(self._files, f"{self._folder}/{name}", f"{self._uri}/{name}")

    def _delete(self, name: str) -> None:
        with contextlib.suppress(OSError):
            self._files.delete_file(f"{self._folder}/{name}")


class StagedFile:
    """A staged file at ``uri``. A with block deletes it at its end."""

    def __init__(self, files: fs.FileSystem, path: str, uri: str) -> None:
        self._files = files
        self._path = path
        self.uri = uri

    def __enter__(self) -> StagedFile:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._files.delete_file(self._path)


def open_location(location: str, s3: S3Settings | None = None, key: str = "table.location") -> tuple[fs.FileSystem, str]:
    """The Arrow file system and path of a directory or URI. Raises ConnectError, which names the config key, when Arrow cannot
    open it.

    Spark knows S3 as ``s3a://``, Arrow as ``s3://``; both are accepted. Without settings, Arrow finds them in the environment.
    """
    try:
        if s3 is not None and is_s3(location):
            path = location.partition("://")[2]
            return _open_s3(s3, path.partition("/")[0]), path
        if "://" in location or location.startswith("file:"):
            files, path = fs.FileSystem.from_uri(re.sub(r"^s3[an]://", "s3://", location))
            return files, path
    except (pa.ArrowException, ValueError, OSError) as e:
        raise ConnectError(f"{key} {location} cannot be opened: {e}") from e
    return fs.LocalFileSystem(), location


def path_in_file_system(uri: str) -> str:
    """The path of a file in Arrow's file systems, from its path or URI."""
    if "://" in uri and not uri.startswith("file:"):
        return uri.split("://", 1)[1]
    return "/" + uri.removeprefix("file:").lstrip("/") if uri.startswith("file:") else uri


def local_folder(location: str) -> str | None:
    """The path of a location on this machine's file system; None for an object store."""
    if is_s3(location):
        return None
    files, path = open_location(location)
    return path if isinstance(files, fs.LocalFileSystem) else None


def _open_s3(s3: S3Settings, bucket: str) -> fs.S3FileSystem:
    region = s3.region or (None if s3.endpoint else fs.resolve_s3_region(bucket))
    scheme, _, host = s3.endpoint.rpartition("://")
    return fs.S3FileSystem(
        access_key=s3.access_key or None,
        secret_key=s3.secret_key or None,
        session_token=s3.session_token or None,
        region=region,
        scheme=scheme or None,
        endpoint_override=host or None,
        # Without a multipart upload for each small file.
        allow_delayed_open=True,
        force_virtual_addressing=bool(host) and not s3.path_style,
    )
