"""The choice of partitions: Java's, as recorded topics and Kafka's own test vectors show it."""

from __future__ import annotations

import pytest

from tests.unit.worker.storage import recorded
from worker.kafka.partitioner import murmur2, partition_of


def test_every_recorded_record_lies_in_its_partition() -> None:
    checked = 0
    for topic, partitions in recorded.PARTITIONS.items():
        for record in recorded.records(topic):
            assert partition_of(record.key, partitions) == record.partition
            checked += 1
    assert checked > 500


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # From Kafka's UtilsTest.testMurmur2.
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_hashes_of_kafkas_own_tests(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected & 0xFFFFFFFF
