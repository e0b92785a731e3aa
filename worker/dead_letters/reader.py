"""Reads the dead letters of one connector from its queue."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from connect.errors import IllegalStateError
from connect.plugins import Plugins
from connect.record import TopicPartition
from worker.config.secrets import SecretMask
from worker.dead_letters.causes import cause_of
from worker.dead_letters.letters import DeadLetter, LetterSelection, dead_letter_topic
from worker.dead_letters.positions import ReplayPosition, replay_group
from worker.kafka.dead_letter_topic import committed_positions
from worker.kafka.stored_records import read_stored, topic_ranges
from worker.progress_reports import OnProgress

Positions = Mapping[int, ReplayPosition]
Ranges = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class LetterSource:
    """A connector, and how to reach its dead letters."""

    connector: str
    config: Mapping[str, str | None] = field(repr=False)
    """With the values of config providers."""
    worker: Mapping[str, str] | None = field(repr=False)
    """The worker's properties, for its converters; None if they are unknown."""
    plugins: Plugins
    consumer: Mapping[str, str] = field(repr=False)
    """Settings of clients of the cluster with the queue and the connector's topics."""
    producer: Mapping[str, str] = field(repr=False)
    mask: SecretMask


class LetterChunk(NamedTuple):
    """Some dead letters of one partition of the queue, in order."""

    letters: list[DeadLetter]
    """Those that are selected; may be empty."""
    end: int
    """The offset after the last one that was read."""
    empty: list[tuple[int, int]]
    """Ranges of offsets, including both ends, without a dead letter of the connector."""


class LetterReader:
    """Reads within a time, if one is given. Not thread-safe."""

    def __init__(self, source: LetterSource, timeout_s: float | None, on_progress: OnProgress) -> None:
        """Raises IllegalStateError for a connector without a dead letter queue."""
        topic = dead_letter_topic(source.config)
        if topic is None:
            raise IllegalStateError(
                f"Connector {source.connector} has no dead letter queue: set errors.deadletterqueue.topic.name "
                "(sources: errors.deadletterqueue.source.topic.name)"
            )
        self.source = source
        self.topic = topic
        self.on_progress = on_progress
        self._deadline = float("inf") if timeout_s is None else time.monotonic() + timeout_s

    @property
    def is_over(self) -> bool:
        """Whether the time has passed."""
        return time.monotonic() >= self._deadline

    def ranges(self) -> dict[int, tuple[int, int]]:
        """Returns the first and the next offset of each partition of the queue."""
        return {one.partition: found for one, found in topic_ranges(self.source.consumer, [self.topic]).items()}

    def positions(self, ranges: Ranges) -> dict[int, ReplayPosition]:
        """Returns what was replayed, by partition."""
        group = replay_group(self.source.connector)
        found = committed_positions(self.source.consumer, group, self.topic, list(ranges))
        return {number: ReplayPosition.decode(*one) for number, one in found.items()}

    def read(
        self, partition: int, first: int, end: int, selection: LetterSelection, positions: Positions
    ) -> Iterator[LetterChunk]:
        """Yields the selected dead letters of the connector in one partition of the queue."""
        if selection.partition not in (None, partition):
            return
        position = positions.get(partition)
        if position is not None and not selection.with_replayed:
            first = max(first, position.base)  # all before it were replayed
        expected = first
        for records in read_stored(self.source.consumer, TopicPartition(self.topic, partition), first, end):
            self.on_progress(records[-1].offset + 1 - first, end - first, f"reading {self.topic}")
            own = [letter for record in records if (letter := DeadLetter.of(record)).is_of(self.source.connector)]
            following = records[-1].offset + 1
            empty = list(_gaps(expected, [letter.stored.offset for letter in own], following))
            selected = [one for one in own if self._is_selected(one, selection, position)]
            expected = following
            yield LetterChunk(selected, following, empty)

    def _is_selected(self, letter: DeadLetter, selection: LetterSelection, position: ReplayPosition | None) -> bool:
        stored = letter.stored
        return (
            selection.contains(stored.partition, stored.offset)
            and (selection.with_replayed or position is None or stored.offset not in position)
            and (selection.cause is None or cause_of(letter, self.source.config).id.startswith(selection.cause))
        )


def _gaps(first: int, offsets: Sequence[int], end: int) -> Iterator[tuple[int, int]]:
    """Yields the ranges from ``first`` to below ``end`` that have none of the sorted offsets."""
    for offset in (*offsets, end):
        if offset > first:
            yield first, offset - 1
        first = offset + 1
