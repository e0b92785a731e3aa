"""What the verifiable connectors prove: every number once, in order, from the source's tasks through topics to the sink.

A source task counts 0, 1, 2, ... and prints each number when it hands it over, and again with ``committed`` when the broker has
acknowledged it. A sink task prints what it gets, and again with ``flushed``. The first part is pure.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.cluster.topics import Stored, payload, read_topic

Number = tuple[int, int]
"""(task of the source, its sequence number)."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """Numbers of a source in its topic. Empty members are what is wished for; ``duplicated`` within the promise."""

    counts: Mapping[int, int]
    """Task -> numbers it should have written: one more than the highest."""
    missing: tuple[Number, ...]
    """Below the highest of the task, and not in the topic."""
    lost: tuple[Number, ...]
    """Acknowledged to the task, and not in the topic."""
    duplicated: Mapping[Number, int]
    """Number -> how many times more than once."""
    disordered: tuple[Number, ...]
    """First seen after a higher one of the same task."""
    alternating: tuple[Number, ...]
    """Not the next after the task's record before it, and no step back either: runs of a task that wrote at the same time, unless
    numbers between are missing."""


@dataclass(frozen=True, slots=True)
class SinkReport:
    missing: tuple[Number, ...]
    """In the topic, never handed to the sink."""
    unflushed: tuple[Number, ...]
    """In the topic, never flushed by the sink."""
    invented: tuple[Number, ...]
    """Handed to the sink, not in the topic."""
    duplicated: Mapping[Number, int]


def source_report(in_topic: Iterable[Number], acknowledged: Iterable[Number]) -> SourceReport:
    """``in_topic`` in the order of the topic."""
    seen: Counter[Number] = Counter()
    highest: dict[int, int] = defaultdict(lambda: -1)
    disordered, alternating = [], []
    before: dict[int, int] = {}
    for number in in_topic:
        task, seqno = number
        if task in before and seqno > before[task] + 1:
            alternating.append(number)
        before[task] = seqno
        if not seen[number] and seqno < highest[task]:
            disordered.append(number)
        seen[number] += 1
        highest[task] = max(highest[task], seqno)
    return SourceReport(
        counts={task: last + 1 for task, last in sorted(highest.items())},
        missing=tuple((task, n) for task, last in sorted(highest.items()) for n in range(last) if (task, n) not in seen),
        lost=tuple(sorted(set(acknowledged) - seen.keys())),
        duplicated=_more_than_once(seen),
        disordered=tuple(disordered),
        alternating=tuple(alternating),
    )


def sink_report(in_topic: Iterable[Number], received: Iterable[Number], flushed: Iterable[Number]) -> SinkReport:
    there, got, done = set(in_topic), Counter(received), set(flushed)
    return SinkReport(
        missing=tuple(sorted(there - got.keys())),
        unflushed=tuple(sorted(there - done)),
        invented=tuple(sorted(got.keys() - there)),
        duplicated=_more_than_once(got),
    )


def _more_than_once(seen: Mapping[Number, int]) -> dict[Number, int]:
    return {number: count - 1 for number, count in sorted(seen.items()) if count > 1}


def number_of(record: Stored) -> Number:
    """The number in a record of a verifiable source, with ``complete.record.data`` or without."""
    value = payload(record.value)
    return int(payload(record.key)), int(value["seqno"] if isinstance(value, dict) else value)


def printed_numbers(lines: Iterable[Mapping[str, Any]], connector: str, mark: str | None = None) -> list[Number]:
    """Numbers in the lines that a connector printed: those with the mark (``committed``, ``flushed``), or those with none."""
    marks = {"committed", "flushed"}
    return [
        (int(line["task"]), _seqno(line["seqno"]))
        for line in lines
        if line.get("name") == connector and "seqno" in line and (line.get(mark) is True if mark else not marks & line.keys())
    ]


def _seqno(value: Any) -> int:
    return int(value["seqno"] if isinstance(value, Mapping) else value)


class VerifiableCheck:
    """The two reports for one source, one topic and one sink, from the broker and from what workers printed."""

    def __init__(self, bootstrap: str, topic: str, source: str, sink: str | None = None) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._source = source
        self._sink = sink

    def in_topic(self) -> list[Number]:
        return [number_of(record) for record in read_topic(self._bootstrap, self._topic)]

    def source(self, lines: Iterable[Mapping[str, Any]]) -> SourceReport:
        return source_report(self.in_topic(), printed_numbers(lines, self._source, "committed"))

    def sink(self, lines: Iterable[Mapping[str, Any]]) -> SinkReport:
        assert self._sink is not None, "this check has no sink"
        found = list(lines)
        return sink_report(self.in_topic(), printed_numbers(found, self._sink), printed_numbers(found, self._sink, "flushed"))
