"""Dead letters: the records of a dead letter queue with the context that their headers describe (KIP-298)."""

from __future__ import annotations

import bisect
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from worker.kafka.stored_records import KafkaRecord  # not at run time: the control process parses requests too

PREFIX: Final = "__connect.errors."
REPLAYED: Final = "__sluice.replayed"
"""A header, without a value, of records that a replay has written with other contents than those of the dead letter."""
_SINK_TOPIC, _SOURCE_TOPIC = "errors.deadletterqueue.topic.name", "errors.deadletterqueue.source.topic.name"


def dead_letter_topic(config: Mapping[str, str | None]) -> str | None:
    """Returns the topic of a connector's dead letter queue, or None."""
    return (config.get(_SINK_TOPIC) or "").strip() or (config.get(_SOURCE_TOPIC) or "").strip() or None


def is_source_queue(config: Mapping[str, str | None]) -> bool:
    """Whether the queue is that of a source, whose dead letters are records as JSON."""
    return not (config.get(_SINK_TOPIC) or "").strip()


@dataclass(frozen=True, slots=True)
class LetterContext:
    """What the headers say about a failure. All are None without ``errors.deadletterqueue.context.headers.enable``."""

    topic: str | None = None
    partition: str | None = None
    """A number for sinks; the source partition as JSON for sources."""
    offset: str | None = None
    connector: str | None = None
    task: str | None = None
    stage: str | None = None
    class_name: str | None = None
    exception_class: str | None = None
    message: str | None = None
    trace: str | None = None

    def as_json(self, *, with_trace: bool) -> dict[str, str | None]:
        found = {
            "topic": self.topic,
            "partition": self.partition,
            "offset": self.offset,
            "connector": self.connector,
            "task": self.task,
            "stage": self.stage,
            "class": self.class_name,
            "exception_class": self.exception_class,
            "message": self.message,
        }
        return {**found, "trace": self.trace} if with_trace else found


_MEMBERS = {
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "connector.name": "connector",
    "task.id": "task",
    "stage": "stage",
    "class.name": "class_name",
    "exception.class.name": "exception_class",
    "exception.message": "message",
    "exception.stacktrace": "trace",
}


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One record of a dead letter queue."""

    stored: KafkaRecord
    context: LetterContext

    @classmethod
    def of(cls, stored: KafkaRecord) -> DeadLetter:
        """Reads the context headers. A header that occurs several times counts last: the last failure is the current one."""
        found = {
            member: data.decode("utf-8", "replace")
            for name, data in stored.headers
            if name.startswith(PREFIX) and data is not None and (member := _MEMBERS.get(name.removeprefix(PREFIX)))
        }
        return cls(stored, LetterContext(**found))

    @property
    def original_headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """The headers that the record had before it failed."""
        return tuple(one for one in self.stored.headers if not one[0].startswith(PREFIX))

    @property
    def origin(self) -> tuple[str, int, int] | None:
        """Topic, partition, and offset from which a sink read the record; None if unknown, and for sources."""
        context = self.context
        if context.topic is None or context.partition is None or context.offset is None:
            return None
        if not (context.partition.isdecimal() and context.offset.isdecimal()):
            return None
        return context.topic, int(context.partition), int(context.offset)

    def is_of(self, connector: str) -> bool:
        """Whether the letter is the connector's; several may share a queue. Without headers, it is treated as its own."""
        return self.context.connector in (None, connector)


@dataclass(frozen=True, slots=True)
class LetterSelection:
    """Which dead letters of a queue to read. None selects all."""

    cause: str | None = None
    """The ID of a cause, or its beginning."""
    partition: int | None = None
    """A partition of the queue."""
    offsets: tuple[tuple[int, int], ...] | None = None
    """Ranges of offsets in the queue, including both ends: in order, and none touches another."""
    with_replayed: bool = False
    """Also those that were replayed already."""

    def contains(self, partition: int, offset: int) -> bool:
        """Whether the position is selected."""
        if self.partition is not None and partition != self.partition:
            return False
        if self.offsets is None:
            return True
        at = bisect.bisect_right(self.offsets, (offset, math.inf)) - 1
        return at >= 0 and offset <= self.offsets[at][1]


def parse_offsets(text: str) -> tuple[tuple[int, int], ...]:
    """Returns the ranges of ``5-9,12`` in order, joined where they overlap or touch. Raises ValueError."""
    ranges = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        one = int(first), int(last if dash else first)
        if one[0] < 0 or one[1] < one[0]:
            raise ValueError(part)
        ranges.append(one)
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return tuple(joined)


def shown_bytes(data: bytes | None, max_bytes: int) -> dict[str, Any] | None:
    """Returns bytes as text, or in hex if they are no UTF-8."""
    if data is None:
        return None
    shown: dict[str, Any] = {"size": len(data)}
    head = data[:max_bytes]
    try:
        shown["text"] = head.decode("utf-8", "strict" if len(head) == len(data) else "ignore")
    except UnicodeDecodeError:
        shown["hex"] = head.hex(" ")
    if len(head) < len(data):
        shown["is_truncated"] = True
    return shown


def parse_source_letter(data: bytes | None) -> Any:
    """Returns the JSON of a source's dead letter. Raises ValueError."""
    if data is None:
        raise ValueError("it has no value")
    return json.loads(data)
