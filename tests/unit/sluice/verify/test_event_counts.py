"""What is said of tables that keep every event, of which only the newest per key is compared."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from connect.verification import PartitionEvents
from sluice.verify.model import DifferenceKind, TableResult
from sluice.verify.session import _count_events


def counted(*partitions: PartitionEvents, topics: int = 1) -> TableResult:
    result = TableResult(("shop.t",), "t")
    plan = SimpleNamespace(topics={str(number) for number in range(topics)}, sources=[SimpleNamespace(name="shop.t")])
    _count_events(cast(Any, SimpleNamespace(result=result, plan=plan)), partitions)
    return result


def test_events_of_all_offsets_are_counted() -> None:
    result = counted(PartitionEvents("t", 0, 4, 4, 3, 6, ()), PartitionEvents("t", 1, 1, 1, 9, 9, ()))
    assert result.notes == ["the newest event of each key is compared, of 5 events"]
    assert result.is_equal


def test_offsets_without_an_event_are_counted() -> None:
    (note,) = counted(PartitionEvents(None, 0, 4, 4, 3, 9, ())).notes
    assert "of 4 events; 3 offsets between them have none: " in note


def test_events_that_are_there_twice_are_differences() -> None:
    result = counted(PartitionEvents("t", 1, 5, 4, 3, 6, [4]), PartitionEvents("t", 2, 1, 1, 0, 0, ()))
    (difference,) = result.differences
    assert (difference.kind, difference.key) == (DifferenceKind.DUPLICATE, {"__topic": "t", "__partition": "1", "__offset": "4"})
    assert difference.source_key is None
    assert not result.is_equal


def test_events_of_several_topics_cannot_be_told_apart_without_their_topic() -> None:
    result = counted(PartitionEvents(None, 1, 5, 4, 3, 6, [4]), topics=2)
    assert not result.differences
    assert "no column __topic" in result.notes[1]
