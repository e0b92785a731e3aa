"""Recordings of Apache's internal topics, and how what another worker stored is compared with them, step by step. Pure.

A step compares so: the config topic record by record and offset by offset; statuses and offsets as sets of shapes (see
stored_shape) and by what they leave behind per key. Statuses and offsets that belong to a step may come in the next one's time.

When a second worker comes or goes, which connectors and tasks change hands is the leader's choice (Apache's follows Java's hash
codes); how many do is not, nor that each ends in the state that it had.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.topics import Stored
from tests.interop.stored_shape import is_compact, murmur2_partition, shape_of, state_of

RECORDINGS = Path(__file__).parent / "recordings"
SCENARIOS = (
    "life_cycle", "exactly_once", "own_offsets_topic", "protocol_sessioned", "protocol_compatible", "protocol_eager",
)  # fmt: skip
OFFSETS = ("offsets", "own")
_MOVING = ("start_second", "stop_second", "wait")
_UNASSIGNED = "UNASSIGNED"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One record of a recording. The offset counts in the config topic alone."""

    key: str
    value: str | None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    number: int
    name: str
    do: str
    """``http``, or what the test does itself."""
    request: Mapping[str, Any]
    status: int | None
    records: Mapping[str, Sequence[Recorded]]
    """By the topic's role: configs, status, offsets, own. Of statuses and offsets with one shape one alone."""
    after: Mapping[str, str | None]
    """Status key -> state, None for a tombstone, for keys that the step left in another state than before."""

    @property
    def moves(self) -> bool:
        """Whether workers come or go, so that work changes hands."""
        return self.do in _MOVING

    @property
    def deletes(self) -> bool:
        return bool(self.request.get("method") == "DELETE")

    def shapes(self, role: str) -> set[str]:
        return {shape_of(role, one.key, one.value) for one in self.records.get(role, ())}


@dataclass(frozen=True, slots=True)
class Recording:
    scenario: str
    worker: Mapping[str, str]
    topics: Mapping[str, Mapping[str, Any]]
    """Role -> ``partitions`` and ``settings`` of the topic as the worker created it."""
    steps: Sequence[Step]


def load_recording(scenario: str, names: Mapping[str, str]) -> Recording:
    """The recording with its placeholders filled in: ``tmp lines numbers own``."""
    text = (RECORDINGS / f"{scenario}.jsonl").read_text(encoding="utf-8")
    for name, value in names.items():
        text = text.replace("{{" + name + "}}", value)
    head, *lines = (json.loads(line) for line in text.splitlines())
    steps = [
        Step(
            number,
            line["step"],
            line["do"],
            line.get("request", {}),
            line.get("status"),
            {role: [Recorded(**one) for one in records] for role, records in line["records"].items()},
            line.get("after", {}),
        )
        for number, line in enumerate(lines)
    ]
    return Recording(head["scenario"], head["worker"], head["topics"], steps)


@dataclass(slots=True)
class Comparison:
    """Goes through a recording beside a running worker: `begin` a step, `add` what was stored, ask what is `lacking`."""

    recording: Recording
    _step: Step = field(init=False)
    _configs: int = 0
    """Config records so far."""
    _configs_due: int = 0
    """Config records that should be there when this step is over."""
    _states: dict[str, str | None] = field(default_factory=dict)
    _states_due: dict[str, str | None] = field(default_factory=dict)
    _recorded: dict[str, str | None] = field(default_factory=dict)
    """As `_states_due`, with what moves in Apache's places."""
    _unassigned: set[str] = field(default_factory=set)
    """Keys that were UNASSIGNED in this step's time."""
    _seen: dict[str, set[str]] = field(default_factory=dict)
    """Role -> shapes of this step's time."""
    _known: dict[str, set[str]] = field(default_factory=dict)
    """Role -> shapes of all earlier steps."""
    wrong: list[str] = field(default_factory=list)
    """What can't be put right by waiting."""

    def begin(self, number: int) -> Step:
        if number:
            for role in ("status", *OFFSETS):
                self._known.setdefault(role, set()).update(self._step.shapes(role))
        self._step = self.recording.steps[number]
        self._configs_due += len(self._step.records.get("configs", ()))
        self._recorded |= self._step.after
        if not self._step.moves:
            self._states_due |= self._step.after
        self._seen, self._unassigned = {}, set()
        return self._step

    def add(self, role: str, records: Sequence[Stored]) -> None:
        partitions = self.recording.topics[role]["partitions"]
        for record in records:
            key, value = record.key_text, None if record.value is None else record.value.decode()
            self._check_form(role, record, value, partitions)
            if role == "configs":
                self._add_config(record.offset, key, value)
                continue
            if role == "status":
                self._states[key] = state_of(value)
                if self._states[key] == _UNASSIGNED:
                    self._unassigned.add(key)
            shape = shape_of(role, key, value)
            self._seen.setdefault(role, set()).add(shape)
            if not self._is_expected(role, key, shape):
                self._say(f"{role}: not expected: {shape}")

    def lacking(self) -> list[str]:
        """What this step still waits for; with nothing lacking and nothing wrong the step is over."""
        found = []
        if self._configs < self._configs_due:
            expected = self._config_at(self._configs)
            found.append(f"configs: missing {expected.key} = {expected.value} at offset {expected.offset}")
        for key, state in self._states_due.items():
            if not self._ends_well(key, state):
                found.append(f"status: {key} should end as {state}, is {self._states.get(key, 'nothing')}")
        if self._step.moves:
            found.extend(self._moves_lacking())
        for role in ("status", *OFFSETS):
            shapes = self._required(role) - self._seen.get(role, set())
            found.extend(f"{role}: missing {shape}" for shape in sorted(shapes))
        return [f"{self._where()}: {one}" for one in found]

    def _ends_well(self, key: str, due: str | None) -> bool:
        state = self._states.get(key, "nothing")
        if state == due:
            return True
        # What is deleted is forgotten by the leader, and Apache's worker that stops it may have the last word.
        forgotten = self._step.deletes and due == _UNASSIGNED and state is None
        return forgotten or (self._step.moves and state == _UNASSIGNED)

    def _moves_lacking(self) -> Iterator[str]:
        moved = Counter(_kind_of(one.key) for one in self._step.records.get("status", ()) if state_of(one.value) == _UNASSIGNED)
        if not self._is_as_many(moved, found := Counter(map(_kind_of, self._unassigned))):
            yield f"status: what becomes UNASSIGNED should be {dict(moved)}, is {dict(found)}"
        left = Counter(_kind_of(key) for key, state in self._recorded.items() if state == _UNASSIGNED)
        found = Counter(_kind_of(key) for key, state in self._states.items() if state == _UNASSIGNED)
        if not self._is_as_many(left, found):
            yield f"status: what stays UNASSIGNED should be {dict(left)}, is {dict(found)}"

    def _is_as_many(self, due: Counter[str], found: Counter[str]) -> bool:
        # A task that has FAILED is over and stays so, whoever it is given to.
        failed = sum(state == "FAILED" and _kind_of(key) == "task" for key, state in self._states_due.items())
        tasks = due["task"]
        return found["connector"] == due["connector"] and tasks - min(tasks, failed) <= found["task"] <= tasks

    def _required(self, role: str) -> set[str]:
        if role == "status":
            return set() if self._step.moves else self._required_statuses()
        shapes = self._step.shapes(role)
        # A source that counts goes on in any step's time; what it stores is awaited once.
        return {one for one in shapes if not (_is_count(one) and one in self._known.get(role, ()))}

    def _required_statuses(self) -> set[str]:
        # Tombstones and topics are seen by what they leave behind: workers repeat them, and both makes in other places.
        records = [one for one in self._step.records.get("status", ()) if state_of(one.value) not in (None, "topic")]
        return {shape_of("status", one.key, one.value) for one in records}

    def _is_expected(self, role: str, key: str, shape: str) -> bool:
        nearby = set(self._step.shapes(role))
        if self._step.number:
            nearby |= self.recording.steps[self._step.number - 1].shapes(role)
        if role == "status" and self._states_due.get(key) is not None and self._is_moving:
            # Whatever it was told to be before it may be told to be on the other worker.
            return self._states[key] == _UNASSIGNED or shape in nearby | self._known.get(role, set())
        # Counting sources store in any step's time.
        return shape in nearby or (_is_count(shape) and shape in self._known.get(role, set())) or self._is_topic_in_use(key)

    def _is_topic_in_use(self, status_key: str) -> bool:
        """Each task may find a topic active that is known to be; and a sink that lived but for a moment may have read, or not."""
        _, is_topic, connector = status_key.partition(":connector-")
        return bool(is_topic) and f"status-connector-{connector}" in self._recorded

    @property
    def _is_moving(self) -> bool:
        return self._step.moves or (self._step.number > 0 and self.recording.steps[self._step.number - 1].moves)

    def _add_config(self, offset: int, key: str, value: str | None) -> None:
        number, self._configs = self._configs, self._configs + 1
        if number >= self._configs_due:
            self._say(f"configs: not expected: {key} = {value}")
            return
        expected = self._config_at(number)
        if shape_of("configs", expected.key, expected.value) != shape_of("configs", key, value):
            self._say(f"configs: expected {expected.key} = {expected.value}, got {key} = {value}")
        elif offset != expected.offset:
            self._say(f"configs: {key} should be at offset {expected.offset}, is at {offset}")
        elif self._order_counts(key) and expected.value and value and _members(expected.value) != _members(value):
            self._say(f"configs: members of {key} should be {_members(expected.value)}, are {_members(value)}")

    def _order_counts(self, key: str) -> bool:
        """A config that was given whole keeps its order; one that was patched, and a task's, went through a hash map."""
        return key.startswith("connector-") and self._step.request.get("method") in ("POST", "PUT")

    def _config_at(self, number: int) -> Recorded:
        return list(_configs_of(self.recording))[number]

    def _check_form(self, role: str, record: Stored, value: str | None, partitions: int) -> None:
        if (expected := murmur2_partition(record.key or b"", partitions)) != record.partition:
            self._say(f"{role}: {record.key_text} should be in partition {expected}, is in {record.partition}")
        for text in (value, record.key_text if role in OFFSETS else None):
            if text is not None and not is_compact(text):
                self._say(f"{role}: not as Jackson writes it: {text}")

    def _say(self, what: str) -> None:
        self.wrong.append(f"{self._where()}: {what}")

    def _where(self) -> str:
        return f"step {self._step.number} ({self._step.name})"


def _configs_of(recording: Recording) -> Iterator[Recorded]:
    for step in recording.steps:
        yield from step.records.get("configs", ())


def _kind_of(status_key: str) -> str:
    return "task" if status_key.startswith("status-task-") else "connector"


def _is_count(shape: str) -> bool:
    return "<free>" in shape and "seqno" in shape


def _members(value: str) -> list[str]:
    return list(json.loads(value).get("properties", ()))
