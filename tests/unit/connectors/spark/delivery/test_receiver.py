"""Buffering and decoding: each record is taken once, also when its put is repeated."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from connect.converters.json.converter import JsonConverter
from connect.errors import RetriableError
from connect.record import RawBatch, SinkRecord, TopicPartition
from connect.testing import ManualClock
from connectors.spark.config import parse_config
from connectors.spark.decode.change_batch import SEQUENCE
from connectors.spark.decode.tolerant_decoding import DecodedTopic
from connectors.spark.delivery.errant_records import SparkErrantRecords
from connectors.spark.delivery.partition_offsets import PartitionOffsets
from connectors.spark.delivery.receiver import RecordReceiver
from connectors.spark.delivery.segment import Arrival
from connectors.spark.delivery.topic_decoders import TopicDecoders
from connectors.spark.plan.evolution import Columns
from tests.unit.connectors.spark.delivery.fakes import offsets_of

P0 = TopicPartition("t", 0)


class Rig:
    """A receiver; ``delivered`` has the offsets of each decoding, by topic, ``together`` those of each delivery, ``order`` the
    sequence of each offset."""

    def __init__(self, max_records: int = 100) -> None:
        self.offsets, self.clock = PartitionOffsets(), ManualClock()
        self.delivered: list[tuple[str, list[int]]] = []
        self.together: list[list[int]] = []
        self.order: dict[int, int] = {}
        self.arrivals: list[tuple[float, float]] = []
        self.load_errors: list[Exception] = []
        key, value = JsonConverter(), JsonConverter()
        for converter, is_key in ((key, True), (value, False)):
            converter.configure({"schemas.enable": "false"}, is_key)
        config = parse_config({"name": "lake", "topics": "t", "table.location": "/lake"})
        self.receiver = RecordReceiver(
            self.offsets,
            TopicDecoders(config, key, value, self._known_columns),
            SparkErrantRecords(None, tolerant=True),
            self._deliver,
            self.clock.monotonic,
            max_records,
        )

    def _known_columns(self, topic: str) -> tuple[str, Columns] | None:
        if self.load_errors:
            raise self.load_errors.pop(0)
        return None

    def _deliver(self, decoded: Sequence[DecodedTopic], arrival: Arrival) -> None:
        self.together.append(sorted(offset for one in decoded for offset in offsets_of(one.changes)))
        self.arrivals.append((arrival.first, arrival.last))
        for one in decoded:
            self.delivered.append((one.topic, offsets_of(one.changes)))
            for changes in one.changes:
                self.order |= dict(zip(offsets_of([changes]), changes.meta[SEQUENCE].to_pylist(), strict=True))
                self.offsets.hold(len(self.delivered), {P0: min(offsets_of([changes]))})

    def put_raw(self, *offsets: int) -> None:
        count = len(offsets)
        self.receiver.add_raw(RawBatch("t", 0, list(offsets), [None] * count, [b'{"id":1}'] * count, [0] * count))


def record(offset: int, topic: str = "t") -> SinkRecord:
    return SinkRecord(topic, 0, None, None, None, {"id": offset}, offset, original_topic="t")


def test_records_wait_until_they_are_decoded_together() -> None:
    rig = Rig()
    rig.put_raw(3, 4)
    rig.clock.advance(2)
    rig.put_raw(4, 5, 9)  # 4 is redelivered
    assert (rig.receiver.records, rig.delivered, rig.offsets.committed(P0)) == (4, [], 3)
    assert rig.receiver.oldest() == {"t": 0.0}
    rig.receiver.decode_all()
    assert (rig.receiver.records, rig.receiver.size_bytes, rig.receiver.received) == (0, 0, 4)
    assert (rig.delivered, rig.arrivals) == ([("t", [3, 4, 5, 9])], [(0.0, 2.0)])
    assert rig.offsets.position(P0) == 10


def test_no_decoding_has_more_records_than_allowed() -> None:
    rig = Rig(max_records=3)
    rig.put_raw(0, 1)
    rig.put_raw(2, 3, 4, 5, 6, 7)
    rig.receiver.decode_all()
    assert [offset for _, offsets in rig.delivered for offset in offsets] == list(range(8))
    assert all(len(offsets) <= 3 for _, offsets in rig.delivered)


@pytest.mark.parametrize("raw", [True, False])
def test_a_put_that_is_repeated_takes_each_record_once(raw: bool) -> None:
    rig = Rig(max_records=2)
    rig.load_errors = [RetriableError("the table cannot be read")]

    def put() -> None:
        if raw:
            rig.put_raw(0, 1, 2, 3)
        else:
            rig.receiver.add_records([record(0), record(1, "renamed"), record(2), record(3, "renamed")])

    with pytest.raises(RetriableError):
        put()
    put()
    rig.receiver.decode_all()
    assert sorted(offset for _, offsets in rig.delivered for offset in offsets) == [0, 1, 2, 3]
    assert {topic for topic, _ in rig.delivered} == ({"t"} if raw else {"t", "renamed"})
    assert rig.offsets.position(P0) == 4


def test_names_that_a_transformation_gives_are_delivered_together_and_in_order() -> None:
    """A commit that had only some of them would claim the offsets of the others."""
    rig = Rig(max_records=4)
    rig.receiver.add_records([record(offset, f"day{offset % 2}") for offset in range(10)])
    assert rig.together == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert rig.delivered[:2] == [("day0", [0, 2]), ("day1", [1, 3])]
    assert sorted(rig.order, key=rig.order.__getitem__) == list(range(10))


def test_records_of_lost_partitions_are_dropped() -> None:
    rig = Rig()
    rig.put_raw(0, 1)
    rig.receiver.discard([P0])
    rig.receiver.decode_all()
    assert rig.delivered == []
