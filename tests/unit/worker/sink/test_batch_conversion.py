"""Batches between bytes and records: bad ones among good ones, converters that want headers, retries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from connect import DataError, Headers, RetriableError, SchemaAndValue, SinkRecord, SourceRecord, TopicPartition
from connect.converters.simple_header import SimpleHeaderConverter
from connect.converters.string import StringConverter
from connect.transforms.record_copies import copy_record
from worker.errors.batch_failures import BatchFailures, isolate_failures
from worker.errors.stages import RecordStage, StageError
from worker.sink.decoding import ConsumedSinkRecord, decode, to_consumed_record
from worker.source.encoding import encode
from worker.tasks.converters import Converters

PLACE = TopicPartition("t", 0)


class Picky(StringConverter):
    """Refuses what begins with ``bad``, and counts what it is shown alone."""

    def __init__(self) -> None:
        super().__init__()
        self.configure({}, False)

    def to_connect_data(self, topic: str, data: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        if data is not None and data.startswith(b"bad"):
            raise DataError("field x is bad")
        return super().to_connect_data(topic, data, headers)

    def decode_batch(self, topic: str, datas: Sequence[bytes | None]) -> list[SchemaAndValue]:
        return [self.to_connect_data(topic, data) for data in datas]

    def from_connect_data(self, topic: str, schema: Any, value: Any, headers: Headers | None = None) -> bytes | None:
        if isinstance(value, str) and value.startswith("bad"):
            raise DataError("field x is bad")
        return super().from_connect_data(topic, schema, value, headers)

    def encode_batch(self, topic: str, schema: Any, values: Sequence[Any]) -> list[bytes | None]:
        return [self.from_connect_data(topic, schema, value) for value in values]


class ByHeader(Picky):
    """Reads and writes a header beside each value."""

    wants_headers: ClassVar[bool] = True

    def to_connect_data(self, topic: str, data: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        assert headers is not None
        id_header = headers.last_with_name("id")
        schema, value = super().to_connect_data(topic, data, headers)
        return SchemaAndValue(schema, f"{value}/{id_header.value if id_header else None}")

    def from_connect_data(self, topic: str, schema: Any, value: Any, headers: Headers | None = None) -> bytes | None:
        assert headers is not None
        headers.add("id", str(value).encode())
        return super().from_connect_data(topic, schema, value, headers)


class Message:
    """What the client gives for a consumed record."""

    def __init__(self, offset: int, value: bytes | None, key: bytes | None = None, headers: Any = None, kind: int = 1) -> None:
        self._members = offset, value, key, headers, kind

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._members[0]

    def value(self) -> bytes | None:
        return self._members[1]

    def key(self) -> bytes | None:
        return self._members[2]

    def headers(self) -> Any:
        return self._members[3]

    def timestamp(self) -> tuple[int, int]:
        return self._members[4], 1700


def converters(value: Picky | None = None, header: Any = None) -> Converters:
    simple = SimpleHeaderConverter()
    simple.configure({})
    return Converters(Picky(), value or Picky(), header or simple)


def decoded(given: Sequence[Message], failures: BatchFailures, using: Converters | None = None) -> list[SinkRecord | None]:
    return decode(using or converters(), PLACE, given, failures)


def test_good_records_among_bad_ones_are_decoded_in_order() -> None:
    bad = {3, 40, 41, 99}
    given = [Message(i, b"bad" if i in bad else str(i).encode()) for i in range(100)]
    failures = BatchFailures(tolerant=True)
    found = decoded(given, failures)
    assert [r and r.value for r in found] == [None if i in bad else str(i) for i in range(100)]
    assert {index for index, _ in failures} == bad
    failure = next(iter(failures))[1]
    assert failure.stage is RecordStage.VALUE_CONVERTER
    assert failure.message == "field x is bad (in value converter Picky, topic t, partition 0, offset 3)"


def test_the_key_is_reported_if_key_and_value_both_fail() -> None:
    failures = BatchFailures(tolerant=True)
    assert decoded([Message(0, b"bad", b"bad"), Message(1, b"a", b"k")], failures)[0] is None
    assert [failure.stage for _, failure in failures] == [RecordStage.KEY_CONVERTER]


def test_records_after_a_failure_that_is_not_tolerated_are_ignored() -> None:
    failures = BatchFailures()
    found = decoded([Message(i, b"bad" if i in (30, 60) else b"a") for i in range(100)], failures)
    assert [r is not None for r in found] == [i < 30 for i in range(100)]
    assert [place for place, _ in failures] == [30]


def test_a_bad_header_fails_its_record() -> None:
    class Refusing(SimpleHeaderConverter):
        def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
            if data == b"bad":
                raise DataError("no number")
            return super().to_connect_header(topic, key, data)

    refusing = Refusing()
    refusing.configure({})
    failures = BatchFailures(tolerant=True)
    given = [Message(0, b"a", None, [("h", b"1")]), Message(1, b"b", None, [("h", b"bad")]), Message(2, b"c")]
    found = decoded(given, failures, converters(header=refusing))
    assert [r and r.value for r in found] == ["a", None, "c"]
    assert [(place, failure.stage) for place, failure in failures] == [(1, RecordStage.HEADER_CONVERTER)]
    assert next(iter(failures))[1].message == "no number (in header converter Refusing, header h, topic t, partition 0, offset 1)"


def test_headers_are_converted_when_somebody_looks_at_them() -> None:
    converted: list[str] = []

    class Counting(SimpleHeaderConverter):
        def to_connect_header(self, topic: str, key: str, data: bytes | None) -> SchemaAndValue:
            converted.append(key)
            return super().to_connect_header(topic, key, data)

    given = [Message(i, b"a", None, [("h", b"1"), ("h", b"[1, 2]"), ("n", None)]) for i in range(3)]
    counting = Counting()
    counting.reads_any_bytes = True
    found = [r for r in decoded(given, BatchFailures(), converters(header=counting)) if r is not None]
    copied = copy_record(found[0])
    assert not converted
    assert copied.headers is not None
    copied.headers.add("own", 1)
    assert [(h.key, h.value) for h in copied.headers] == [("h", 1), ("h", [1, 2]), ("n", None), ("own", 1)]
    assert converted == ["h", "h", "n"]
    assert found[1].headers == found[2].headers
    assert len(converted) == 9


def test_lists_in_headers_are_not_shared_between_records() -> None:
    given = [Message(i, b"a", None, [("h", b"[1, 2]")]) for i in range(2)]
    first, second = (next(iter(r.headers or ())).value for r in decoded(given, BatchFailures()) if r is not None)
    first.append(3)
    assert second == [1, 2]


def test_a_converter_that_wants_headers_gets_their_bytes() -> None:
    given = [Message(0, b"a", None, [("id", b"7")]), Message(1, b"b"), Message(2, b"bad", None, [("id", b"8")])]
    failures = BatchFailures(tolerant=True)
    found = decoded(given, failures, converters(ByHeader()))
    assert [r and r.value for r in found] == ["a/b'7'", "b/None", None]
    assert [place for place, _ in failures] == [2]


def test_a_converter_can_add_headers() -> None:
    records = [SourceRecord(None, None, "t", value=text) for text in ("a", "b")]
    records.append(SourceRecord(None, None, "u", value="c"))
    records[0].ensure_headers().add("mine", 5)
    runs = encode(converters(ByHeader()), records, BatchFailures())
    assert [(run.topic, run.values, run.headers, list(places)) for run, places in runs] == [
        ("t", [b"a", b"b"], [[("mine", b"5"), ("id", b"a")], [("id", b"b")]], [0, 1]),
        ("u", [b"c"], [[("id", b"c")]], [2]),
    ]


def test_good_records_among_bad_and_dropped_ones_are_encoded_in_order() -> None:
    bad, dropped = {5, 6, 33}, {0, 34}
    records = [
        None if i in dropped else SourceRecord(None, None, "tu"[i % 40 > 20], value="bad" if i in bad else str(i))
        for i in range(80)
    ]
    failures = BatchFailures(tolerant=True)
    runs = encode(converters(), records, failures)
    indexes = [index for run in runs for index in run.indexes]
    assert indexes == [i for i in range(80) if i not in bad | dropped]
    assert [value for run, _ in runs for value in run.values] == [str(i).encode() for i in indexes]
    assert all(run.topic == "tu"[index % 40 > 20] for run, at in runs for index in at)
    assert {index for index, _ in failures} == bad


def test_a_conversion_is_retried_by_attempt() -> None:
    class Slow(Picky):
        left = 2

        def to_connect_data(self, topic: str, data: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
            if data == b"later" and Slow.left:
                Slow.left -= 1
                raise RetriableError("the registry does not answer")
            return super().to_connect_data(topic, data, headers)

    def again(operation: Any) -> Any:
        try:
            return operation()
        except RetriableError:
            return operation()

    failures = BatchFailures(attempt=again)
    found = decoded([Message(0, b"a"), Message(1, b"later"), Message(2, b"b")], failures, converters(Slow()))
    assert [r and r.value for r in found] == ["a", "later", "b"]
    assert not failures


def test_failures_are_isolated_with_few_calls() -> None:
    asked: list[int] = []

    def whole(places: Sequence[int]) -> list[int]:
        if 70 in places:
            raise DataError("bad")
        return list(places)

    def one(place: int) -> int:
        asked.append(place)
        if place == 70:
            raise StageError(RecordStage.TRANSFORMATION, object(), "here", DataError("bad"))
        return place

    failures = BatchFailures(tolerant=True)
    assert isolate_failures(range(1000), whole, one, failures, -1) == [-1 if i == 70 else i for i in range(1000)]
    assert asked == list(range(64, 80))


def test_nothing_is_processed_after_a_failure_that_is_not_tolerated() -> None:
    tried: list[Sequence[int]] = []

    def whole(places: Sequence[int]) -> list[int]:
        tried.append(places)
        raise DataError("bad")

    def one(place: int) -> int:
        raise StageError(RecordStage.TRANSFORMATION, object(), "here", DataError("bad"))

    assert isolate_failures(range(1000), whole, one, BatchFailures(), -1) == [-1] * 1000
    assert len(tried) == 1


@pytest.mark.parametrize(("kind", "timestamp"), [(0, None), (1, 1700), (2, 1700)])
def test_a_record_has_the_message_it_was_decoded_from(kind: int, timestamp: int | None) -> None:
    message: Any = Message(9, b"v", b"k", [("h", None)], kind)
    record = ConsumedSinkRecord.from_record(
        SinkRecord("routed", 3, None, 1, None, 2, 9, original_topic="t", original_partition=0), message
    )
    assert (record.topic, record.original_topic, record.value) == ("routed", "t", 2)
    shown = to_consumed_record(record.message)
    names = ("NoTimestampType", "CreateTime", "LogAppendTime")
    assert shown == ("t", 0, 9, timestamp, names[kind], b"k", b"v", [("h", None)])
