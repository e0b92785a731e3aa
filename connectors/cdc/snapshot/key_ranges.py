"""Key ranges: the units in which a table is read, and what of a snapshot is completed, as an offset stores it.

Offsets of an incomplete snapshot have a field beside Debezium's: the tables that are completed, and of those begun, the key
ranges that are missing. Each table has a fingerprint; if it differs later, the table has changed and is read again completely.
Debezium and earlier releases ignore the field, and start the snapshot over.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

_VERSION = 1
MAX_TEXT = 256 << 10
"""So that the offset fits into a message. What does not fit is read again after an interruption."""

Key = tuple[str, ...]
"""The texts of a row's key columns, as the server prints them."""


def fingerprint_of(*parts: Any) -> str:
    """Returns a short text that differs if the parts do, which are values of JSON."""
    return base64.b64encode(hashlib.sha256(orjson.dumps(parts)).digest()[:6]).decode()


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The rows whose key is greater than ``after`` and not greater than ``until``; None is no bound."""

    after: Key | None = None
    until: Key | None = None


EVERYTHING = KeyRange()


def split_range(bounds: KeyRange, keys: Iterable[Key]) -> list[KeyRange]:
    """Splits a range after each of these keys, which lie in it in ascending order."""
    ranges: list[KeyRange] = []
    after = bounds.after
    for key in keys:
        if key not in (after, bounds.until):
            ranges.append(KeyRange(after, key))
            after = key
    return [*ranges, KeyRange(after, bounds.until)]


def merge_ranges(ranges: Iterable[KeyRange]) -> list[KeyRange]:
    """Merges ranges, in the order of the key, that follow one another."""
    merged: list[KeyRange] = []
    for bounds in ranges:
        if merged and merged[-1].until is not None and merged[-1].until == bounds.after:
            merged[-1] = KeyRange(merged[-1].after, bounds.until)
        else:
            merged.append(bounds)
    return merged


@dataclass(frozen=True, slots=True)
class PartialTable:
    """A table that is begun: the rows emitted so far, and the ranges that are missing."""

    fingerprint: str
    rows: int
    missing: tuple[KeyRange, ...]


@dataclass(slots=True)
class SnapshotState:
    """What of a snapshot is completed. The source identifies tables by a text."""

    done: dict[str, str] = field(default_factory=dict)
    """The fingerprints of the tables that are completed."""
    partial: dict[str, PartialTable] = field(default_factory=dict)
    _done_text: str | None = None

    def complete(self, table: str, fingerprint: str) -> None:
        """All rows of a table are emitted."""
        self.partial.pop(table, None)
        self.done[table] = fingerprint
        self._done_text = None

    def encode(self) -> str | None:
        """The text of an offset's field; None if nothing is completed."""
        if not self.done and not self.partial:
            return None
        if self._done_text is None:
            self._done_text = orjson.dumps(self._fitting()).decode()
        partial = {
            table: [entry.fingerprint, entry.rows, [[bounds.after, bounds.until] for bounds in entry.missing]]
            for table, entry in self.partial.items()
        }
        partial_text = orjson.dumps(partial).decode()
        if len(partial_text) > MAX_TEXT // 2:
            partial_text = "{}"
        return f'{{"v":{_VERSION},"done":{self._done_text},"partial":{partial_text}}}'

    def _fitting(self) -> dict[str, str]:
        """The completed tables that fit into half of the text."""
        found: dict[str, str] = {}
        size = 2
        for table, fingerprint in self.done.items():
            size += len(orjson.dumps({table: fingerprint}))
            if size > MAX_TEXT // 2:
                break
            found[table] = fingerprint
        return found

    @classmethod
    def parse(cls, text: object) -> SnapshotState:
        """Parses the field of an offset; one that is missing or of another release means that nothing is completed."""
        if not isinstance(text, str):
            return cls()
        try:
            value = orjson.loads(text)
            if value["v"] != _VERSION:
                return cls()
            done = {str(table): str(fingerprint) for table, fingerprint in value["done"].items()}
            return cls(done, {str(table): _parse_partial(entry) for table, entry in value["partial"].items()})
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls()

    def keep(self, fingerprints: Mapping[str, str]) -> None:
        """Forgets tables that have changed: those without this fingerprint."""
        self.done = {table: text for table, text in self.done.items() if fingerprints.get(table) == text}
        self.partial = {table: entry for table, entry in self.partial.items() if fingerprints.get(table) == entry.fingerprint}
        self._done_text = None


def _parse_partial(entry: Any) -> PartialTable:
    fingerprint, rows, missing = entry
    ranges = tuple(KeyRange(_parse_key(after), _parse_key(until)) for after, until in missing)
    return PartialTable(str(fingerprint), int(rows), ranges)


def _parse_key(value: Any) -> Key | None:
    return None if value is None else tuple(str(text) for text in value)
