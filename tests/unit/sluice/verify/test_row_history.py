"""The versions of rows are read completely, or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect.errors import RetriableError
from connect.record import TopicPartition
from sluice.verify import row_history
from sluice.verify.record_path import RecordPath
from sluice.verify.row_history import Versions, read_history
from sluice.verify.table_rows import TableReader
from worker.kafka.stored_records import KafkaRecord

PARTITION = TopicPartition("t", 0)


class Path:
    """A pipeline whose messages are rows of a key and the text of the value."""

    def read_messages(self, messages: list[Any]) -> list[Any]:
        return [SimpleNamespace(key=key, value=value) for _, _, _, key, value in messages]


class Reader:
    plan = SimpleNamespace(topics={"t"}, key_size=1)

    def expected_of(self, records: list[Any]) -> Iterator[Any]:
        for one in records:
            yield SimpleNamespace(forms=[(one.key,), (one.value,)])


class Log:
    """A partition with two records a second, of which the last ones belong to an open transaction; one may be unreadable."""

    def __init__(self, failing_at: int | None = None) -> None:
        self.ranges = {PARTITION: (3, 8)}
        self.failing_at = failing_at
        self.asked: list[tuple[int, int]] = []

    def read(self, java: Mapping[str, str], partition: TopicPartition, first: int, end: int) -> Iterator[list[KafkaRecord]]:
        self.asked.append((first, end))
        for offset in range(first, end):
            if offset == self.failing_at:
                raise RetriableError("no broker answers")
            yield [KafkaRecord("t", 0, offset, 0, b"k", f"v{offset}".encode(), [])]


def _read(log: Log, monkeypatch: pytest.MonkeyPatch, start: int, end: int) -> Versions:
    monkeypatch.setattr(row_history, "read_stored", log.read)
    monkeypatch.setattr(row_history, "topic_ranges", lambda kafka, topics: log.ranges)
    path, reader = cast(RecordPath, Path()), cast(TableReader, Reader())
    ends = {PARTITION: end, TopicPartition("other", 0): 9}
    return read_history(path, reader, {}, {PARTITION: start}, ends, [cast(Any, (b"k",))])


def test_a_history_that_cannot_be_read_to_its_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RetriableError):
        _read(Log(failing_at=6), monkeypatch, 4, 8)


@pytest.mark.parametrize(("start", "end", "asked"), [(4, 7, (4, 7)), (0, 7, (3, 7)), (4, 99, (4, 8))])
def test_a_history_has_all_records_that_are_stored_and_committed(
    start: int, end: int, asked: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    found = _read(log, monkeypatch, start, end)
    assert log.asked == [asked]
    rows = cast("list[Any]", found[cast(Any, (b"k",))])
    assert [row and row[1] for row in rows] == [f"v{offset}".encode() for offset in range(*asked)]
