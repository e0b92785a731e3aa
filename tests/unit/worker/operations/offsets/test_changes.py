"""Requests to change offsets: what becomes of them, and what is refused in Apache's words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import BadRequestError, DataError
from connect.record import TopicPartition
from worker.model import OffsetEntry, TargetState
from worker.operations.offsets.changes import (
    require_offsets,
    require_stopped,
    result_message,
    shown_entries,
    sink_changes,
    sink_entries,
    sink_pairs,
    source_changes,
)
from worker.operations.offsets.request_map import java_hash


def sink(partition: Any, offset: Any) -> OffsetEntry:
    return OffsetEntry(partition, offset)


@pytest.mark.parametrize(
    ("partition", "offset", "expected"),
    [
        ({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 5}, {TopicPartition("t", 0): 5}),
        ({"kafka_topic": "t", "kafka_partition": "10"}, {"kafka_offset": "+7"}, {TopicPartition("t", 10): 7}),
        ({"kafka_topic": 5, "kafka_partition": 0}, None, {TopicPartition("5", 0): None}),
        ({"kafka_topic": "t", "kafka_partition": 0, "x": 1}, {"kafka_offset": 1, "y": 2}, {TopicPartition("t", 0): 1}),
    ],
)
def test_sink_offsets_are_parsed_from_numbers_and_text(partition: Any, offset: Any, expected: Any) -> None:
    assert sink_changes([sink(partition, offset)]) == expected


@pytest.mark.parametrize(
    ("partition", "offset", "text"),
    [
        (None, None, "The partition for a sink connector offset cannot be null or missing"),
        ({"kafka_topic": "t"}, None, "must contain the keys 'kafka_topic' and 'kafka_partition'"),
        ({"kafka_topic": None, "kafka_partition": 0}, None, "Kafka topic names must be valid strings and may not be null"),
        ({"kafka_topic": "t", "kafka_partition": None}, None, "Kafka partitions must be valid numbers and may not be null"),
        ({"kafka_topic": "t", "kafka_partition": 1.0}, None, "provided offsets: '1.0'. Partition values for sink"),
        ({"kafka_topic": "t", "kafka_partition": True}, None, "provided offsets: 'true'. Partition values for sink"),
        ({"kafka_topic": "t", "kafka_partition": 2**31}, None, "provided offsets: '2147483648'. Partition values"),
        ({"kafka_topic": "t", "kafka_partition": 0}, {}, "should either be null or contain the key 'kafka_offset'"),
        ({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": None}, "provided offsets: 'null'. Offset values for sink"),
        ({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": "1e3"}, "provided offsets: '1e3'. Offset values for sink"),
        ({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 2**63}, "'9223372036854775808'. Offset values"),
    ],
)
def test_sink_offsets_of_another_form_are_rejected(partition: Any, offset: Any, text: str) -> None:
    with pytest.raises(BadRequestError) as e:
        sink_changes([sink(partition, offset)])
    assert text in e.value.message


@given(st.dictionaries(st.builds(TopicPartition, st.text(min_size=1), st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1)))
def test_sink_offsets_round_trip_through_rest(offsets: dict[TopicPartition, int]) -> None:
    assert sink_changes(sink_entries(offsets)) == offsets
    assert sink_pairs(offsets) == [(entry.partition, entry.offset) for entry in sink_entries(offsets)]


def test_source_offsets_are_those_that_tasks_will_read() -> None:
    changes = source_changes(
        "c",
        [
            OffsetEntry({"b": 1, "a": "x"}, {"at": b"\x01", "n": 1.5}),
            OffsetEntry({"a": "x", "b": 1}, {"at": "later"}),
            OffsetEntry({"a": "y"}, None),
            OffsetEntry(None, {"n": 1}),
        ],
    )
    # The same partition, members in another order: the last counts, once. All in the order of Java's map.
    assert changes == [(None, {"n": 1}), ({"a": "y"}, None), ({"a": "x", "b": 1}, {"at": "later"})]
    assert source_changes("c", [OffsetEntry({"a": 1}, {"at": b"\x01"})]) == [({"a": 1}, {"at": "AQ=="})]


@pytest.mark.parametrize("bad", [{"a": {"b": 1}}, {"a": [1]}, {"a": 2**65}])
def test_source_offsets_that_cannot_be_stored_are_rejected(bad: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        source_changes("c", [OffsetEntry({"f": 1}, bad)])
    with pytest.raises(DataError):
        source_changes("c", [OffsetEntry(bad, {"n": 1})])


def test_only_the_last_offset_of_a_duplicate_partition_is_checked() -> None:
    place = {"kafka_topic": "t", "kafka_partition": 0}
    assert sink_changes([sink(place, {}), sink(place, {"kafka_offset": 1})]) == {TopicPartition("t", 0): 1}
    huge = OffsetEntry({"f": 1}, {"n": 2**65})
    assert source_changes("c", [huge, OffsetEntry({"f": 1}, None)]) == [({"f": 1}, None)]
    with pytest.raises(DataError, match=r"but field n contains class java\.math\.BigInteger"):
        source_changes("c", [huge])
    # In Java 1, 1.0 and true are three partitions.
    three: list[Any] = [1, 1.0, True]
    assert len(source_changes("c", [OffsetEntry({"f": one}, {"n": 1}) for one in three])) == 3


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, 0), (True, 1231), (-1, 0xFFFFFFFF), (2**31, 0x80000000), (-(2**40), 0xFFFFFF00), (1.5, 0x3FF80000), ("ab", 3105),
        (10**20, 0x70347A38), ({"filename": "/x", "n": 1}, 0xD434549D), ([1, "a"], 1089),
    ],
)  # fmt: skip
def test_hash_codes_are_those_of_java(value: Any, code: int) -> None:
    assert java_hash(value) == code


def test_rest_does_not_show_the_offset_of_a_null_partition() -> None:
    kept = OffsetEntry({"f": 1}, {"n": 1})
    assert shown_entries("c", [OffsetEntry(None, {"n": 1}), kept]) == [kept]


def test_offsets_can_only_be_changed_of_stopped_connectors_without_tasks() -> None:
    require_stopped("c", TargetState.STOPPED, 0)
    for target, tasks in ((TargetState.STARTED, 0), (TargetState.PAUSED, 0), (TargetState.STOPPED, 1)):
        with pytest.raises(BadRequestError, match="'PUT' request to the '/connectors/c/stop' endpoint"):
            require_stopped("c", target, tasks)


def test_a_request_must_change_something() -> None:
    require_offsets(None)
    require_offsets([OffsetEntry({}, None)])
    with pytest.raises(BadRequestError, match="Partitions / offsets need to be provided for an alter offsets request"):
        require_offsets([])


def test_message_says_what_was_done_and_by_whom() -> None:
    assert result_message(True, reset=True) == "The offsets for this connector have been reset successfully"
    assert result_message(False, reset=False).startswith(
        "The Connect framework-managed offsets for this connector have been altered"
    )
