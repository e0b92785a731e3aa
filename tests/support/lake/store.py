"""An object store in memory, and what the sink sees of it: the part of Arrow's file systems that it uses."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyarrow import fs

from tests.support.lake.calls import READS, WRITES, Calls


class ObjectStore:
    """Objects by path. An object appears when its upload ends, as in S3."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}


class StoreClient:
    """Stands in for an Arrow file system. Each request is a call that may fail."""

    def __init__(self, store: ObjectStore, calls: Calls) -> None:
        self._objects = store.objects
        self._calls = calls

    def open_input_file(self, path: str) -> pa.NativeFile:
        with self._calls.call(f"GET {_short(path)}", READS):
            if path not in self._objects:
                raise FileNotFoundError(path)
            return pa.BufferReader(self._objects[path])

    def open_output_stream(self, path: str) -> _Upload:
        return _Upload(self._objects, self._calls, path)

    def get_file_info(self, of: str | Sequence[str] | fs.FileSelector) -> Any:
        if isinstance(of, fs.FileSelector):
            with self._calls.call(f"LIST {of.base_dir}", READS):
                return [self._info(path) for path in self._objects if path.startswith(of.base_dir + "/")]
        if isinstance(of, str):
            with self._calls.call(f"HEAD {_short(of)}", READS):
                return self._info(of)
        with self._calls.call(f"HEAD {', '.join(map(_short, of))}", READS):
            return [self._info(path) for path in of]

    def delete_file(self, path: str) -> None:
        with self._calls.call(f"DELETE {_short(path)}", WRITES):
            if self._objects.pop(path, None) is None:
                raise FileNotFoundError(path)

    def _info(self, path: str) -> fs.FileInfo:
        if path not in self._objects:
            return fs.FileInfo(path, fs.FileType.NotFound)
        return fs.FileInfo(path, fs.FileType.File, size=len(self._objects[path]), mtime=dt.datetime.now(dt.UTC))


class _Upload:
    """A with block that writes one object."""

    def __init__(self, objects: dict[str, bytes], calls: Calls, path: str) -> None:
        self._objects = objects
        self._calls = calls
        self._path = path
        self._stream = pa.BufferOutputStream()

    def __enter__(self) -> pa.NativeFile:
        return self._stream

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            with self._calls.call(f"PUT {_short(self._path)}", WRITES):
                self._objects[self._path] = self._stream.getvalue().to_pybytes()


def _short(path: str) -> str:
    return path.rpartition("/")[2]
