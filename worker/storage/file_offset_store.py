"""Source offsets in one file, for standalone workers.

The file format is Apache's (:mod:`connect.java.serialized_map`). Each change writes a whole new file beside the old one, makes it
durable, and renames it, so that a crash at any time leaves either the old or the new offsets. A lock file rejects a second
worker.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from connect import crash_points
from connect.errors import ConfigError, ConnectError, DataError
from connect.java import serialized_map
from worker.model import OffsetEntry
from worker.storage.offset_codec import PartitionId, decode_key, decode_value, encode_key, encode_value, partition_id
from worker.storage.offset_store import OffsetPair

log = logging.getLogger(__name__)


class OffsetFile:
    """The offsets of all connectors of one worker, in memory and in a file. Safe from any thread.

    Opening it takes the lock and reads the file; :meth:`close` releases the lock. Raises ConfigError if another worker has the
    lock, or if the file cannot be read or written or is damaged.
    """

    def __init__(self, path: str | Path) -> None:
        # For a link, its target is replaced.
        self.path = Path(os.path.realpath(path))
        self._mutex = threading.Lock()
        self._lock_fd: int | None = None
        self._take_lock()
        try:
            self._remove_draft()
            self._entries = self._load()
        except BaseException:
            self.close()
            raise
        self._keys: dict[tuple[str, PartitionId], bytes] = {}
        for raw in self._entries:
            if parsed := decode_key(raw):
                self._keys[parsed.connector, partition_id(parsed.partition)] = raw
            else:
                log.warning("%s has a key that is not a source offset; keeping it unchanged: %r", self.path, raw[:80])

    def get(self, connector: str, partition: Mapping[str, Any] | None) -> dict[str, Any] | None:
        with self._mutex:
            raw = self._keys.get((connector, partition_id(partition)))
            data = None if raw is None else self._entries[raw]
        return self._decoded(data)

    def put(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        changes = [((connector, partition_id(p)), encode_key(connector, p), encode_value(o)) for p, o in offsets]
        with self._mutex:
            if self._lock_fd is None:
                raise ConnectError(f"the offset file {self.path} is closed")
            entries, keys = dict(self._entries), dict(self._keys)
            for key, raw, value in changes:
                # The key bytes of a stored offset do not change, whatever the order of its members is now.
                if value is None:
                    entries.pop(keys.pop(key, raw), None)
                else:
                    entries[keys.setdefault(key, raw)] = value
            self._write(serialized_map.encode(entries))
            self._entries, self._keys = entries, keys

    def entries(self, connector: str) -> list[OffsetEntry]:
        with self._mutex:
            stored = [(raw, self._entries[raw]) for (name, _), raw in self._keys.items() if name == connector]
        result = []
        for raw, data in stored:
            parsed = decode_key(raw)
            if parsed is not None:
                result.append(OffsetEntry(parsed.partition, self._decoded(data)))
        return result

    def close(self) -> None:
        """Releases the lock. May be called twice."""
        with self._mutex:
            if self._lock_fd is not None:
                os.close(self._lock_fd)
                self._lock_fd = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def _draft(self) -> Path:
        return self.path.with_name(self.path.name + ".tmp")

    def _take_lock(self) -> None:
        # Promise 4: one worker per offset file. The lock is a separate file because the offset file is replaced by each write. It
        # is not removed when the worker stops: otherwise two workers could lock two different files of that name.
        lock_path = self.path.with_name(self.path.name + ".lock")
        try:
            fd = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as e:
            raise self._invalid(f"its directory cannot be written to: {e.strerror} ({lock_path})") from e
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise self._invalid(
                f"it is in use by another worker{f' (process {holder})' if holder else ''}. Stop that one, or give this worker "
                "an offset file of its own"
            ) from e
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as e:
            os.close(fd)
            raise self._invalid(f"its directory cannot be written to: {e.strerror} ({lock_path})") from e
        self._lock_fd = fd

    def _remove_draft(self) -> None:
        # Left by a worker that was killed while it wrote; never acknowledged.
        self._draft.unlink(missing_ok=True)

    def _load(self) -> dict[bytes, bytes | None]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as e:
            raise self._invalid(f"it cannot be read: {e.strerror}") from e
        if not data:
            # Apache's worker leaves an empty file if it is killed while it writes.
            log.warning("The offset file %s is empty: connectors start from the beginning", self.path)
            return {}
        try:
            return serialized_map.decode(data)
        except DataError as e:
            raise self._invalid(
                f"it is damaged or not an offset file: {e.message}. Put a good copy in its place, or move it away to begin "
                "without offsets (sources then read everything again)"
            ) from e

    def _write(self, data: bytes) -> None:
        # Promise 5: the new file is complete and durable before it replaces the old one.
        try:
            fd = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                view = memoryview(data)
                while view:
                    view = view[os.write(fd, view) :]
                os.fsync(fd)
            finally:
                os.close(fd)
            crash_points.point("offsets.drafted")
            os.replace(self._draft, self.path)
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as e:
            raise ConnectError(f"the offset file {self.path} cannot be written: {e.strerror}") from e

    def _decoded(self, data: bytes | None) -> dict[str, Any] | None:
        try:
            return decode_value(data)
        except DataError as e:
            raise ConnectError(f"the offset file {self.path}: {e.message}") from e

    def _invalid(self, reason: str) -> ConfigError:
        return ConfigError.invalid("offset.storage.file.filename", self.path, reason)
