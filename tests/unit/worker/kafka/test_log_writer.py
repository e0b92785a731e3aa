"""Records of the internal topics: in the order they were sent in, also through a client that can go on no more."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError

from connect import ConnectError
from tests.mock_kafka import MockKafka, Request
from tests.support.waiting import WAIT_S, eventually
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
    writer = LogWriter({"bootstrap.servers": kafka.bootstrap, "delivery.timeout.ms": "120000"}, "t")
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

    def are_written() -> bool:
        writer.serve()
        return all(future.done() for future in futures)

    eventually(are_written, "the records")
    return [future.result().offset for future in futures]


def test_a_temporarily_rejected_record_keeps_its_order(writer: LogWriter, kafka: MockKafka) -> None:
    writer.send_all([(b"first", b"")], WAIT_S)
    found = written(writer, kafka, *[KafkaError.NOT_LEADER_FOR_PARTITION] * 9)
    assert found == sorted(found)


def test_a_failed_client_is_replaced(writer: LogWriter, kafka: MockKafka, caplog: pytest.LogCaptureFixture) -> None:
    writer.send_all([(b"first", b"")], WAIT_S)
    found = written(writer, kafka, OUT_OF_ORDER)
    assert found == sorted(found)
    assert "Replacing the producer for topic t" in caplog.text


@pytest.fixture
def no_numbers(kafka: MockKafka) -> None:
    """Asked for before there is a writer, whose client asks for its number by itself after half a second."""
    kafka.refuse(Request.INIT_PRODUCER_ID, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


@pytest.mark.usefixtures("no_numbers")
def test_records_are_written_without_idempotence_if_the_permission_is_missing(
    writer: LogWriter, caplog: pytest.LogCaptureFixture
) -> None:
    found = writer.send_all([(b"%d" % number, None) for number in range(50)], WAIT_S)
    assert [one.offset for one in found] == list(range(50))
    assert "IDEMPOTENT_WRITE" in caplog.text


def test_records_fail_after_several_failed_clients(kafka: MockKafka, writer: LogWriter) -> None:
    kafka.refuse(Request.PRODUCE, *[OUT_OF_ORDER] * 20)
    with pytest.raises(ConnectError, match=r"a record for topic t \(key k\) was not written: .*OUT_OF_ORDER"):
        writer.send_all([(b"k", b"v")], WAIT_S)


def test_unwritten_records_fail_when_the_writer_closes(kafka: MockKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.kafka.log_writer._CLOSE_TIMEOUT_S", 0.1)
    writer = LogWriter({"bootstrap.servers": "127.0.0.1:1"}, "t")
    future = writer.send(b"k", b"v")
    writer.close()
    with pytest.raises(ConnectError, match="took it in time"):
        future.result(0)
