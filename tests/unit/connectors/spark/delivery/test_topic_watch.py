"""A topic that was recreated while the task reads it is noticed, with few questions to the brokers."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from connect.errors import ConnectError, UnreachableError
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connect.testing import ManualClock
from connectors.spark.delivery.topic_watch import TopicWatch
from tests.support.waiting import WAIT_S

OLD, NEW = TopicIdentity("cluster", "1"), TopicIdentity("cluster", "2")


class Topics:
    """One topic, and the watch over it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.present = {"t": OLD}
        self.known = {"t": OLD}
        self.error: Exception | None = None
        self.questions = 0
        self.positions = {TopicPartition("t", 0): 100}
        self.watch = TopicWatch("sink", self._ask, self.known, lambda: self.positions, self.clock.monotonic)

    def _ask(self, topics: Collection[str]) -> dict[str, TopicIdentity]:
        self.questions += 1
        if self.error is not None:
            raise self.error
        return {topic: self.present[topic] for topic in topics if topic in self.present}

    def advance(self, records: int, seconds: float = 5.0) -> None:
        """Time goes by, a question is asked if it is due, and answered."""
        self.clock.advance(seconds)
        self.watch.advance((records,))
        if self.watch._thread is not None:
            self.watch._thread.join(WAIT_S)
            self.watch.advance((records,))


def test_a_recreated_topic_stops_the_task_although_offsets_go_on() -> None:
    topics = Topics()
    topics.advance(100)
    topics.present["t"] = NEW
    with pytest.raises(ConnectError, match=r"the connector has read t-0 up to offset 100 from a topic that was recreated"):
        topics.advance(101)


def test_nothing_is_asked_unless_records_were_read() -> None:
    topics = Topics()
    topics.advance(100)
    for _ in range(3):
        topics.advance(100)
        assert topics.watch.next_at((100,)) is None
    assert topics.questions == 1
    for records in range(200, 240):
        topics.advance(records, seconds=0.1)
    assert topics.questions == 2
    assert topics.watch.next_at((240,)) == pytest.approx(topics.clock.monotonic() + 1.1)


@pytest.mark.parametrize("reason", ["no broker", "no topic"])
def test_the_question_is_repeated_until_it_is_answered(reason: str) -> None:
    topics = Topics()
    if reason == "no broker":
        topics.error = UnreachableError("no Kafka broker answers")
    else:
        del topics.present["t"]  # deleted, and not created yet
    topics.advance(100)
    topics.advance(100)
    assert topics.questions == 2
    topics.error, topics.present["t"] = None, NEW
    with pytest.raises(ConnectError, match="recreated"):
        topics.advance(100)


def test_a_topic_that_was_opened_anew_meanwhile_is_not_judged_by_its_old_id() -> None:
    topics = Topics()
    topics.clock.advance(5)
    topics.watch.advance((100,))
    assert topics.watch._thread is not None
    topics.watch._thread.join(WAIT_S)
    topics.known["t"] = NEW
    topics.watch.advance((100,))


def test_nothing_is_asked_without_partitions() -> None:
    topics = Topics()
    topics.positions = {}
    topics.advance(100)
    assert topics.questions == 0
    assert topics.watch.next_at((100,)) is None
