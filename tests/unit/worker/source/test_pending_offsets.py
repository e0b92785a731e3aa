"""Source offsets that are waiting to be stored."""

from __future__ import annotations

from collections.abc import Mapping

from connect import SourceRecord
from worker.source.pending_offsets import PendingOffsets


def record(partition: Mapping[str, object] | None, offset: Mapping[str, object] | None) -> SourceRecord:
    return SourceRecord(partition, offset, "t")


def test_the_latest_offset_of_each_partition_is_pending() -> None:
    pending, shared = PendingOffsets(), {"f": "a"}
    pending.track([record(shared, {"o": 1}), record({"f": "b"}, {"o": 5}), record(shared, {"o": 2})])
    assert sorted(pending.take(), key=str) == [({"f": "a"}, {"o": 2}), ({"f": "b"}, {"o": 5})]
    assert not pending


def test_equal_partitions_of_several_objects_are_one() -> None:
    pending, first = PendingOffsets(), {"f": "a"}
    pending.track([record(first, {"o": 1}), record({"f": "a"}, {"o": 2}), record(first, {"o": 3})])
    assert pending.take() == [({"f": "a"}, {"o": 3})]
    pending.track([record(first, {"o": 4}), record({"f": "a"}, {"o": 5})])
    assert pending.take() == [({"f": "a"}, {"o": 5})]


def test_records_without_partition_and_offset_leave_nothing_pending() -> None:
    pending = PendingOffsets()
    pending.track([record(None, None)])
    assert not pending


def test_offsets_that_could_not_be_stored_do_not_replace_newer_ones() -> None:
    pending = PendingOffsets()
    pending.track([record({"f": "a"}, {"o": 1}), record({"f": "b"}, {"o": 1})])
    taken = pending.take()
    pending.track([record({"f": "a"}, {"o": 2})])
    pending.give_back(taken)
    assert sorted(pending.take(), key=str) == [({"f": "a"}, {"o": 2}), ({"f": "b"}, {"o": 1})]
