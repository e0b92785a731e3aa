"""Which of several failed records of one transaction is told of. No broker is needed, and none is there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka import KafkaError, KafkaException

from connect import ConnectError
from worker.kafka.record_producer import RecordProducer
from worker.kafka.transactions import ProducerFencedError, TransactionExpiredError, TransactionLostError, Transactions


@dataclass(frozen=True)
class Delivered:
    """What the client hands to a callback, as far as it is looked at."""

    name: str

    def topic(self) -> str:
        return self.name

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"x"


@pytest.fixture
def producer() -> Iterator[RecordProducer]:
    java = {"bootstrap.servers": "127.0.0.1:1", "transactional.id": "t", "enable.idempotence": "true"}
    made = RecordProducer(java, stopping=lambda: False)
    yield made
    made.close()


def transactions_of(producer: RecordProducer, timeout_ms: str) -> Transactions:
    java = {"transactional.id": "t", "transaction.timeout.ms": timeout_ms}
    return Transactions(producer, java, "c-0", stopping=lambda: False, last_s=1)


def test_the_record_that_is_to_blame_is_told_of_though_another_came_first(producer: RecordProducer) -> None:
    producer.record_error(KafkaError(KafkaError._PURGE_QUEUE), Delivered("others"))
    producer.record_error(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), Delivered("to-blame"))
    producer.record_error(KafkaError(KafkaError.INVALID_RECORD), Delivered("later"))
    with pytest.raises(ConnectError, match="a record for topic to-blame"):
        producer.raise_error()


def test_what_an_abort_throws_away_is_no_failure(producer: RecordProducer) -> None:
    producer.record_error(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), Delivered("aborted"))
    with producer.discarding():
        producer.record_error(KafkaError(KafkaError._PURGE_QUEUE), Delivered("aborted"))
    producer.raise_error()


def test_a_transaction_that_has_expired_is_not_aborted_for_its_id_may_be_anothers(
    producer: RecordProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client()
    monkeypatch.setattr(RecordProducer, "client", client)
    young = transactions_of(producer, "60000")
    young.begin()
    young.give_up()
    assert client.calls == ["begin_transaction", "abort_transaction"]
    expired = transactions_of(producer, "0")
    expired.begin()
    expired.give_up()
    with pytest.raises(TransactionExpiredError):
        expired.abort()
    assert client.calls[2:] == ["begin_transaction"]


# What the client says of a commit, and what that means for a transaction that is young, and for one that has expired.
MEANINGS = [
    (KafkaError._FENCED, ProducerFencedError, TransactionExpiredError),
    (KafkaError._INCONSISTENT, ConnectError, TransactionExpiredError),
    (KafkaError._MSG_TIMED_OUT, ConnectError, TransactionExpiredError),
    (KafkaError.INVALID_PRODUCER_ID_MAPPING, TransactionLostError, TransactionExpiredError),
    (KafkaError.UNKNOWN, TransactionLostError, TransactionLostError),
    (KafkaError._TRANSPORT, TransactionLostError, TransactionLostError),
    (KafkaError.NOT_ENOUGH_REPLICAS, TransactionLostError, TransactionLostError),
    (KafkaError.INVALID_TXN_STATE, TransactionLostError, TransactionExpiredError),
    (KafkaError.MSG_SIZE_TOO_LARGE, ConnectError, ConnectError),
    (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ConnectError, ConnectError),
]


@pytest.mark.parametrize(("code", "young", "expired"), MEANINGS)
def test_what_becomes_of_a_task_whose_commit_fails(
    producer: RecordProducer, monkeypatch: pytest.MonkeyPatch, code: int, young: type[ConnectError], expired: type[ConnectError]
) -> None:
    client = Client(KafkaError(code, "said", False, False, True))
    monkeypatch.setattr(RecordProducer, "client", client)
    for timeout_ms, expected in (("60000", young), ("0", expired)):
        transactions = transactions_of(producer, timeout_ms)
        transactions.begin()
        with pytest.raises(ConnectError) as caught:
            transactions.commit()
        assert type(caught.value) is expected


class Client:
    def __init__(self, error: KafkaError | None = None) -> None:
        self.calls: list[str] = []
        self._error = error

    def begin_transaction(self) -> None:
        self.calls.append("begin_transaction")

    def commit_transaction(self, timeout_s: float) -> None:
        raise KafkaException(self._error)

    def abort_transaction(self, timeout_s: float) -> None:
        self.calls.append("abort_transaction")
