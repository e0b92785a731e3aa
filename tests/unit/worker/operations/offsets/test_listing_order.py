"""Offsets are shown in the order of Apache's answers. What is expected here, workers of Apache Kafka Connect 4.3.1 answered."""

from __future__ import annotations

from typing import Any

import pytest

from connect.record import TopicPartition
from worker.model import OffsetEntry
from worker.operations.offsets.request_map import sink_order, source_order


def test_sink_partitions_are_in_the_order_of_a_java_map() -> None:
    nine = [TopicPartition("rd-nine", number) for number in range(9)]
    five = [TopicPartition("rd-x", number) for number in (0, 3, 7, 15, 19)]
    shown = sink_order([*nine, *five])
    assert [tp.partition for tp in shown if tp.topic == "rd-nine"] == [6, 5, 4, 3, 2, 1, 0, 8, 7]
    assert [tp.partition for tp in shown if tp.topic == "rd-x"] == [7, 0, 3, 15, 19]
    assert [tp.topic for tp in shown[:4]] == ["rd-x", "rd-x", "rd-x", "rd-nine"]
    assert sink_order(reversed(shown)) == shown


@pytest.mark.parametrize(
    "shown",
    [
        [{"filename": False, "task": "a"}, {"filename": -12345678901}, {"task": "\u00fc"}],
        # Several of one bucket: the bytes of the stored keys, with the connector's name, decide.
        [{"filename": -12345678901}, {"task": "b"}, {"filename": "b"}, {"p": "\u00fc", "filename": "\u00fc"}, {"filename": True}],
        [
            {"task": "b"}, {"filename": "b"}, {"p": "b"}, {"task": -1}, {"p": "\u00fc", "filename": "\u00fc"}, {"p": False},
            {"filename": -12345678901}, {"p": -12345678901}, {"filename": "/tmp/x"}, {"filename": True},
        ],
    ],
)  # fmt: skip
def test_source_partitions_are_in_the_order_of_a_java_map(shown: list[dict[str, Any]]) -> None:
    entries = [OffsetEntry(partition, {"position": 1}) for partition in shown]
    assert source_order("tie", sorted(entries, key=repr)) == entries


def test_null_and_empty_partitions_have_their_position() -> None:
    assert source_order("c", []) == []
    null = OffsetEntry(None, {"n": 1})
    assert source_order("c", [null]) == [null]
