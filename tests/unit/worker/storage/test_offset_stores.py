"""Source offsets as records: those that Apache wrote, keys in another order, and two topics for one connector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from connect.errors import UnreachableError
from tests.unit.worker.storage import recorded
from worker.kafka.log_writer import Written
from worker.model import OffsetEntry
from worker.storage.connector_offset_store import OwnOffsets
from worker.storage.kafka_offset_store import StoredOffsets
from worker.storage.offset_codec import decode_key, decode_value, encode_key, encode_value, partition_id
from worker.storage.offset_store import OffsetPair, OffsetRecord


def test_every_recorded_offset_is_read_and_written_again_byte_for_byte() -> None:
    for topic in ("offsets", "own"):
        for record in recorded.records(topic):
            key = decode_key(record.key)
            assert key is not None
            assert encode_key(key.connector, key.partition) == record.key
            assert encode_value(decode_value(record.value)) == record.value


@pytest.mark.parametrize("scenario", recorded.SCENARIOS)
def test_what_is_left_is_what_was_written_last(scenario: str) -> None:
    stored = StoredOffsets()
    last: dict[bytes, bytes | None] = {}
    for step in recorded.steps(scenario):
        for record in step.of("offsets"):
            assert stored.take(record.key, record.value, record.timestamp)
            last[record.key] = record.value
    for raw, value in last.items():
        key = decode_key(raw)
        assert key is not None
        assert stored.get(key.connector, partition_id(key.partition)) == value
    connectors = {key.connector for raw in last if (key := decode_key(raw))}
    left = {raw: value for name in connectors for raw, value in stored.entries(name)}
    assert left == {raw: value for raw, value in last.items() if value is not None}


def test_a_partition_is_found_whatever_the_order_of_its_members() -> None:
    stored = StoredOffsets()
    java, ours = b'["c",{"b":1,"a":2}]', b'["c",{"a":2,"b":1}]'
    partition = partition_id({"a": 2, "b": 1})
    stored.take(java, b'{"at":1}', 10)
    assert stored.get("c", partition) == b'{"at":1}'
    assert stored.keys("c", partition) == [java]
    # A worker that did not keep the bytes has written a second key: the newer value counts, wherever it was read first.
    stored.take(ours, b'{"at":3}', 30)
    stored.take(java, b'{"at":2}', 20)
    assert stored.get("c", partition) == b'{"at":3}'
    assert stored.keys("c", partition) == [ours, java]
    assert stored.entries("c") == [(ours, b'{"at":3}')]
    stored.take(ours, None, 40)
    stored.take(java, None, 40)
    assert stored.get("c", partition) is None
    assert stored.entries("c") == []


@pytest.mark.parametrize(
    ("key", "value"),
    [(None, b"{}"), (b"c", b"{}"), (b'["c"]', b"{}"), (b'["c",[]]', b"{}"), (b'["c",{}]', b"[1]"), (b'["c",{}]', b"{")],
)
def test_what_is_no_offset_is_left_out(key: bytes | None, value: bytes) -> None:
    stored = StoredOffsets()
    assert not stored.take(key, value, 1)
    assert stored.entries("c") == []


class Topic:
    """Offsets in memory, with a list of what was done to all topics of a test."""

    def __init__(self, name: str, done: list[tuple[str, list[OffsetPair]]]) -> None:
        self.name = name
        self.done = done
        self.away = False
        self.stored: list[OffsetEntry] = []

    def refresh(self, timeout_s: float) -> None: ...

    def await_read(self, written: Iterable[Written], timeout_s: float) -> None: ...

    def get(self, connector: str, partition: Mapping[str, Any] | None) -> dict[str, Any] | None:
        return next((dict(e.offset or {}) for e in self.stored if e.partition == partition), None)

    def entries(self, connector: str) -> list[OffsetEntry]:
        return self.stored

    def put(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        if self.away:
            raise UnreachableError("away")
        self.done.append((self.name, list(offsets)))

    def records(self, connector: str, offsets: Sequence[OffsetPair]) -> list[OffsetRecord]:
        return [OffsetRecord(self.name, 0, b"k", None)]


@pytest.fixture
def both() -> tuple[OwnOffsets, Topic, Topic, list[tuple[str, list[OffsetPair]]]]:
    done: list[tuple[str, list[OffsetPair]]] = []
    own, of_worker = Topic("own", done), Topic("worker", done)
    return OwnOffsets(own, of_worker), own, of_worker, done


Both = tuple[OwnOffsets, Topic, Topic, list[tuple[str, list[OffsetPair]]]]
KEPT: OffsetPair = ({"p": 1}, {"at": 1})
FORGOTTEN: OffsetPair = ({"p": 2}, None)


def test_a_connectors_own_topic_comes_first_and_the_workers_fills_the_gaps(both: Both) -> None:
    offsets, own, of_worker, _ = both
    own.stored = [OffsetEntry({"p": 1}, {"at": 10})]
    of_worker.stored = [OffsetEntry({"p": 1}, {"at": 1}), OffsetEntry({"p": 2}, {"at": 2})]
    assert offsets.get("c", {"p": 1}) == {"at": 10}
    assert offsets.get("c", {"p": 2}) == {"at": 2}
    assert offsets.get("c", {"p": 3}) is None
    assert offsets.entries("c") == [OffsetEntry({"p": 1}, {"at": 10}), OffsetEntry({"p": 2}, {"at": 2})]
    assert [record.topic for record in offsets.records("c", [KEPT])] == ["own"]


def test_what_is_forgotten_is_forgotten_in_the_workers_topic_first(both: Both) -> None:
    offsets, _, _, done = both
    offsets.put("c", [KEPT, FORGOTTEN])
    assert done == [("worker", [FORGOTTEN]), ("own", [KEPT, FORGOTTEN]), ("worker", [KEPT])]


def test_a_workers_topic_that_is_away_does_not_fail_what_is_stored(both: Both) -> None:
    offsets, _, of_worker, done = both
    of_worker.away = True
    offsets.put("c", [KEPT])
    assert done == [("own", [KEPT])]
    with pytest.raises(UnreachableError):
        offsets.put("c", [FORGOTTEN])
    assert done == [("own", [KEPT])]
