"""Where history records are: a file, memory, or a topic."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import orjson

from connect.errors import ConnectError


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
        with self._explained("created"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.touch(mode=0o600)

    def append(self, records: Sequence[bytes]) -> None:
        self.initialize()
        with self._explained("written"), self._path.open("r+b") as file:
            complete, rest = self._split(file.read())
            file.seek(complete)
            file.truncate()  # a record of which a crash left only a part, so nothing depends on it
            file.write(rest + b"".join(record + b"\n" for record in records))
            file.flush()
            os.fsync(file.fileno())

    @staticmethod
    def _split(data: bytes) -> tuple[int, bytes]:
        """Returns where the last line begins that no newline ends, and that line if it is a record, or nothing."""
        start = data.rfind(b"\n") + 1
        try:
            orjson.loads(data[start:])
        except orjson.JSONDecodeError:
            return start, b""
        return start, data[start:] + b"\n"

    def read(self) -> Iterator[bytes]:
        if not self._path.exists():
            return iter(())
        with self._explained("read"):
            data = self._path.read_bytes()
        complete, rest = self._split(data)
        return iter([line.strip() for line in (data[:complete] + rest).split(b"\n") if line.strip()])

    def close(self) -> None:
        pass

    @contextlib.contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as e:
            raise ConnectError(f"schema history file {self._path} cannot be {what}: {e.strerror}") from e
