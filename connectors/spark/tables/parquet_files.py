"""File systems of Parquet tables. Each can create a file only if the name is free, which is what fences commits."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import fs

from connect import crash_points
from connect.errors import ConnectError
from connectors.spark.errors import explain
from connectors.spark.s3_settings import S3Settings, read_s3_settings
from connectors.spark.tables.staging import open_location

PREFIX = "sluice-"
SUFFIX = ".parquet"
_TEMPORARY = ".tmp"
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file in a table's directory; ``name`` is its path below the table."""

    name: str
    size_bytes: int


def is_table_file(name: str) -> bool:
    """Whether the sink has written the file of this name."""
    return name.startswith(PREFIX) and name.endswith(SUFFIX)


class TableFiles(Protocol):
    """The files below one table's directory. Names are relative to it; errors are OSError or ConnectError.

    Safe for use from any thread.
    """

    def files_in(self, folder: str) -> list[TableFile]:
        """Lists the files directly in a folder ("" is the table's), in no order; none if the folder does not exist."""

    def read(self, name: str) -> bytes:
        """Returns the content of a file. Raises FileNotFoundError."""

    def put_if_absent(self, name: str, content: bytes) -> bool:
        """Creates a file, whole and durable, or returns False if the name is taken.

        Of any number of processes on any number of machines, exactly one creates it.
        """

    def open_output(self, name: str) -> contextlib.AbstractContextManager[pa.NativeFile]:
        """Opens a new file for writing. It is durable when the block ends without an error."""

    def open_input(self, name: str) -> pa.NativeFile:
        """Opens a file for reading at any position. Raises FileNotFoundError."""

    def rename(self, source: str, target: str) -> bool:
        """Renames a file; durable on return. Returns False if there is no source."""

    def delete(self, name: str) -> None:
        """Deletes a file if it exists."""


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

    def files_in(self, folder: str) -> list[TableFile]:
        found = self._files.get_file_info(fs.FileSelector(str(self._root / folder), allow_not_found=True))
        inside = f"{folder}/" if folder else ""
        return [TableFile(f"{inside}{i.base_name}", i.size) for i in found if i.type == fs.FileType.File]

    def read(self, name: str) -> bytes:
        return (self._root / name).read_bytes()

    def put_if_absent(self, name: str, content: bytes) -> bool:
        target = self._root / name
        while (created := self._link_new_file(target, content)) is None:
            pass
        if created:
            _sync_folder(target.parent)
        return created

    def _link_new_file(self, target: Path, content: bytes) -> bool | None:
        """Returns None if another process has deleted the temporary file, which it took for one that a crash left behind."""
        temporary = target.with_name(f".{uuid.uuid4().hex}{_TEMPORARY}")
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            crash_points.point("parquet.linking")
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
        finally:
            temporary.unlink(missing_ok=True)
        return True

    @contextlib.contextmanager
    def open_output(self, name: str) -> Iterator[pa.NativeFile]:
        path = self._root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(str(path), "wb") as stream:
            yield stream
        _sync(path, os.O_RDWR)

    def open_input(self, name: str) -> pa.NativeFile:
        return self._files.open_input_file(str(self._root / name))

    def rename(self, source: str, target: str) -> bool:
        try:
            os.rename(self._root / source, self._root / target)
        except FileNotFoundError:
            return False
        _sync_folder((self._root / target).parent)
        return True

    def delete(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)


class ObjectTableFiles:
    """A prefix of a bucket. Arrow reads and writes; obstore has the conditional PUT that Arrow lacks."""

    def __init__(self, files: fs.FileSystem, root: str, store: Any, prefix: str) -> None:
        self._files = files
        self._root = root
        self._store = store
        self._prefix = prefix
        self._is_conditional: bool | None = None

    def files_in(self, folder: str) -> list[TableFile]:
        where = f"{self._root}/{folder}" if folder else self._root
        found = self._files.get_file_info(fs.FileSelector(where, allow_not_found=True))
        inside = f"{folder}/" if folder else ""
        return [TableFile(f"{inside}{i.base_name}", i.size) for i in found if i.type == fs.FileType.File]

    def read(self, name: str) -> bytes:
        with self._files.open_input_stream(f"{self._root}/{name}", compression=None) as stream:
            return bytes(stream.read())

    def put_if_absent(self, name: str, content: bytes) -> bool:
        if not self._create(name, content):
            return False
        if self._is_conditional is None:
            # Some S3-compatible servers ignore the condition. Repeating the same content does no harm.
            self._is_conditional = not self._create(name, content)
        if not self._is_conditional:
            raise self._unguarded(
                "this object store ignores the condition If-None-Match of a PUT; use another store, or a local directory"
            )
        return True

    def _unguarded(self, why: str) -> ConnectError:
        return ConnectError(
            f"Parquet tables at {self._root} cannot be guarded against two tasks that write the same records, because {why}"
        )

    def _create(self, name: str, content: bytes) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError

        try:
            obstore.put(self._store, f"{self._prefix}/{name}", content, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        except NotImplementedError as e:  # what obstore raises for a write that its settings do not allow
            raise self._unguarded(
                "AWS_CONDITIONAL_PUT=disabled in the worker's environment turns conditional writes off; remove it"
            ) from e
        except BaseError as e:
            raise explain(e, f"cannot write {self._root}/{name}") from e
        return True

    @contextlib.contextmanager
    def open_output(self, name: str) -> Iterator[pa.NativeFile]:
        with self._files.open_output_stream(f"{self._root}/{name}", compression=None) as stream:
            yield stream

    def open_input(self, name: str) -> pa.NativeFile:
        return self._files.open_input_file(f"{self._root}/{name}")

    def rename(self, source: str, target: str) -> bool:
        if not self._exists(source):
            return False
        try:
            self._files.move(f"{self._root}/{source}", f"{self._root}/{target}")
        except OSError:
            if not self._exists(source):
                return False  # another process has renamed it at the same time
            raise
        return True

    def delete(self, name: str) -> None:
        if self._exists(name):
            with contextlib.suppress(FileNotFoundError):
                self._files.delete_file(f"{self._root}/{name}")

    def _exists(self, name: str) -> bool:
        return bool(self._files.get_file_info(f"{self._root}/{name}").type == fs.FileType.File)


def _open_s3(files: fs.S3FileSystem, bucket: str, s3: S3Settings) -> Any:
    """Opens the bucket with the same settings as Arrow; those that are empty are found in the environment."""
    from obstore.store import S3Store

    given: dict[str, Any] = {
        "region": s3.region or files.region,
        "endpoint": s3.endpoint,
        "access_key_id": s3.access_key,
        "secret_access_key": s3.secret_key,
        "session_token": s3.session_token,
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
    _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
