"""The index of a spool: one line per segment, with the source offsets of its end.

Each line is the CRC-32 of a JSON object in eight hexadecimal digits, a space, and the object. The first line describes the spool
and what the lines before had when the index was last shortened. A line without an end is one that a crash interrupted: it was
never part of the index, unless it is whole otherwise: then the next writer ends it. Any other deviation is damage.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from connect.errors import DataError
from connect.spool.positions import SpoolPosition

FORMAT = 1
NAME = "index.jsonl"
LINE_END = b"\n"
_DAMAGED = "Restore the whole spool, or delete it to read the source again"

Offsets = Mapping[str, str | None]
"""Source offsets by source partition, as the worker writes them: the texts are opaque here. None deletes an offset."""

_START_BYTES = 64

Topics = Mapping[str, Sequence[int]]
"""The IDs of the schemas of the values of records, by topic."""


@dataclass(frozen=True, slots=True)
class SpoolHeader:
    """The first line. ``offsets`` and the fields after it are what the lines before had."""

    spool: str
    """The ID of the spool."""
    connector: str
    directory: str
    """Where it was created."""
    inode: int
    """The inode of that directory: a copy has another one."""
    offsets: Offsets = field(default_factory=dict)
    schemas: Mapping[str, str] = field(default_factory=dict)
    topics: Topics = field(default_factory=dict)
    segment: int = 0
    row: int = 0
    generation: int = 0
    """How often the index was shortened."""
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """A line after the first: a segment, or with ``rows`` 0 source offsets alone."""

    segment: int
    """The segment's number. Of offsets alone, that of the next segment."""
    task: int
    rows: int
    first_row: int
    """The number of rows in all segments before."""
    size_bytes: int
    crc: int
    offsets: Offsets
    schemas: Mapping[str, str] = field(default_factory=dict)
    """The texts of schemas that no segment before has, by ID (:mod:`connect.spool.schemas`)."""
    topics: Topics = field(default_factory=dict)
    loaded: bool = False
    """Whether the task had read all that existed."""

    @property
    def end(self) -> int:
        """The number of the first segment after it."""
        return self.segment + 1 if self.rows else self.segment

    def is_before(self, position: SpoolPosition) -> bool:
        """Whether the whole entry is before a position."""
        return self.end <= position.segment


def encode_line(line: SpoolHeader | SpoolEntry) -> bytes:
    """Returns a line of the index."""
    text = json.dumps(asdict(line), separators=(",", ":")).encode()
    return b"%08x %s%s" % (zlib.crc32(text), text, LINE_END)


def segment_path(directory: Path, segment: int) -> Path:
    """Returns the path of a segment's file."""
    return directory / f"segment-{segment:010d}.arrow"


class SpoolIndex:
    """The index as read from its file. Not thread-safe."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._path = directory / NAME
        self.header: SpoolHeader | None = None
        """None until :meth:`refresh` has found a spool."""
        self.entries: list[SpoolEntry] = []
        self.schemas: dict[str, str] = {}
        self.complete_bytes = 0
        """The length of the complete lines; what follows was interrupted by a crash."""
        self._start = b""
        """What the file begins with: the checksum of its first line, and some of it."""
        self._line = 0

    def refresh(self) -> bool:
        """Reads new lines. Returns whether there is an index. Raises DataError that names the damaged line."""
        try:
            with self._path.open("rb") as file:
                is_shorter = os.fstat(file.fileno()).st_size < self.complete_bytes
                if is_shorter or file.read(len(self._start)) != self._start:
                    # The writer has shortened the index: that is another file, though its inode may be the same.
                    self.header, self.entries, self.schemas, self.complete_bytes = None, [], {}, 0
                    self._start, self._line = b"", 0
                file.seek(self.complete_bytes)
                data = file.read()
        except FileNotFoundError:
            return False
        except OSError as e:
            raise DataError(f"the index of the spool cannot be read: {e.strerror} ({self._path})") from e
        for line in data[: data.rfind(LINE_END) + 1].splitlines(keepends=True):
            self._line += 1
            self._add(line)
            self._start = self._start or line[:_START_BYTES]
            self.complete_bytes += len(line)
        return self.header is not None

    def complete(self) -> None:
        """Ends a whole line that lacks only its end, and removes any other rest after the last line. Only for the writer, after
        :meth:`refresh`. Raises OSError, and DataError."""
        with self._path.open("r+b") as file:
            file.seek(self.complete_bytes)
            rest = file.read()
            if _read_line(rest) is None:
                file.truncate(self.complete_bytes)
                return
            file.write(LINE_END)
        self.refresh()

    @property
    def end(self) -> SpoolPosition:
        """The position after the last segment."""
        if self.entries:
            return SpoolPosition(self.entries[-1].end, 0)
        return SpoolPosition(0 if self.header is None else self.header.segment, 0)

    @property
    def first(self) -> SpoolPosition:
        """The position of the first line after the header."""
        return SpoolPosition(self.entries[0].segment, 0) if self.entries else self.end

    @property
    def next_row(self) -> int:
        """The number of rows in all segments."""
        if self.entries:
            return self.entries[-1].first_row + self.entries[-1].rows
        return 0 if self.header is None else self.header.row

    def topics(self) -> dict[str, list[int]]:
        """Returns the IDs of the schemas of values by topic, oldest first: those in the segments, and the last ones before."""
        found = {topic: list(ids) for topic, ids in (self.header.topics if self.header else {}).items()}
        for entry in self.entries:
            for topic, ids in entry.topics.items():
                known = found.setdefault(topic, [])
                known += [number for number in ids if number not in known]
        return found

    def segments(self, first: int, last: int) -> list[SpoolEntry]:
        """Returns the segments from one number up to and without another."""
        return [entry for entry in self.entries if entry.rows and first <= entry.segment < last]

    def _add(self, line: bytes) -> None:
        node = self._parse(line)
        try:
            if self.header is None:
                if node["format"] != FORMAT:
                    raise DataError(
                        f"{self._path}: the spool has format {node['format']}, but this release reads format {FORMAT}. Use the "
                        "release that wrote it"
                    )
                self.header = SpoolHeader(**node)
                self.schemas.update(self.header.schemas)
                return
            entry = SpoolEntry(**node)
        except (KeyError, TypeError) as e:
            raise self._damaged(f"has other fields than expected ({e})") from e
        if entry.segment != self.end.segment or entry.first_row != self.next_row:
            raise self._damaged(f"has segment {entry.segment} after {self.end}")
        self.entries.append(entry)
        self.schemas.update(entry.schemas)

    def _parse(self, line: bytes) -> dict[str, Any]:
        node = _read_line(line[: -len(LINE_END)])
        if node is None:
            raise self._damaged("is damaged")
        return node

    def _damaged(self, problem: str) -> DataError:
        return DataError(f"{self._path}:{self._line}: the line {problem}. {_DAMAGED}")


def _read_line(text: bytes) -> dict[str, Any] | None:
    """The object of a line without its end; None if it is not intact."""
    crc, _, body = text.partition(b" ")
    try:
        node = json.loads(body)
        return node if int(crc, 16) == zlib.crc32(body) and isinstance(node, dict) else None
    except ValueError:
        return None


def read_spool_id(directory: Path) -> str | None:
    """Returns the ID of the spool in a directory, without reading more than its first line; None if there is none. Raises
    OSError."""
    try:
        with (directory / NAME).open("rb") as file:
            return str(json.loads(file.readline().partition(b" ")[2])["spool"])
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None


def require_place(header: SpoolHeader, directory: Path) -> None:
    """Checks that the spool was not copied here. Raises DataError."""
    if header.inode != directory.stat().st_ino:
        raise DataError(
            f"the spool {directory} is a copy (of {header.directory}, or from a backup): the source and the query may have moved "
            "on since, so that records would be missing or repeated. Use the original; a directory that is moved within its disk "
            "stays valid. Or delete the copy to read the source again"
        )
