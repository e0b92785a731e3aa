"""File systems of Parquet tables. Each can create a file only if the name is free, which is what fences commits."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import os
import re
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import fs

from connect import crash_points
from connect.errors import ConnectError
from connectors.spark.errors import explain
from connectors.spark.s3_settings import S3Settings, read_s3_settings
from connectors.spark.tables.parquet.links import FOLDER
from connectors.spark.tables.staging import open_location

_TEMPORARY = re.compile(r"(?:.*/)?\.[0-9a-f]{32}\.tmp")
_PROBE = f"{FOLDER}/probe"
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class TableFiles(Protocol):
    """The files below one table's directory. Names are relative to it; errors are OSError or ConnectError.

    Safe for use from any thread.
    """

    def names_in(self, folder: str) -> list[str]:
        """Lists the files directly in a folder ("" is the table's), in no order; none if the folder does not exist."""

    def open_input(self, name: str) -> pa.NativeFile:
        """Opens a file for reading at any position. Raises FileNotFoundError."""

    def make_folder(self, folder: str) -> None:
        """Creates a folder and those above it, where a file system has folders."""

    def put_if_absent(self, name: str, content: pa.Buffer) -> bool:
        """Creates a file, whole and durable, or returns False if the name is taken; then the file of this name is durable.

        Of any number of processes on any number of machines, exactly one creates it. Raises FileNotFoundError if its folder does
        not exist.
        """

    def delete_temporary_files(self, listed: Iterable[str]) -> None:
        """Deletes what crashes have left among these files. A process that is still writing such a file writes it again."""


def open_table_files(location: str, s3: S3Settings | None = None) -> TableFiles:
    """Opens a table's directory. Raises ConnectError if its file system cannot create a file only if the name is free."""
    s3 = s3 or read_s3_settings({}, location)
    files, root = open_location(location, s3)
    if isinstance(files, fs.LocalFileSystem):
        return LocalTableFiles(root)
    bucket, _, prefix = root.partition("/")
    if s3 is not None:
        return ObjectTableFiles(files, root, _open_s3(files, bucket, s3), prefix)
    if isinstance(files, fs.GcsFileSystem):
        from obstore.store import GCSStore

        return ObjectTableFiles(files, root, GCSStore(bucket), prefix)
    raise ConnectError(
        f"Parquet tables at {location} cannot be guarded against two tasks that write the same records, because the file system "
        f"{files.type_name} has no way to create a file only if it does not exist; use a local or NFS directory, s3://, or gs://"
    )


class LocalTableFiles:
    """A directory of this machine or of a network file system with hard links."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)
        self._files = fs.LocalFileSystem()

    def names_in(self, folder: str) -> list[str]:
        inside = f"{folder}/" if folder else ""
        try:
            with os.scandir(self._root / folder) as entries:
                return [inside + entry.name for entry in entries if entry.is_file()]
        except FileNotFoundError:
            return []

    def open_input(self, name: str) -> pa.NativeFile:
        return self._files.open_input_file(str(self._root / name))

    def make_folder(self, folder: str) -> None:
        (self._root / folder).mkdir(parents=True, exist_ok=True)

    def put_if_absent(self, name: str, content: pa.Buffer) -> bool:
        target = self._root / name
        while (created := self._link_new_file(target, content)) is None:
            pass
        # Also for the file of another writer, which may have died before it did this.
        _sync_folder(target.parent)
        return created

    def _link_new_file(self, target: Path, content: pa.Buffer) -> bool | None:
        """Returns None if another process has deleted the temporary file, which it took for one that a crash left behind."""
        temporary = target.with_name(f".{uuid.uuid4().hex}.tmp")
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            crash_points.point("parquet.linking")
            return self._link(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)

    def _link(self, temporary: Path, target: Path) -> bool | None:
        try:
            # Unlike a rename, a link never replaces a file, and unlike O_EXCL, it shows the whole file at once.
            os.link(temporary, target)
        except FileExistsError:
            return False
        except FileNotFoundError:
            return None
        except OSError as e:
            if e.errno not in _NO_HARD_LINKS:
                raise
            raise ConnectError(
                f"Parquet tables at {self._root} cannot be guarded against two tasks that write the same records, because this "
                f"file system has no hard links ({e.strerror}); use another directory, s3://, or gs://"
            ) from e
        crash_points.point("parquet.linked")
        return True

    def delete_temporary_files(self, listed: Iterable[str]) -> None:
        for name in listed:
            if _TEMPORARY.fullmatch(name):
                with contextlib.suppress(OSError):  # it takes space, and does no harm
                    (self._root / name).unlink()


class ObjectTableFiles:
    """A prefix of a bucket. Arrow reads and writes; obstore has the conditional PUT that Arrow lacks."""

    def __init__(self, files: fs.FileSystem, root: str, store: Any, prefix: str) -> None:
        self._files = files
        self._root = root
        self._store = store
        self._prefix = prefix
        self._is_checked = False

    def names_in(self, folder: str) -> list[str]:
        where = f"{self._root}/{folder}" if folder else self._root
        found = self._files.get_file_info(fs.FileSelector(where, allow_not_found=True))
        inside = f"{folder}/" if folder else ""
        return [f"{inside}{info.base_name}" for info in found if info.type == fs.FileType.File]

    def open_input(self, name: str) -> pa.NativeFile:
        return self._files.open_input_file(f"{self._root}/{name}")

    def make_folder(self, folder: str) -> None:
        """Does nothing: names of objects may have slashes."""

    def put_if_absent(self, name: str, content: pa.Buffer) -> bool:
        if not self._is_checked:
            self._check_condition()
        return self._create(name, content)

    def _check_condition(self) -> None:
        """Raises ConnectError for an S3-compatible server that ignores the condition, and so would replace files of others."""
        if self._create(_PROBE, pa.py_buffer(b"")) and self._create(_PROBE, pa.py_buffer(b"")):
            raise self._unguarded(
                "this object store ignores the condition If-None-Match of a PUT; use another store, or a local directory"
            )
        self._is_checked = True

    def delete_temporary_files(self, listed: Iterable[str]) -> None:
        """Does nothing: a PUT leaves none."""

    def _unguarded(self, why: str) -> ConnectError:
        return ConnectError(
            f"Parquet tables at {self._root} cannot be guarded against two tasks that write the same records, because {why}"
        )

    def _create(self, name: str, content: pa.Buffer) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            obstore.put(self._store, f"{self._prefix}/{name}", memoryview(content).cast("B"), mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        except FileNotFoundError as e:  # there are no folders that could be missing
            raise OSError(f"NO_SUCH_BUCKET: {e}") from e
        except BaseError as e:
            raise explain(e, f"cannot write {self._root}/{name}") from e
        return True


def _open_s3(files: fs.S3FileSystem, bucket: str, s3: S3Settings) -> Any:
    """Opens the bucket with the same settings as Arrow; those that are empty are found in the environment."""
    from obstore.store import S3Store

    given: dict[str, Any] = {
        "region": s3.region or files.region,
        "endpoint": s3.endpoint,
        "access_key_id": s3.access_key,
        "secret_access_key": s3.secret_key,
        "session_token": s3.session_token,
        "conditional_put": "etag",  # whatever AWS_CONDITIONAL_PUT says in the environment
    }
    # Commits are repeated by the task, which can be stopped meanwhile.
    retry: Any = {"max_retries": 3, "retry_timeout": dt.timedelta(seconds=10)}
    return S3Store(
        bucket,
        client_options={"allow_http": s3.endpoint.startswith("http://")},
        retry_config=retry,
        virtual_hosted_style_request=not s3.path_style,
        **{name: value for name, value in given.items() if value},
    )


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
