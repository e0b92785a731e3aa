"""Recordings of Apache's internal topics, and their comparison with the records of another worker, step by step. Pure.

A step compares the config topic record by record, with offsets. It compares statuses and offsets as sets of shapes (see
stored_shape), and the last status of each key. Statuses and offsets of a step may arrive during the next step.

When a second worker joins or leaves, the leader may choose which connectors and tasks move (Apache's choice follows Java's hash
codes). Their number, and the state that each has afterwards, must be equal.
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
    """One record of a recording. Only the config topic's offsets are compared."""

    key: str
    value: str | None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    number: int
    name: str
    do: str
    """``http``, or an action of the test."""
    request: Mapping[str, Any]
    status: int | None
    records: Mapping[str, Sequence[Recorded]]
    """By the topic's role: configs, status, offsets, own. Statuses and offsets have one record for each shape."""
    after: Mapping[str, str | None]
    """Status key -> state (None for a tombstone), for keys whose state the step changed."""

    @property
    def moves(self) -> bool:
        """Whether workers join or leave, so that connectors and tasks move."""
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
    """Role -> ``partitions`` and ``settings`` of the topic that the worker created."""
    steps: Sequence[Step]


def load_recording(scenario: str, names: Mapping[str, str]) -> Recording:
    """Loads a recording and replaces its placeholders: ``tmp lines numbers own``."""
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
    """Compares a recording with a running worker: call `start_step`, `add` the stored records, and check `missing`."""

    recording: Recording
    _step: Step = field(init=False)
    _configs: int = 0
    """Number of config records so far."""
    _configs_due: int = 0
    """Number of config records expected at the end of this step."""
    _states: dict[str, str | None] = field(default_factory=dict)
    _states_due: dict[str, str | None] = field(default_factory=dict)
    _recorded: dict[str, str | None] = field(default_factory=dict)
    """Like `_states_due`, with the connectors and tasks that moved in Apache's recording."""
    _unassigned: set[str] = field(default_factory=set)
    """Keys that were UNASSIGNED during this step."""
    _seen: dict[str, set[str]] = field(default_factory=dict)
    """Role -> shapes seen during this step."""
    _known: dict[str, set[str]] = field(default_factory=dict)
    """Role -> shapes of all earlier steps."""
    wrong: list[str] = field(default_factory=list)
    """Differences that waiting cannot resolve."""

    def start_step(self, number: int) -> Step:
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
            self._check_format(role, record, value, partitions)
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
                self._report(f"{role}: not expected: {shape}")

    def missing(self) -> list[str]:
        """Returns what this step still waits for. Without missing and wrong records the step is done."""
        found = []
        if self._configs < self._configs_due:
            expected = self._config_at(self._configs)
            found.append(f"configs: missing {expected.key} = {expected.value} at offset {expected.offset}")
        for key, state in self._states_due.items():
            if not self._is_in_final_state(key, state):
                found.append(f"status: {key} should end as {state}, is {self._states.get(key, 'nothing')}")
        if self._step.moves:
            found.extend(self._missing_moves())
        for role in ("status", *OFFSETS):
            shapes = self._required(role) - self._seen.get(role, set())
            found.extend(f"{role}: missing {shape}" for shape in sorted(shapes))
        return [f"{self._step_label()}: {one}" for one in found]

    def _is_in_final_state(self, key: str, due: str | None) -> bool:
        state = self._states.get(key, "nothing")
        if state == due:
            return True
        # The leader writes tombstones for a deleted connector; Apache's worker may write its last status after that.
        forgotten = self._step.deletes and due == _UNASSIGNED and state is None
        return forgotten or (self._step.moves and state == _UNASSIGNED)

    def _missing_moves(self) -> Iterator[str]:
        moved = Counter(
            _entity_kind(one.key) for one in self._step.records.get("status", ()) if state_of(one.value) == _UNASSIGNED
        )
        if not self._has_expected_counts(moved, found := Counter(map(_entity_kind, self._unassigned))):
            yield f"status: what becomes UNASSIGNED should be {dict(moved)}, is {dict(found)}"
        left = Counter(_entity_kind(key) for key, state in self._recorded.items() if state == _UNASSIGNED)
        found = Counter(_entity_kind(key) for key, state in self._states.items() if state == _UNASSIGNED)
        if not self._has_expected_counts(left, found):
            yield f"status: what stays UNASSIGNED should be {dict(left)}, is {dict(found)}"

    def _has_expected_counts(self, due: Counter[str], found: Counter[str]) -> bool:
        # A FAILED task stays failed wherever it is assigned.
        failed = sum(state == "FAILED" and _entity_kind(key) == "task" for key, state in self._states_due.items())
        tasks = due["task"]
        return found["connector"] == due["connector"] and tasks - min(tasks, failed) <= found["task"] <= tasks

    def _required(self, role: str) -> set[str]:
        if role == "status":
            return set() if self._step.moves else self._required_statuses()
        shapes = self._step.shapes(role)
        # A counting source stores offsets during any step; wait for them only once.
        return {one for one in shapes if not (_is_count(one) and one in self._known.get(role, ()))}

    def _required_statuses(self) -> set[str]:
        # Tombstones and active topics are compared by the last status: workers repeat them at different points.
        records = [one for one in self._step.records.get("status", ()) if state_of(one.value) not in (None, "topic")]
        return {shape_of("status", one.key, one.value) for one in records}

    def _is_expected(self, role: str, key: str, shape: str) -> bool:
        nearby = set(self._step.shapes(role))
        if self._step.number:
            nearby |= self.recording.steps[self._step.number - 1].shapes(role)
        if role == "status" and self._states_due.get(key) is not None and self._is_moving:
            # The other worker may report any earlier state again.
            return self._states[key] == _UNASSIGNED or shape in nearby | self._known.get(role, set())
        # Counting sources store offsets during any step.
        return shape in nearby or (_is_count(shape) and shape in self._known.get(role, set())) or self._is_topic_in_use(key)

    def _is_topic_in_use(self, status_key: str) -> bool:
        """Any task may report an active topic again; whether a short-lived sink reports one depends on timing."""
        _, is_topic, connector = status_key.partition(":connector-")
        return bool(is_topic) and f"status-connector-{connector}" in self._recorded

    @property
    def _is_moving(self) -> bool:
        return self._step.moves or (self._step.number > 0 and self.recording.steps[self._step.number - 1].moves)

    def _add_config(self, offset: int, key: str, value: str | None) -> None:
        number, self._configs = self._configs, self._configs + 1
        if number >= self._configs_due:
            self._report(f"configs: not expected: {key} = {value}")
            return
        expected = self._config_at(number)
        if shape_of("configs", expected.key, expected.value) != shape_of("configs", key, value):
            self._report(f"configs: expected {expected.key} = {expected.value}, got {key} = {value}")
        elif offset != expected.offset:
            self._report(f"configs: {key} should be at offset {expected.offset}, is at {offset}")
        elif self._is_order_compared(key) and expected.value and value and _members(expected.value) != _members(value):
            self._report(f"configs: members of {key} should be {_members(expected.value)}, are {_members(value)}")

    def _is_order_compared(self, key: str) -> bool:
        """A whole config keeps its order; patched configs and task configs went through a Java hash map."""
        return key.startswith("connector-") and self._step.request.get("method") in ("POST", "PUT")

    def _config_at(self, number: int) -> Recorded:
        return list(_config_records(self.recording))[number]

    def _check_format(self, role: str, record: Stored, value: str | None, partitions: int) -> None:
        if (expected := murmur2_partition(record.key or b"", partitions)) != record.partition:
            self._report(f"{role}: {record.key_text} should be in partition {expected}, is in {record.partition}")
        for text in (value, record.key_text if role in OFFSETS else None):
            if text is not None and not is_compact(text):
                self._report(f"{role}: not as Jackson writes it: {text}")

    def _report(self, what: str) -> None:
        self.wrong.append(f"{self._step_label()}: {what}")

    def _step_label(self) -> str:
        return f"step {self._step.number} ({self._step.name})"


def _config_records(recording: Recording) -> Iterator[Recorded]:
    for step in recording.steps:
        yield from step.records.get("configs", ())


def _entity_kind(status_key: str) -> str:
    return "task" if status_key.startswith("status-task-") else "connector"


def _is_count(shape: str) -> bool:
    return "<free>" in shape and "seqno" in shape


def _members(value: str) -> list[str]:
    return list(json.loads(value).get("properties", ()))
