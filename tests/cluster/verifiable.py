"""Checks the records of verifiable connectors: each number of a source task must be in the topic and reach the sink in order.

A source task writes 0, 1, 2, ... It prints each number when it returns the record, and again with ``committed`` when the broker
has acknowledged it. A sink task prints each number that it receives, and again with ``flushed``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.cluster.topics import Stored, payload, read_topic

Number = tuple[int, int]
"""(task of the source, sequence number)."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """Findings about a source's numbers in its topic. Should be empty, except for ``duplicated`` within promise 5."""

    counts: Mapping[int, int]
    """Task -> expected count of different numbers: one more than the highest."""
    missing: tuple[Number, ...]
    """Below the highest number of the task, and not in the topic."""
    lost: tuple[Number, ...]
    """Acknowledged to the task, and not in the topic."""
    duplicated: Mapping[Number, int]
    """Number -> repetitions: occurrences after the first."""
    disordered: tuple[Number, ...]
    """First seen after a higher number of the same task."""
    alternating: tuple[Number, ...]
    """Numbers that skip ahead of the task's previous record: two runs of the task wrote at the same time, unless the numbers
    between are missing."""


@dataclass(frozen=True, slots=True)
class SinkReport:
    missing: tuple[Number, ...]
    """In the topic, but not delivered to the sink."""
    unflushed: tuple[Number, ...]
    """In the topic, but not flushed by the sink."""
    unexpected: tuple[Number, ...]
    """Delivered to the sink, but not in the topic."""
    duplicated: Mapping[Number, int]


def source_report(in_topic: Iterable[Number], acknowledged: Iterable[Number]) -> SourceReport:
    """Compares the topic with the acknowledged numbers. ``in_topic`` is in offset order."""
    seen: Counter[Number] = Counter()
    highest: dict[int, int] = defaultdict(lambda: -1)
    disordered, alternating = [], []
    previous: dict[int, int] = {}
    for number in in_topic:
        task, seqno = number
        if task in previous and seqno > previous[task] + 1:
            alternating.append(number)
        previous[task] = seqno
        if not seen[number] and seqno < highest[task]:
            disordered.append(number)
        seen[number] += 1
        highest[task] = max(highest[task], seqno)
    return SourceReport(
        counts={task: last + 1 for task, last in sorted(highest.items())},
        missing=tuple((task, n) for task, last in sorted(highest.items()) for n in range(last) if (task, n) not in seen),
        lost=tuple(sorted(set(acknowledged) - seen.keys())),
        duplicated=_repetitions(seen),
        disordered=tuple(disordered),
        alternating=tuple(alternating),
    )


def sink_report(in_topic: Iterable[Number], received: Iterable[Number], flushed: Iterable[Number]) -> SinkReport:
    written, delivered, done = set(in_topic), Counter(received), set(flushed)
    return SinkReport(
        missing=tuple(sorted(written - delivered.keys())),
        unflushed=tuple(sorted(written - done)),
        unexpected=tuple(sorted(delivered.keys() - written)),
        duplicated=_repetitions(delivered),
    )


def _repetitions(seen: Mapping[Number, int]) -> dict[Number, int]:
    return {number: count - 1 for number, count in sorted(seen.items()) if count > 1}


def parse_number(record: Stored) -> Number:
    """Parses the number in a record of a verifiable source, with or without ``complete.record.data``."""
    value = payload(record.value)
    return int(payload(record.key)), int(value["seqno"] if isinstance(value, dict) else value)


def printed_numbers(lines: Iterable[Mapping[str, Any]], connector: str, mark: str | None = None) -> list[Number]:
    """Returns the numbers in lines that a connector printed with the mark (``committed``, ``flushed``), or without a mark."""
    marks = {"committed", "flushed"}
    return [
        (int(line["task"]), _seqno(line["seqno"]))
        for line in lines
        if line.get("name") == connector and "seqno" in line and (line.get(mark) is True if mark else not marks & line.keys())
    ]


def _seqno(value: Any) -> int:
    return int(value["seqno"] if isinstance(value, Mapping) else value)


class VerifiableCheck:
    """Reports on one source, one topic, and one sink, from the topic and the workers' output."""

    def __init__(self, bootstrap: str, topic: str, source: str, sink: str | None = None) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._source = source
        self._sink = sink

    def in_topic(self) -> list[Number]:
        return [parse_number(record) for record in read_topic(self._bootstrap, self._topic)]

    def source(self, lines: Iterable[Mapping[str, Any]]) -> SourceReport:
        return source_report(self.in_topic(), printed_numbers(lines, self._source, "committed"))

    def sink(self, lines: Iterable[Mapping[str, Any]]) -> SinkReport:
        assert self._sink is not None, "this check has no sink"
        found = list(lines)
        return sink_report(self.in_topic(), printed_numbers(found, self._sink), printed_numbers(found, self._sink, "flushed"))
