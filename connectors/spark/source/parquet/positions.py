"""Offsets of a directory: which of its files are done, and how many rows of the current one.

A file is identified by its modification time and its name, and files are read in this order. An offset says that all files up to
a certain one (``passed_ms``, ``passed_file``) are done. Files may appear later than their modification time, so the offset does
not pass a file before ``source.lag.ms`` have gone by: until then, ``recent`` lists the files that are done, 12 bytes each.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from connectors.spark.source.offsets import (
    ROW,
    SNAPSHOT,
    VERSION,
    find_member_problem,
    require_valid,
)

PASSED_MS, PASSED_FILE, RECENT = "passed_ms", "passed_file", "recent"
FILE, MODIFIED_MS, SIZE_BYTES, ROWS, FIRST_ROW = "file", "modified_ms", "size_bytes", "rows", "first_row"
MEMBERS = (VERSION, SNAPSHOT, PASSED_MS, PASSED_FILE, RECENT, FILE, MODIFIED_MS, SIZE_BYTES, ROW, ROWS, FIRST_ROW)
_LAST_NAME = chr(0x10FFFF)
_NAME_BYTES, _CONTENT_BYTES = 8, 4


class ListedFile(NamedTuple):
    """A file of a directory; ``name`` is its path below the directory. Files sort as they are read."""

    modified_ms: int
    name: str
    size_bytes: int


class FileKey(NamedTuple):
    """The place of a file in the order of reading."""

    modified_ms: int
    name: str


NO_FILES = FileKey(-1, "")


def key_of(file: ListedFile) -> FileKey:
    """The file's place in the order of reading."""
    return FileKey(file.modified_ms, file.name)


def all_until(modified_ms: int) -> FileKey:
    """The place after all files of a millisecond."""
    return FileKey(modified_ms, _LAST_NAME)


@lru_cache(maxsize=10_000)
def name_digest(file: ListedFile) -> bytes:
    """Identifies the file's name."""
    return hashlib.blake2b(file.name.encode("utf-8", "surrogateescape"), digest_size=_NAME_BYTES).digest()


@lru_cache(maxsize=10_000)
def content_digest(file: ListedFile) -> bytes:
    """Differs when a file of the same name has other content."""
    return hashlib.blake2b(f"{file.modified_ms} {file.size_bytes}".encode(), digest_size=_CONTENT_BYTES).digest()


@dataclass(frozen=True, slots=True)
class DoneFiles:
    """Files up to ``passed``, ``recent`` files (content by name, as digests), and the first ``count`` of the ``planned`` files.

    The planned files are sorted, and all files of the listing that come before one of them are done.
    """

    passed: FileKey
    recent: Mapping[bytes, bytes]
    planned: Sequence[ListedFile] = ()
    count: int = 0
    settled_ms: int = -1
    """No more files with this modification time, or an earlier one, will appear."""

    @property
    def is_empty(self) -> bool:
        """Whether no file is done."""
        return self.passed == NO_FILES and not self.recent and not self.count

    def has(self, file: ListedFile) -> bool:
        """Whether a file is done that is not planned."""
        return key_of(file) <= self.passed or self.recent.get(name_digest(file)) == content_digest(file)

    def with_count(self, count: int) -> DoneFiles:
        """The same with another number of planned files done."""
        return replace(self, count=count)

    def merged(self) -> DoneFiles:
        """The same files without a plan."""
        if not self.count:
            return DoneFiles(self.passed, self.recent)
        passed = self.passed
        settled = bisect_right(self.planned, self.settled_ms, hi=self.count, key=lambda file: file.modified_ms)
        if settled:
            passed = max(passed, key_of(self.planned[settled - 1]))
        new = (file for file in self.planned[: self.count] if key_of(file) > passed)
        return DoneFiles(passed, {**self.recent, **{name_digest(file): content_digest(file) for file in new}})


@dataclass(frozen=True, slots=True)
class CurrentFile:
    """The file that is being read: ``row`` of its rows are done. ``first_row`` counts the rows of the version before it."""

    file: ListedFile
    row: int
    rows: int | None
    """None if a user wrote the offset without it."""
    first_row: int


@dataclass(frozen=True, slots=True)
class DirectoryPosition:
    """What a directory's feed delivers next (:class:`connectors.spark.source.offsets.StorablePosition`).

    A version is what one listing found; its number is the time of the listing in ms since 1970, so that later events of a key
    have a higher one even when offsets were reset.
    """

    version: int
    snapshot: bool
    done: DoneFiles
    current: CurrentFile | None = None

    def at_row(self, file: ListedFile, row: int, rows: int, first_row: int) -> DirectoryPosition:
        """The position in a file."""
        return replace(self, current=CurrentFile(file, row, rows, first_row))

    def with_file_done(self, file: ListedFile) -> DirectoryPosition:
        """The position after a file that is not planned."""
        done = self.done.merged()
        return replace(self, done=DoneFiles(done.passed, done.recent, (file,), 1).merged(), current=None)

    def without_complete_file(self) -> DirectoryPosition:
        """The same position, in which a file whose rows are all done is not the current one any more."""
        current = self.current
        if current is None or current.rows is None or current.row < current.rows:
            return self
        return self.with_file_done(current.file)

    def to_offset(self) -> dict[str, Any]:
        """See :class:`connectors.spark.source.offsets.StorablePosition`."""
        done, current = self.done.merged(), self.current
        offset: dict[str, Any] = {VERSION: self.version, SNAPSHOT: self.snapshot, PASSED_MS: done.passed.modified_ms}
        if done.passed.name != _LAST_NAME:
            offset[PASSED_FILE] = done.passed.name
        if done.recent:
            listed = b"".join(name + content for name, content in sorted(done.recent.items()))
            offset[RECENT] = base64.b64encode(listed).decode()
        if current is not None:
            file = current.file
            offset |= {FILE: file.name, MODIFIED_MS: file.modified_ms, SIZE_BYTES: file.size_bytes, ROW: current.row}
            offset |= {FIRST_ROW: current.first_row}
            if current.rows is not None:
                offset[ROWS] = current.rows
        return offset


def parse_directory_offset(offset: Mapping[str, Any]) -> DirectoryPosition:
    """Parses a stored offset. Raises DataError."""
    require_valid(offset, find_directory_offset_problem)
    passed_file = offset.get(PASSED_FILE)
    passed = FileKey(offset[PASSED_MS], _LAST_NAME if passed_file is None else passed_file)
    listed = _decode_recent(offset.get(RECENT))
    step = _NAME_BYTES + _CONTENT_BYTES
    recent = {listed[at : at + _NAME_BYTES]: listed[at + _NAME_BYTES : at + step] for at in range(0, len(listed), step)}
    done = DoneFiles(passed, recent)
    version, snapshot = offset.get(VERSION) or 0, bool(offset.get(SNAPSHOT))
    if offset.get(FILE) is None:
        return DirectoryPosition(version, snapshot, done)
    file = ListedFile(offset[MODIFIED_MS], offset[FILE], offset[SIZE_BYTES])
    current = CurrentFile(file, offset[ROW], offset.get(ROWS), offset.get(FIRST_ROW) or 0)
    return DirectoryPosition(version, snapshot, done, current)


def find_directory_offset_problem(offset: Mapping[str, Any]) -> str | None:
    """What is wrong with an offset; None if nothing is."""
    integers = (VERSION, MODIFIED_MS, SIZE_BYTES, ROW, ROWS, FIRST_ROW)
    problem = find_member_problem(offset, MEMBERS, integers=integers, texts=(PASSED_FILE, RECENT, FILE), booleans=(SNAPSHOT,))
    if problem is not None:
        return problem
    passed_ms = offset.get(PASSED_MS)
    if type(passed_ms) is not int or passed_ms < NO_FILES.modified_ms:
        return f"an offset needs {PASSED_MS}: files modified until then (ms since 1970) are done"
    if offset.get(FILE) is not None:
        missing = [name for name in (MODIFIED_MS, SIZE_BYTES, ROW) if offset.get(name) is None]
        if missing:
            return f"an offset with {FILE} needs {', '.join(missing)} too"
    try:
        _decode_recent(offset.get(RECENT))
    except ValueError as e:
        return f"{RECENT} must be a text that the connector has stored: {e}"
    return None


def _decode_recent(text: str | None) -> bytes:
    try:
        listed = base64.b64decode(text or "", validate=True)
    except binascii.Error as e:
        raise ValueError(f"it is not in base64 ({e})") from e
    if len(listed) % (_NAME_BYTES + _CONTENT_BYTES):
        raise ValueError("it is incomplete")
    return listed
