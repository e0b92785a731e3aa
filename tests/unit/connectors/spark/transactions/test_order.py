"""Consistent points, given events and END events in some order."""

from __future__ import annotations

from connect.record import TopicPartition
from connectors.spark.transactions.events import ReadEvent, TransactionEnd, TransactionEvent
from connectors.spark.transactions.order import ConsistentPoint, TransactionOrder

ENDS = TopicPartition("shop.transaction", 0)
A, B = TopicPartition("shop.public.a", 0), TopicPartition("shop.public.b", 0)


class Order:
    """Three partitions that start at a consistent point; records get their offsets."""

    def __init__(
        self, *, is_aligned: bool = True, newest_lsn: int | None = None, topics: tuple[TopicPartition, ...] = (A, B)
    ) -> None:
        self.order = TransactionOrder(ENDS, 1_000, newest_lsn=newest_lsn, is_aligned=is_aligned)
        for tp in (ENDS, *topics):
            self.order.assign(tp, 0)

    def event(self, tp: TopicPartition, key: str, order: int, written_ms: int = 0) -> None:
        collections = (tp.topic.removeprefix("shop."), tp.topic.rpartition(".")[2])
        self.order.add(tp, self.order.position(tp) or 0, TransactionEvent(key, order, collections), written_ms)

    def end(self, key: str, lsn: int | None = None, written_ms: int = 0, **counts: int) -> None:
        expected = {f"public.{name}": count for name, count in counts.items()}
        offset = self.order.position(ENDS) or 0
        self.order.add_end(TransactionEnd(key, f"{key}:{lsn}", offset, expected, lsn, None, written_ms), 0)

    def point(self, now_ms: int = 0) -> ConsistentPoint | None:
        return self.order.find_point(now_ms)[0]

    def take(self) -> str | None:
        """Moves to the newest point; returns its transaction."""
        point = self.point()
        if point is None:
            return None
        self.order.advance(point)
        return point.last.key if point.last is not None else ""


def test_the_longest_prefix_of_complete_transactions_is_taken() -> None:
    order = Order()
    order.event(A, "1", 1)
    order.event(A, "2", 1)
    order.event(B, "2", 2)
    order.event(A, "3", 1)
    order.end("1", 10, a=1)
    order.end("2", 20, a=1, b=1)
    order.end("3", 30, a=1, b=1)
    point = order.point()
    assert point is not None
    assert (dict(point.ends), point.transactions) == ({A: 2, B: 1, ENDS: 2}, 2)


def test_records_of_no_transaction_go_with_those_before_them() -> None:
    order = Order()
    order.event(A, "1", 1)
    order.order.add(A, 1, None)
    order.event(A, "2", 1)
    order.order.add(A, 3, None)
    order.end("1", 10, a=1)
    point = order.point()
    assert point is not None
    assert point.ends[A] == 2


def test_repeated_events_are_taken_only_as_a_whole() -> None:
    order = Order()
    for key in ("1", "2"):
        order.event(A, key, 1)
        order.end(key, int(key) * 10, a=1)
    assert order.take() == "2"
    order.event(A, "1", 1)  # the source starts over
    order.end("1", 10, a=1)
    order.event(B, "3", 1)
    order.end("3", 30, b=1)
    point = order.point()
    assert point is not None
    assert (point.ends[A], point.ends[B]) == (2, 1)
    assert order.take() == "3"
    order.event(A, "2", 1)
    order.event(A, "4", 1)
    order.end("4", 40, a=1)
    assert order.take() == "4"
    assert order.order.done(A) == 5


def test_a_transaction_that_is_being_repeated_is_not_taken() -> None:
    order = Order()
    for key in ("1", "2"):
        order.event(A, key, 1)
        order.end(key, int(key) * 10, a=1)
    order.event(A, "1", 1)
    assert order.take() == "1"
    order.event(A, "2", 1)
    assert order.take() == "2"
    assert order.order.done(A) == 4


def test_no_point_ends_with_a_repeated_transaction() -> None:
    order = Order(newest_lsn=20)
    order.event(A, "1", 1)
    order.end("1", 10, a=1)
    assert order.take() is None
    order.event(A, "2", 1)
    order.end("2", 20, a=1)
    assert order.take() == "2"


def test_repeated_transactions_without_positions_are_known_by_their_identifiers() -> None:
    order = Order()
    for key in ("x", "y"):
        order.event(A, key, 1)
        order.end(key, a=1)
    assert order.take() == "y"
    order.event(A, "x", 1)
    order.end("x", a=1)
    assert order.take() is None
    order.event(A, "y", 1)
    order.end("y", a=1)
    assert order.take() == "y"


def test_a_transaction_whose_end_was_lost_is_recognized_by_a_later_one() -> None:
    order = Order()
    order.event(A, "1", 1)
    assert order.point() is None
    order.event(A, "2", 1)
    order.end("2", 20, a=1)
    assert order.take() == "2"
    assert order.order.done(A) == 2


def test_a_transaction_that_may_go_on_is_waited_for() -> None:
    order = Order()
    order.event(A, "1", 1, written_ms=100)
    order.end("0", 10, written_ms=50, b=0)
    assert order.take() == "0"
    assert order.order.done(A) == 0
    assert order.order.without_end() == ["1"]
    order.end("2", 20, written_ms=150)
    assert order.take() == "2"
    assert order.order.done(A) == 1


def test_a_table_that_is_ahead_must_be_reached() -> None:
    order = Order()
    order.order.assign(A, 0, released=2)
    order.event(A, "1", 1)
    order.end("1", 10, a=1)
    assert order.order.is_ahead
    assert order.point() is None
    order.event(A, "2", 1)
    order.end("2", 20, a=1)
    assert order.take() == "2"
    assert not order.order.is_ahead


def test_events_that_do_not_come_are_given_up_at_the_end_of_the_topic_after_the_deadline() -> None:
    order = Order()
    order.event(A, "1", 1)
    order.end("1", 10, written_ms=5_000, a=1, b=2)
    assert order.order.wants_log_ends(5_999) is False
    assert order.order.wants_log_ends(6_000) is True
    order.order.set_log_ends({A: 1, B: 1, ENDS: 1}, 6_000)
    assert order.point(6_000) is None  # b has a record that was not read
    order.order.add(B, 0, None)
    point, incomplete = order.order.find_point(6_001)
    assert point is not None
    assert [(one.collection, one.expected, one.arrived) for one in incomplete] == [("public.b", 2, 0)]


def test_tables_that_are_not_read_are_not_waited_for() -> None:
    order = Order()
    order.event(A, "1", 1)
    order.end("1", 10, a=1, other=5)
    assert order.take() == "1"


def test_a_renamed_topic_is_waited_for_until_its_collection_is_known() -> None:
    renamed = TopicPartition("renamed", 0)
    order = Order(topics=(A, renamed))
    order.event(A, "1", 1)
    order.end("1", 10, a=1, c=1)
    assert order.point() is None
    order.order.add(renamed, 0, TransactionEvent("1", 2, ("public.c", "c")))
    assert order.take() == "1"


def test_the_first_point_has_whole_snapshots() -> None:
    order = Order(is_aligned=False)
    order.order.add(A, 0, ReadEvent(("public.a", "a")))
    assert order.take() == ""
    order.end("1", 10, other=1)
    assert order.order.wants_log_ends(0)
    order.order.set_log_ends({A: 1, B: 1, ENDS: 1}, 0)
    assert order.point() is None
    order.order.add(B, 0, ReadEvent(("public.b", "b")))
    order.order.set_log_ends({A: 1, B: 1, ENDS: 1}, 0)
    assert order.take() == "1"
    assert order.order.done(ENDS) == 1
    order.order.add(A, 1, ReadEvent(("public.a", "a"), is_initial=False))
    order.end("2", 20)
    assert order.take() == "2"
