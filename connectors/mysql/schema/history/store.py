"""Where history records are: a file, memory, or a topic."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import orjson

from connect.errors import ConnectError
from connect.spool.files import sync_directory

_BLOCK_BYTES: Final = 65_536


class HistoryStore(Protocol):
    """Keeps records in their order. For one thread."""

    def storage_exists(self) -> bool:
        """Returns whether there is a place for records, which may be empty."""

    def exists(self) -> bool:
        """Returns whether there are records."""

    def initialize(self) -> None:
        """Creates the place for records unless it exists."""

    def append(self, records: Sequence[bytes]) -> None:
        """Appends records. They are durable on return; otherwise raises ConnectError."""

    def read(self) -> Iterator[bytes]:
        """Yields all records that exist at the time of the call."""

    def close(self) -> None: ...


class MemoryHistoryStore:
    """Forgets its records with the process: for tests, and for connectors that always take a snapshot."""

    def __init__(self) -> None:
        self.records: list[bytes] = []

    def storage_exists(self) -> bool:
        return True

    def exists(self) -> bool:
        return bool(self.records)

    def initialize(self) -> None:
        pass

    def append(self, records: Sequence[bytes]) -> None:
        self.records += records

    def read(self) -> Iterator[bytes]:
        return iter(tuple(self.records))

    def close(self) -> None:
        pass


class FileHistoryStore:
    """A file with one record per line, as Debezium's FileSchemaHistory has it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def storage_exists(self) -> bool:
        return self._path.exists()

    def exists(self) -> bool:
        return any(True for _ in self.read())

    def initialize(self) -> None:
        if self._path.exists():
            return
        with self._explained("created"):
            folders = [self._path.parent, *self._path.parent.parents]
            created = [folder for folder in folders if not folder.exists()]
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            for folder in (self._path.parent, *(folder.parent for folder in created)):
                sync_directory(folder)

    def append(self, records: Sequence[bytes]) -> None:
        self.initialize()
        with self._explained("written"), self._path.open("r+b") as file:
            complete, last = _split_end(file)
            file.seek(complete)
            file.truncate()  # a record of which a crash left only a part, so nothing depends on it
            rest = [last] if _is_record(last) else []
            file.write(b"".join(record + b"\n" for record in (*rest, *records)))
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> Iterator[bytes]:
        if not self._path.exists():
            return
        with self._explained("read"), self._path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    if line := line.strip():
                        yield line
                elif _is_record(line):
                    yield line.strip()

    def close(self) -> None:
        pass

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as e:
            raise ConnectError(f"schema history file {self._path} cannot be {what}: {e.strerror}") from e


def _split_end(file: BinaryIO) -> tuple[int, bytes]:
    """Returns where the last line begins that no newline ends, and that line."""
    at = file.seek(0, os.SEEK_END)
    last = b""
    while at:
        size = min(at, _BLOCK_BYTES)
        at = file.seek(at - size)
        block = file.read(size)
        start = block.rfind(b"\n") + 1
        last = block[start:] + last
        if start:
            return at + start, last
    return 0, last


def _is_record(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True
