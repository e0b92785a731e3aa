"""Records of the internal topics: in the order they were sent in, also through a client that can go on no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError

from connect import ConnectError
from tests.mock_kafka import MockKafka, Request
from worker.kafka.log_writer import LogWriter

pytestmark = pytest.mark.slow

OUT_OF_ORDER = KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.fixture
def kafka() -> Iterator[MockKafka]:
    with MockKafka() as kafka:
        kafka.create_topic("t")
        yield kafka


@pytest.fixture
def writer(kafka: MockKafka) -> Iterator[LogWriter]:
    writer = LogWriter({"bootstrap.servers": kafka.bootstrap, "delivery.timeout.ms": "30000"}, "t")
    yield writer
    writer.close()


def written(writer: LogWriter, kafka: MockKafka, *refused: int) -> list[int]:
    """Where records came to lie, of which each was sent without waiting for the one before; ``refused`` are what the broker
    answers on the way."""
    refusals = list(refused)
    futures = []
    for number in range(200):
        futures.append(writer.send(b"%d" % number, b"x" * 500))
        if number % 20 == 10 and refusals:
            kafka.refuse(Request.PRODUCE, refusals.pop(0))
            threading.Event().wait(0.02)
            writer.serve()
    deadline = time.monotonic() + 60
    while not all(future.done() for future in futures):
        assert time.monotonic() < deadline
        writer.serve()
        threading.Event().wait(0.01)
    return [future.result().offset for future in futures]


def test_a_record_that_is_refused_for_a_while_is_not_overtaken(writer: LogWriter, kafka: MockKafka) -> None:
    writer.send_all([(b"first", b"")], 30)
    found = written(writer, kafka, *[KafkaError.NOT_LEADER_FOR_PARTITION] * 9)
    assert found == sorted(found)


def test_a_client_that_can_go_on_no_more_is_replaced(
    writer: LogWriter, kafka: MockKafka, caplog: pytest.LogCaptureFixture
) -> None:
    writer.send_all([(b"first", b"")], 30)
    found = written(writer, kafka, OUT_OF_ORDER)
    assert found == sorted(found)
    assert "Replacing the producer for topic t" in caplog.text


@pytest.fixture
def no_numbers(kafka: MockKafka) -> None:
    """Asked for before there is a writer, whose client asks for its number by itself after half a second."""
    kafka.refuse(Request.INIT_PRODUCER_ID, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


@pytest.mark.usefixtures("no_numbers")
def test_without_the_right_to_number_records_they_are_written_without(
    writer: LogWriter, caplog: pytest.LogCaptureFixture
) -> None:
    found = writer.send_all([(b"%d" % number, None) for number in range(50)], 30)
    assert [one.offset for one in found] == list(range(50))
    assert "IDEMPOTENT_WRITE" in caplog.text


def test_when_no_client_can_go_on_it_is_an_error(kafka: MockKafka, writer: LogWriter) -> None:
    kafka.refuse(Request.PRODUCE, *[OUT_OF_ORDER] * 20)
    with pytest.raises(ConnectError, match=r"a record for topic t \(key k\) was not written: .*OUT_OF_ORDER"):
        writer.send_all([(b"k", b"v")], 60)


def test_what_is_not_written_at_the_close_fails(kafka: MockKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.kafka.log_writer._CLOSE_TIMEOUT_S", 0.1)
    writer = LogWriter({"bootstrap.servers": "127.0.0.1:1"}, "t")
    future = writer.send(b"k", b"v")
    writer.close()
    with pytest.raises(ConnectError, match="took it in time"):
        future.result(0)
