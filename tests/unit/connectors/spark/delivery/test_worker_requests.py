"""When a task's partitions are paused, and when it asks the worker to commit offsets."""

from __future__ import annotations

from connect.converters.json.converter import JsonConverter
from connect.record import TopicPartition
from connect.testing import ManualClock
from connect.testing.harness import SinkContext
from connectors.spark.delivery.worker_requests import EXECUTORS_WRITE, Consumption, OffsetRequests

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def new_context() -> SinkContext:
    context = SinkContext({}, JsonConverter(), JsonConverter())
    context.assigned = {P0}
    return context


def test_consumption_resumes_when_the_last_reason_is_gone() -> None:
    context = new_context()
    consumption = Consumption(context)
    consumption.limit(1.0)
    consumption.pause(EXECUTORS_WRITE)
    consumption.limit(0.0)  # the buffer is empty, and executors write
    assert context.paused == {P0}
    consumption.add_partitions([P1])
    context.assigned.add(P1)
    assert context.paused == {P0, P1}
    consumption.resume(EXECUTORS_WRITE)
    assert context.paused == set()
    consumption.add_partitions([P1])
    consumption.limit(0.9)
    assert context.paused == set()


def test_a_full_buffer_pauses_until_half_of_it_is_free() -> None:
    context = new_context()
    consumption = Consumption(context)
    for fill, paused in ((0.9, set()), (1.0, {P0}), (0.5, {P0}), (0.4, set())):
        consumption.limit(fill)
        assert context.paused == paused


def test_offsets_are_requested_once_a_second_if_they_have_moved() -> None:
    context, clock = new_context(), ManualClock()
    requests = OffsetRequests(context, clock.monotonic)

    def is_sent(moves: int) -> bool:
        context.commit_requested = False
        requests.send_due(moves)
        return context.commit_requested

    assert not is_sent(0)
    assert is_sent(2)
    assert (requests.take_answer(), requests.take_answer()) == (True, False)
    assert not is_sent(3)
    assert requests.next_at(3) == clock.monotonic() + 1
    clock.advance(1)
    assert is_sent(3)
    assert requests.next_at(3) is None
