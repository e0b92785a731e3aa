"""What the client answers about the ends of a topic is not taken for more than it is."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from connect.errors import ConnectError, UnreachableError
from worker.kafka import internal_topics
from worker.kafka.internal_topics import InternalTopics


class Client:
    """An admin client with scripted answers; counts how often it was told to look at all topics."""

    def __init__(self, answer: int | KafkaError) -> None:
        self.answer = answer
        self.looked = 0

    def list_offsets(self, asked: dict[Any, Any], **_: Any) -> dict[Any, Future[Any]]:
        return {part: self._future() for part in asked}

    def poll(self, timeout: float) -> int:
        return 0

    def list_topics(self, **_: Any) -> None:
        self.looked += 1

    def _future(self) -> Future[Any]:
        future: Future[Any] = Future()
        if isinstance(self.answer, int):
            future.set_result(SimpleNamespace(offset=self.answer))
        else:
            future.set_exception(KafkaException(self.answer))
        return future


@pytest.fixture
def topics_with(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(answer: int | KafkaError) -> tuple[InternalTopics, Client]:
        client = Client(answer)
        monkeypatch.setattr(internal_topics, "make_admin", lambda *_, **__: client)
        return InternalTopics({"bootstrap.servers": "b:1"}), client

    return make


def test_offsets_are_told_by_partition(topics_with: Any) -> None:
    topics, _ = topics_with(7)
    assert topics.end_offsets("t", 2, 1.0, committed=True) == {0: 7, 1: 7}


def test_an_answer_without_an_offset_is_no_answer(topics_with: Any) -> None:
    topics, _ = topics_with(-1001)
    with pytest.raises(UnreachableError, match="returned no end offset for topic t"):
        topics.end_offsets("t", 2, 1.0, committed=True)


def test_a_client_that_knows_an_old_leader_is_made_to_look_again(topics_with: Any) -> None:
    topics, client = topics_with(KafkaError(KafkaError.FENCED_LEADER_EPOCH))
    with pytest.raises(UnreachableError, match="FENCED_LEADER_EPOCH"):
        topics.end_offsets("t", 1, 1.0, committed=False)
    assert client.looked == 1


def test_a_refusal_is_told_as_it_is(topics_with: Any) -> None:
    topics, _ = topics_with(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(ConnectError, match="not authorized") as caught:
        topics.begin_offsets("t", 1, 1.0)
    assert not isinstance(caught.value, UnreachableError)
