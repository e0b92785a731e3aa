"""A recording equals itself, and the comparison finds each kind of difference in a changed copy."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

import pytest

from tests.cluster.topics import Stored
from tests.interop.recording import SCENARIOS, Comparison, Recorded, Recording, Step, load_recording
from tests.interop.stored_shape import is_compact, murmur2_partition, shape_of

NAMES = {"tmp": "/tmp/x", "lines": "lines", "numbers": "numbers", "own": "own"}

Change = Callable[[str, list[Stored]], list[Stored]]
"""Takes the role and the records of each step and returns the records to store instead."""


def play(recording: Recording, change: Change = lambda role, records: records) -> list[str]:
    """Compares a recording with a worker that stores the recorded records with the change applied."""
    return compare(recording, recording, change)


def compare(recording: Recording, stored: Recording, change: Change = lambda role, records: records) -> list[str]:
    comparison = Comparison(recording)
    found = []
    for number, step in enumerate(stored.steps):
        comparison.start_step(number)
        for role, records in step.records.items():
            partitions = recording.topics[role]["partitions"]
            comparison.add(role, change(role, [_stored(role, one, partitions) for one in records]))
        found += comparison.missing()
    return comparison.wrong + found


def _stored(role: str, record: Recorded, partitions: int) -> Stored:
    key = record.key.encode()
    value = None if record.value is None else record.value.encode()
    return Stored(role, murmur2_partition(key, partitions), record.offset or 0, 0, key, value)


def in_role(role: str, key: str, change: Callable[[Stored], list[Stored]]) -> Change:
    """Returns a change that applies to every record with the key."""

    def changed(at: str, records: list[Stored]) -> list[Stored]:
        if at != role:
            return records
        return [new for one in records for new in (change(one) if one.key_text == key and one.value else [one])]

    return changed


def with_value(one: Stored, value: object) -> Stored:
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return dataclasses.replace(one, value=text.encode())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_recording_equals_itself(scenario: str) -> None:
    assert play(load_recording(scenario, NAMES)) == []


def test_generations_workers_times_and_counts_are_ignored() -> None:
    def other(role: str, records: list[Stored]) -> list[Stored]:
        def changed(one: Stored) -> Stored:
            value = one.json
            if role == "status" and value and "state" in value:
                return with_value(one, {**value, "worker_id": "elsewhere:1", "generation": 99})
            if role == "offsets" and value and "seqno" in value:
                return with_value(one, {"seqno": value["seqno"] + 7})
            return one

        return [changed(one) for one in records]

    assert play(load_recording("life_cycle", NAMES), other) == []


def test_moved_connectors_may_differ() -> None:
    recording = load_recording("life_cycle", NAMES)
    assert compare(recording, moved(recording, "born-paused", ["bad-task"])) == []


def test_number_of_moved_connectors_must_be_equal() -> None:
    recording = load_recording("life_cycle", NAMES)
    for instead in ([], ["born-paused", "bad-task"]):
        found = compare(recording, moved(recording, "born-paused", instead))
        assert any("what becomes UNASSIGNED should be" in one for one in found), found


def test_moved_connector_must_keep_its_state() -> None:
    recording = load_recording("life_cycle", NAMES)
    found = compare(recording, moved(recording, "lines-sink", ["lines-src"]))  # lines-sink is STOPPED, lines-src is RUNNING
    assert any("status-connector-lines-src should end as RUNNING, is STOPPED" in one for one in found), found


def moved(recording: Recording, connector: str, instead: list[str]) -> Recording:
    """Returns the recording with other connectors moving instead of this one."""
    key, others = f"status-connector-{connector}", [f"status-connector-{other}" for other in instead]

    def changed(step: Step) -> Step:
        if not step.moves:
            return step
        status = [
            dataclasses.replace(one, key=name)
            for one in step.records["status"]
            for name in (others if one.key == key else [one.key])
        ]
        return dataclasses.replace(step, records={**step.records, "status": status})

    return dataclasses.replace(recording, steps=[changed(step) for step in recording.steps])


def test_repeated_statuses_are_ignored() -> None:
    def twice(role: str, records: list[Stored]) -> list[Stored]:
        return records + records if role == "status" else records

    assert play(load_recording("own_offsets_topic", NAMES), twice) == []


def _reversed_members(one: Stored) -> list[Stored]:
    return [with_value(one, dict(reversed(one.json.items())))]


def _reversed_properties(one: Stored) -> list[Stored]:
    return [with_value(one, {"properties": dict(reversed(one.json["properties"].items()))})]


TASK, CONNECTOR, OFFSET = "status-task-lines-src-0", "connector-lines-src", '["lines-src",{"filename":"/tmp/x/in.txt"}]'

CHANGES: dict[str, tuple[Change, str]] = {
    "config record lost": (in_role("configs", "commit-lines-src", lambda one: []), "configs: expected commit-lines-src"),
    "config record duplicated": (in_role("configs", "target-state-lines-src", lambda one: [one, one]), "configs: expected"),
    "config value": (in_role("configs", "commit-lines-src", lambda one: [with_value(one, {"tasks": 2})]), '{"tasks":2}'),
    "config as text": (in_role("configs", "commit-lines-src", lambda one: [with_value(one, {"tasks": "1"})]), '{"tasks":"1"}'),
    "config property": (
        in_role("configs", "task-lines-src-0", lambda one: [with_value(one, {"properties": {}})]),
        "configs: expected task-lines-src-0",
    ),
    "config member order": (in_role("configs", CONNECTOR, _reversed_properties), "configs: members of connector-lines-src"),
    "target state without v2": (
        in_role("configs", "target-state-lines-src", lambda one: [with_value(one, {"state": one.json["state"]})]),
        "configs: expected target-state-lines-src",
    ),
    "restart member order": (in_role("configs", "restart-connector-lines-src", _reversed_members), "restart-connector"),
    "session key truncated": (
        in_role("configs", "session-key", lambda one: [with_value(one, {**one.json, "key": "abc="})]),
        "configs: expected session-key",
    ),
    "config offset": (
        lambda role, records: [dataclasses.replace(r, offset=r.offset + 1) for r in records] if role == "configs" else records,
        "should be at offset 0, is at 1",
    ),
    "config partition": (
        lambda role, records: [dataclasses.replace(r, partition=1) for r in records] if role == "configs" else records,
        "should be in partition 0, is in 1",
    ),
    "status lost": (in_role("status", TASK, lambda one: []), f"{TASK} should end as RUNNING, is nothing"),
    "status member order": (in_role("status", TASK, _reversed_members), "status: not expected"),
    "status without version": (
        in_role("status", TASK, lambda one: [with_value(one, {k: v for k, v in one.json.items() if k != "version"})]),
        "status: not expected",
    ),
    "generation as text": (
        in_role("status", TASK, lambda one: [with_value(one, {**one.json, "generation": "3"})]),
        "status: not expected",
    ),
    "unexpected trace": (
        in_role("status", TASK, lambda one: [with_value(one, {**one.json, "trace": "x"})]),
        "status: not expected",
    ),
    "state omitted": (
        in_role("status", TASK, lambda one: [] if one.json["state"] == "UNASSIGNED" else [one]),
        f'status: missing {TASK} -> {{"state": "UNASSIGNED"',
    ),
    "other state": (
        in_role("status", TASK, lambda one: [with_value(one, {**one.json, "state": "PAUSED"})]),
        "should end as RUNNING, is PAUSED",
    ),
    "unknown status": (
        in_role("status", TASK, lambda one: [one, dataclasses.replace(one, key=b"status-task-other-0")]),
        "status: not expected: status-task-other-0",
    ),
    "status partition": (
        in_role("status", TASK, lambda one: [dataclasses.replace(one, partition=one.partition ^ 1)]),
        f"status: {TASK} should be in partition",
    ),
    "no tombstones": (
        lambda role, records: [r for r in records if r.value] if role == "status" else records,
        f"{TASK} should end as None",
    ),
    "spaces in JSON": (
        in_role("status", TASK, lambda one: [with_value(one, json.dumps(one.json))]),
        "status: not as Jackson writes it",
    ),
    "offset value": (
        in_role("offsets", OFFSET, lambda one: [with_value(one, {"position": one.json["position"] + 1})]),
        "offsets: not expected",
    ),
    "offset lost": (in_role("offsets", OFFSET, lambda one: []), "offsets: missing"),
    "offset key with spaces": (
        in_role("offsets", OFFSET, lambda one: [dataclasses.replace(one, key=(one.key or b"").replace(b",", b", "))]),
        "offsets: not as Jackson writes it",
    ),
    "count as text": (
        in_role("offsets", '["numbers",{"id":0}]', lambda one: [with_value(one, {"seqno": "7"})]),
        "offsets: not expected",
    ),
    "no offset tombstones": (
        lambda role, records: [r for r in records if r.value] if role == "offsets" else records,
        "-> tombstone",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_each_kind_of_difference_is_found(name: str) -> None:
    change, message = CHANGES[name]
    found = play(load_recording("life_cycle", NAMES), change)
    assert any(message in one for one in found), found


def test_missing_records_of_a_separate_offsets_topic_are_reported() -> None:
    def without(role: str, records: list[Stored]) -> list[Stored]:
        return [] if role == "own" else records

    assert any("own: missing" in one for one in play(load_recording("own_offsets_topic", NAMES), without))


def test_missing_fencing_record_of_an_exactly_once_source_is_reported() -> None:
    change = in_role("configs", "tasks-fencing-numbers", lambda one: [])
    assert any("tasks-fencing-numbers" in one for one in play(load_recording("exactly_once", NAMES), change))


@pytest.mark.parametrize(
    ("key", "partitions", "expected"),
    [
        ("status-connector-lines-src", 5, 2),
        ("status-task-lines-src-0", 5, 0),
        ("status-connector-bad-connector", 5, 1),
        ("status-task-sp ace é-0", 5, 1),
        ('["numbers",{"id":0}]', 25, 14),
        ('["numbers",{"id":1}]', 25, 3),
        ('["numbers",{"id":2}]', 25, 11),
        ('["lines-src",{"filename":"/tmp/connect-recording/in.txt"}]', 25, 13),
    ],
)
def test_partitions_equal_those_of_the_java_client(key: str, partitions: int, expected: int) -> None:
    assert murmur2_partition(key.encode(), partitions) == expected


def test_compact_json_is_the_format_of_jackson() -> None:
    assert is_compact('{"a":"é\\n","b":null}')
    assert not is_compact('{"a": 1}')
    assert not is_compact('{"a":"\\u00e9"}')


def test_shape_ignores_counts_and_order_of_task_properties_only() -> None:
    assert shape_of("offsets", "k", '{"position":6}') != shape_of("offsets", "k", '{"position":8}')
    assert shape_of("offsets", "k", '{"seqno":6}') == shape_of("offsets", "k", '{"seqno":8}')
    assert shape_of("configs", "task-x-0", '{"properties":{"a":"1","b":"2"}}') == shape_of(
        "configs", "task-x-0", '{"properties":{"b":"2","a":"1"}}'
    )
