"""What a table commit says about itself: which records it contains (promise 6).

Every commit carries, as user metadata, the ranges that it added and the ends that all its task's partitions have reached in
this table. The newest commit that names a partition is the truth about it; other writers' commits in between say nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect.record import TopicPartition

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of one connector to one table. ``sequence`` grows by one with each, over all tasks of the connector.

    ``ends`` maps a partition to the offset after its last record in the table; None forgets it (a reset over REST).
    """

    connector: str
    sequence: int
    ranges: Mapping[TopicPartition, tuple[int, int]]
    ends: Mapping[TopicPartition, int | None]

    def to_json(self) -> str:
        document = {
            "sluice": FORMAT,
            "connector": self.connector,
            "sequence": self.sequence,
            "ranges": _nest({tp: list(r) for tp, r in self.ranges.items()}),
            "ends": _nest(self.ends),
        }
        return json.dumps(document, separators=(",", ":"), sort_keys=True)


def read_commit(text: str | None) -> Commit | None:
    """The commit of some user metadata; None when it is somebody else's."""
    if not text or '"sluice"' not in text:
        return None
    try:
        document = json.loads(text)
        if document.get("sluice") != FORMAT:
            return None
        ranges = {tp: (int(r[0]), int(r[1])) for tp, r in _flatten(document["ranges"])}
        return Commit(str(document["connector"]), int(document["sequence"]), ranges, dict(_flatten(document["ends"])))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


@dataclass(slots=True)
class Ledger:
    """What one connector's commits to a table add up to."""

    sequence: int | None = None
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    forgotten: set[TopicPartition] = field(default_factory=set)

    def knows(self, partitions: Iterable[TopicPartition]) -> bool:
        """True when looking further back could not tell more about these."""
        return self.sequence is not None and all(tp in self.ends or tp in self.forgotten for tp in partitions)

    def read_back(self, commit: Commit) -> None:
        """Takes in a commit older than all taken in so far."""
        if self.sequence is None:
            self.sequence = commit.sequence
        for tp, end in commit.ends.items():
            if tp in self.ends or tp in self.forgotten:
                continue
            if end is None:
                self.forgotten.add(tp)
            else:
                self.ends[tp] = end


def scan(metadata: Iterable[str | None], connector: str) -> Ledger:
    """The ledger of commits' user metadata, newest first."""
    ledger = Ledger()
    for text in metadata:
        commit = read_commit(text)
        if commit is not None and commit.connector == connector:
            ledger.read_back(commit)
    return ledger


def _nest(values: Mapping[TopicPartition, Any]) -> dict[str, dict[str, Any]]:
    nested: dict[str, dict[str, Any]] = {}
    for tp, value in sorted(values.items()):
        nested.setdefault(tp.topic, {})[str(tp.partition)] = value
    return nested


def _flatten(nested: Mapping[str, Mapping[str, Any]]) -> list[tuple[TopicPartition, Any]]:
    return [(TopicPartition(t, int(p)), value) for t, partitions in nested.items() for p, value in partitions.items()]
