"""What Apache Kafka Connect 4.3.1 wrote into its internal topics, step by step (recordings/internal_topics.jsonl)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SCENARIOS = (
    "life_cycle",
    "exactly_once",
    "own_offsets_topic",
    "protocol_sessioned",
    "protocol_compatible",
    "protocol_eager",
)
PARTITIONS = {"configs": 1, "offsets": 25, "status": 5, "own": 25}


@dataclass(frozen=True, slots=True)
class Recorded:
    """One record; ``topic`` is one of PARTITIONS."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Step:
    """What was done, and what it made the workers write; ``config_offset`` is what they told the group after it."""

    scenario: str
    name: str
    config_offset: int | None
    records: tuple[Recorded, ...]

    def of(self, topic: str) -> list[Recorded]:
        return [record for record in self.records if record.topic == topic]


@cache
def all_steps() -> tuple[Step, ...]:
    lines = (Path(__file__).parent / "recordings" / "internal_topics.jsonl").read_text("utf-8").splitlines()
    return tuple(_step(json.loads(line)) for line in lines)


def steps(scenario: str) -> list[Step]:
    return [step for step in all_steps() if step.scenario == scenario]


def records(topic: str) -> Iterator[Recorded]:
    """All records of one of the topics, over all scenarios."""
    return (record for step in all_steps() for record in step.of(topic))


def _step(line: dict[str, object]) -> Step:
    found = line["records"]
    assert isinstance(found, list)
    recorded = tuple(
        Recorded(topic, partition, offset, timestamp, key.encode(), None if value is None else value.encode())
        for topic, partition, offset, timestamp, key, value in found
    )
    config_offset = line.get("config_offset")
    assert config_offset is None or isinstance(config_offset, int)
    return Step(str(line["scenario"]), str(line["step"]), config_offset, recorded)
