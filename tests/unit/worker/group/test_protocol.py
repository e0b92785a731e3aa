"""The group protocol's bytes: those of Apache's workers, and whatever else may be found in a group."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.errors import DataError
from worker.group.protocol import (
    Assignment,
    Protocol,
    WorkerMetadata,
    allocation_after,
    decode_assignment,
    decode_metadata,
    encode_assignment,
    encode_metadata,
)
from worker.model import TaskId

# One description of a group a line: bytes and their meaning, recorded from Apache Kafka Connect 4.3.1.
GROUPS = [json.loads(line) for line in (Path(__file__).parent / "group_bytes.jsonl").read_text().splitlines()]
MEMBERS = [
    pytest.param(Protocol.of_wire_name(group["protocol"]), member, id=f"{group['scenario']}-{group['after_step']}-{number}")
    for group in GROUPS
    for number, member in enumerate(group["members"])
]


def work(entries: list[dict[str, Any]] | None) -> tuple[tuple[str, ...], tuple[TaskId, ...]]:
    """Connectors and tasks of a recording's entries."""
    found = [(entry["connector"], task) for entry in entries or () for task in entry["tasks"]]
    return tuple(name for name, task in found if task == -1), tuple(TaskId(name, task) for name, task in found if task >= 0)


def assignment_of(recorded: dict[str, Any]) -> Assignment:
    return Assignment(
        recorded["version"],
        recorded["error"],
        recorded["leader"],
        recorded["leader_url"],
        recorded["config_offset"],
        *work(recorded["assignment"]),
        *work(recorded.get("revoked")),
        recorded.get("delay", 0),
    )


@pytest.mark.parametrize(("protocol", "member"), MEMBERS)
def test_apaches_metadata_is_decoded_and_encoded_identically(protocol: Protocol, member: dict[str, Any]) -> None:
    data, recorded = base64.b64decode(member["metadata_b64"]), member["metadata"]
    metadata = decode_metadata(data)
    allocation = recorded.get("allocation")
    assert metadata == WorkerMetadata(
        recorded["url"], recorded["config_offset"], allocation and assignment_of(allocation)
    )  # fmt: skip
    assert encode_metadata(metadata, protocol) == data


@pytest.mark.parametrize(("protocol", "member"), MEMBERS)
def test_apaches_assignment_is_decoded_and_encoded_identically(protocol: Protocol, member: dict[str, Any]) -> None:
    data = base64.b64decode(member["assignment_b64"])
    assignment = decode_assignment(data)
    assert assignment == assignment_of(member["assignment"])
    assert assignment.version == protocol.version
    assert encode_assignment(assignment) == data


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
connectors = st.lists(names, unique=True, max_size=4).map(tuple)
tasks = st.lists(st.builds(TaskId, names, st.integers(0, 2**31 - 1)), unique=True, max_size=6).map(tuple)
offsets = st.integers(-1, 2**63 - 1)


@settings(deadline=None)
@given(
    st.builds(
        Assignment,
        version=st.sampled_from((1, 2)),
        error=st.integers(0, 1),
        leader=names,
        leader_url=names,
        config_offset=offsets,
        connectors=connectors,
        tasks=tasks,
        revoked_connectors=connectors,
        revoked_tasks=tasks,
        delay_ms=st.integers(0, 2**31 - 1),
    )
)
def test_assignment_round_trips(assignment: Assignment) -> None:
    back = decode_assignment(encode_assignment(assignment))
    # Tasks come back beside the others of their connector.
    assert set(back.tasks) == set(assignment.tasks)
    assert set(back.revoked_tasks) == set(assignment.revoked_tasks)
    assert (back.connectors, back.revoked_connectors) == (assignment.connectors, assignment.revoked_connectors)
    assert (back.leader, back.config_offset, back.delay_ms) == (assignment.leader, assignment.config_offset, assignment.delay_ms)
    assert decode_assignment(encode_assignment(back)) == back


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_random_bytes_raise_data_error_or_decode(data: bytes) -> None:
    for decode in (decode_assignment, decode_metadata):
        try:
            decode(data)
        except DataError as e:
            refusal = e.message
        else:
            continue
        assert "worker group" in refusal


def test_every_prefix_of_an_assignment_decodes_or_raises() -> None:
    data = base64.b64decode(GROUPS[1]["members"][0]["assignment_b64"])
    whole = decode_assignment(data)
    fixed_part = len(encode_assignment(Assignment(0, leader=whole.leader, leader_url=whole.leader_url))) - 4
    readable = []
    for length in range(len(data)):
        try:
            decode_assignment(data[:length])
            readable.append(length)
        except DataError:
            pass
    # Without all three optional fields, without the last two, without the delay.
    assert readable == [fixed_part, len(data) - 8, len(data) - 4]


def test_missing_trailing_fields_are_empty() -> None:
    full = Assignment(2, leader="m", leader_url="u", config_offset=7, connectors=("a",), tasks=(TaskId("a", 0),))
    data = encode_assignment(full)
    assert decode_assignment(data[:-4]) == full
    assert decode_assignment(data[:-8]) == full
    assert decode_metadata(encode_metadata(WorkerMetadata("u", 3), Protocol.SESSIONED)[:-4]) == WorkerMetadata("u", 3)


def test_null_arrays_are_empty() -> None:
    data = encode_assignment(Assignment(1, leader="m", leader_url="u"))
    nulls = data[:-12] + b"\xff" * 8 + data[-4:]
    assert decode_assignment(nulls) == decode_assignment(data)


def test_fields_of_later_versions_are_ignored() -> None:
    full = Assignment(2, leader="m", leader_url="u", connectors=("a",))
    later = b"\x00\x05" + encode_assignment(full)[2:] + b"more"
    assert decode_assignment(later) == full


def test_empty_allocation_is_null_not_zero_bytes() -> None:
    for allocation in (None, Assignment(2)):
        assert encode_metadata(WorkerMetadata("u", -1, allocation), Protocol.SESSIONED).endswith(b"\xff\xff\xff\xff")
    zero_bytes = encode_metadata(WorkerMetadata("u", -1), Protocol.SESSIONED)[:-4] + bytes(4)
    assert decode_metadata(zero_bytes).allocation is None


def test_allocation_has_the_version_of_the_protocol_it_is_sent_in() -> None:
    metadata = WorkerMetadata("u", 1, Assignment(2, leader="m", connectors=("a",)))
    allocation = decode_metadata(encode_metadata(metadata, Protocol.COMPATIBLE)).allocation
    assert allocation is not None
    assert (allocation.version, allocation.connectors) == (1, ("a",))
    assert decode_metadata(encode_metadata(metadata, Protocol.EAGER)).allocation is None


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "2 more bytes expected at byte 0 of 0"),
        (b"\xff\xff", "version -1"),
        (b"\x00\x02\xff\xff", "a string of length -1"),
        (b"\x00\x02\x00\x01\xff", "a string that is not UTF-8"),
        (b"\x00\x02\x00\x00" + bytes(8) + b"\xff\xff\xff\xf0", "bytes of length -16"),
    ],
)
def test_error_names_the_problem_and_its_position(data: bytes, found: str) -> None:
    with pytest.raises(DataError, match=found):
        decode_metadata(data)


def test_wrong_count_or_task_is_rejected() -> None:
    head = encode_assignment(Assignment(0))[:-4]
    with pytest.raises(DataError, match="an array of 2000000000 members"):
        decode_assignment(head + (2_000_000_000).to_bytes(4, "big"))
    with pytest.raises(DataError, match="task -2 of connector 'a'"):
        decode_assignment(head + b"\x00\x00\x00\x01\x00\x01a\x00\x00\x00\x01\xff\xff\xff\xfe")


def test_too_long_name_is_rejected() -> None:
    with pytest.raises(DataError, match="has 40000 bytes"):
        encode_assignment(Assignment(2, connectors=("x" * 40_000,)))


def test_offered_protocols_follow_from_the_setting() -> None:
    offers = {
        value: [p.wire_name for p in Protocol.of_setting(value).offered()] for value in ("eager", "COMPATIBLE", "sessioned")
    }
    assert offers == {
        "eager": ["default"],
        "COMPATIBLE": ["compatible", "default"],
        "sessioned": ["sessioned", "compatible", "default"],
    }
    with pytest.raises(DataError, match="protocol=lazy"):
        Protocol.of_setting("lazy")
    with pytest.raises(DataError, match="'range'"):
        Protocol.of_wire_name("range")


def test_assignment_adds_to_the_allocation_and_removes_from_it() -> None:
    held = Assignment(2, connectors=("a", "b"), tasks=(TaskId("a", 0), TaskId("b", 0)), config_offset=3)
    answer = Assignment(
        2, leader="m", config_offset=5, connectors=("c",), tasks=(TaskId("c", 0),),
        revoked_connectors=("a",), revoked_tasks=(TaskId("b", 0),),
    )  # fmt: skip
    after = allocation_after(held, answer)
    assert (after.connectors, after.tasks, after.config_offset) == (("c", "b"), (TaskId("c", 0), TaskId("a", 0)), 5)
    # Done by the time it is said (recording group_bytes: no allocation repeats what was revoked).
    assert (after.revoked_connectors, after.revoked_tasks) == ((), ())
    assert allocation_after(None, answer) == answer
    eager = Assignment(0, connectors=("d",))
    assert allocation_after(held, eager) == eager
