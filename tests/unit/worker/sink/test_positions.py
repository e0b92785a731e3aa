"""The offsets of a sink task: delivered, committed, and where to restart."""

from __future__ import annotations

from connect import TopicPartition
from worker.sink.positions import SinkPositions

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_only_changed_offsets_within_what_was_put_are_committed() -> None:
    positions = SinkPositions()
    positions.add([P0, P1], {P0: 10})
    assert positions.to_pre_commit([P0, P1]) == {P0: 10}
    positions.set_delivered({P0: 20, P1: 5})
    asked = positions.to_pre_commit([P0, P1])
    assert asked == {P0: 20, P1: 5}
    answered = {P0: 15, P1: 6, TopicPartition("other", 0): 1}
    assert positions.to_commit(answered, asked, "c-0") == {P0: 15}
    positions.set_committed({P0: 15})
    assert positions.to_commit({P0: 15}, asked, "c-0") == {}


def test_the_first_change_brings_partitions_along_that_nothing_has_come_from() -> None:
    positions = SinkPositions()
    positions.add([P0, P1], {}, {P0: 7, P1: 3})
    asked = positions.to_pre_commit([P0, P1])
    assert asked == {P0: 7, P1: 3}
    assert positions.to_commit(asked, asked, "c-0") == {}, "nothing has changed"
    assert positions.restart_offsets() == asked
    positions.set_delivered({P0: 8})
    asked = positions.to_pre_commit([P0, P1])
    offsets = positions.to_commit(asked, asked, "c-0")
    assert offsets == {P0: 8, P1: 3}
    positions.set_committed(offsets)
    assert positions.to_commit(asked, asked, "c-0") == {}


def test_a_failure_goes_back_to_the_commit_or_to_where_reading_began() -> None:
    positions = SinkPositions()
    positions.add([P0, P1], {P0: 10})
    positions.set_first(P0, 10)
    positions.set_first(P1, 3)
    positions.set_delivered({P0: 30, P1: 30})
    assert positions.restart_offsets() == {P0: 10, P1: 3}
    positions.set_committed({P1: 30})
    positions.rewind(P0, 7)
    assert positions.restart_offsets() == {P0: 7, P1: 30}
    assert positions.to_pre_commit([P0]) == {P0: 7}


def test_a_commit_of_what_a_task_rewound_to_repairs_the_group() -> None:
    positions = SinkPositions()
    positions.add([P0], {P0: 10})
    positions.rewind(P0, 4)  # promise 6: the table is behind the group
    assert positions.to_commit({P0: 4}, positions.to_pre_commit([P0]), "c-0") == {P0: 4}
