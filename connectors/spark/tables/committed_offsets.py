"""Offsets in the metadata of table commits (promise 6).

Every commit carries, as user metadata, the offset ranges that it added and the end offsets of all partitions of its task in this
table. The newest commit that names a partition is authoritative; commits of other writers are ignored.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect.record import TopicPartition

FORMAT = 1


@dataclass(frozen=True, slots=True)
class TableCommit:
    """The metadata of one commit. ``sequence`` increases by one with each commit of the connector, over all its tasks.

    ``ends`` maps a partition to the offset after its last record in the table; None removes it (a reset over REST).
    """

    connector: str
    sequence: int
    ranges: Mapping[TopicPartition, tuple[int, int]]
    ends: Mapping[TopicPartition, int | None]
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    """By which a writer that got no answer finds the commit in the table's history."""

    def to_json(self) -> str:
        document = {
            "sluice": FORMAT,
            "connector": self.connector,
            "id": self.id,
            "sequence": self.sequence,
            "ranges": _nest({tp: list(r) for tp, r in self.ranges.items()}),
            "ends": _nest(self.ends),
        }
        return json.dumps(document, separators=(",", ":"), sort_keys=True)


def parse_commit(text: str | None) -> TableCommit | None:
    """Parses user metadata; None when another writer committed."""
    if not text or '"sluice"' not in text:
        return None
    try:
        document = json.loads(text)
        if document.get("sluice") != FORMAT:
            return None
        ranges = {tp: (int(r[0]), int(r[1])) for tp, r in _flatten(document["ranges"])}
        ends = dict(_flatten(document["ends"]))
        return TableCommit(str(document["connector"]), int(document["sequence"]), ranges, ends, str(document.get("id", "")))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


@dataclass(slots=True)
class CommittedOffsets:
    """The offsets that one connector has committed to a table."""

    sequence: int | None = None
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    forgotten: set[TopicPartition] = field(default_factory=set)

    def covers(self, partitions: Iterable[TopicPartition]) -> bool:
        """True when older commits cannot add anything about these partitions."""
        return self.sequence is not None and all(tp in self.ends or tp in self.forgotten for tp in partitions)

    def add_older_commit(self, commit: TableCommit) -> None:
        """Adds a commit that is older than all commits added so far."""
        if self.sequence is None:
            self.sequence = commit.sequence
        for tp, end in commit.ends.items():
            if tp in self.ends or tp in self.forgotten:
                continue
            if end is None:
                self.forgotten.add(tp)
            else:
                self.ends[tp] = end


def next_sequence(committed: CommittedOffsets) -> int:
    """The sequence number of the next commit. A table without history starts at 1, for every task: of two that create it at once,
    one then has to read it again."""
    return 1 if committed.sequence is None else committed.sequence + 1


def collect_committed_offsets(commits: Iterable[TableCommit], connector: str) -> CommittedOffsets:
    """Collects the offsets of a connector from commits, newest first."""
    committed_offsets = CommittedOffsets()
    for commit in commits:
        if commit.connector == connector:
            committed_offsets.add_older_commit(commit)
    return committed_offsets


def collect_feeds(commits: Iterable[TableCommit]) -> dict[str, frozenset[TopicPartition]]:
    """By connector: the partitions whose records it has in the table, which the newest of its commits names all. They are sorted
    from the newest to the oldest."""
    feeds: dict[str, frozenset[TopicPartition]] = {}
    for commit in commits:
        if commit.connector not in feeds:
            feeds[commit.connector] = frozenset(tp for tp, end in commit.ends.items() if end is not None)
    return feeds


def _nest(values: Mapping[TopicPartition, Any]) -> dict[str, dict[str, Any]]:
    nested: dict[str, dict[str, Any]] = {}
    for tp, value in sorted(values.items()):
        nested.setdefault(tp.topic, {})[str(tp.partition)] = value
    return nested


def _flatten(nested: Mapping[str, Mapping[str, Any]]) -> list[tuple[TopicPartition, Any]]:
    return [(TopicPartition(t, int(p)), value) for t, partitions in nested.items() for p, value in partitions.items()]
