"""Topics that a source task keeps: what becomes of their clients."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from connect import SourceRecord, SourceTask
from connect.errors import UnreachableError
from connect.record import TopicPartition
from connect.sink import OffsetRange
from connect.source import OwnedTopicSettings
from tests.mock_kafka import MockKafka, Request
from tests.support.waiting import WAIT_S, eventually
from tests.unit.worker.executors.conftest import MemoryServices
from tests.unit.worker.source.source_rig import TASK_ID, Rig
from tests.unit.worker.tasks.task_listener import Listener
from worker.kafka import internal_topics
from worker.kafka.owned_topic import KafkaOwnedTopic
from worker.kafka.range_consumer import read_range
from worker.kafka.stored_records import reader_settings
from worker.source.owned_topics import OwnedTopics
from worker.source.runtime import FlushTiming
from worker.source.task import SourceWorkerTask

pytestmark = pytest.mark.slow


def settings(bootstrap: str, **producer: str) -> OwnedTopicSettings:
    client = {"bootstrap.servers": bootstrap}
    return OwnedTopicSettings(client, {**client, **producer}, append_timeout_s=WAIT_S)


class Keeper(SourceTask):
    """Writes to its topic when it starts, and leaves it open."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def start(self, config: Mapping[str, str]) -> None:
        # A client that writes nothing connects again only for metadata.
        refreshing = settings(self._bootstrap, **{"topic.metadata.refresh.interval.ms": "200"})
        self.context.open_owned_topic("history", refreshing).append([b"1"])

    def poll(self) -> Sequence[SourceRecord] | None:
        return None

    def stop(self) -> None: ...


def client_threads() -> set[str]:
    """The main threads of Kafka clients in this process. Those for brokers come and go, also of clients that other tests left."""
    found = set()
    for thread in Path("/proc/self/task").iterdir():
        try:
            if (thread / "comm").read_text().startswith("rdk:main"):
                found.add(thread.name)
        except OSError:
            continue  # it has ended
    return found


def test_reports_are_handled_while_nothing_is_written_and_the_client_ends_with_the_task(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("worker.kafka.log_writer._CLOSE_TIMEOUT_S", 0.1)
    monkeypatch.setattr("worker.kafka.clients._UNAVAILABLE_AFTER_S", 0)  # the client repeats a report after ten seconds
    caplog.set_level(logging.WARNING, "worker.kafka.clients")  # tests of log levels may have left another one
    listener = Listener()
    with MockKafka() as kafka:
        before = client_threads()
        kafka.create_topic("history")
        runtime = replace(
            Rig(monkeypatch).runtime, task=Keeper(kafka.bootstrap), owned_topics=OwnedTopics(lambda _, given: given)
        )
        task = SourceWorkerTask(TASK_ID, listener, lambda *_: runtime, MemoryServices(), FlushTiming(60, 1, 1))
        task.start()
        eventually(lambda: "running" in listener.said, "the task runs")
        kafka.go_down()
        eventually(
            lambda: f"No Kafka broker answers at {kafka.bootstrap}" in caplog.text, "the warning", explain=lambda: listener.said
        )
        assert client_threads() - before
        task.stop()
        assert task.join(time.monotonic() + WAIT_S)
        eventually(lambda: not client_threads() - before, "the end of the client")


def test_record_whose_append_failed_is_not_written_later() -> None:
    """The worker's producers try as long as it takes."""
    with MockKafka() as kafka:
        kafka.create_topic("history")
        kafka.refuse(Request.PRODUCE, *[KafkaError.NOT_LEADER_FOR_PARTITION] * 10_000)
        never = {"delivery.timeout.ms": "2147483647", "enable.idempotence": "false"}
        topic = KafkaOwnedTopic("history", settings(kafka.bootstrap, **never)._replace(append_timeout_s=0.5))
        with pytest.raises(UnreachableError, match=f"history.*{kafka.bootstrap}"):
            topic.append([b"1"])
        assert topic._writer is not None
        waiting = topic._writer._waiting

        def has_failed() -> bool:
            topic.serve()
            return not waiting

        eventually(has_failed, "the failure of the record")
        kafka.accept(Request.PRODUCE)
        topic.close()
        topic = KafkaOwnedTopic("history", settings(kafka.bootstrap))
        topic.append([b"2"])
        reader = reader_settings({"bootstrap.servers": kafka.bootstrap})
        wanted = OffsetRange(TopicPartition("history", 0), 0, 1)
        (first,) = [one.value() for batch in read_range(reader, wanted, 10) for one in batch]
        assert first == b"2"
        topic.close()


class _StartingCluster:
    """An admin client of a cluster without a controller, which creates no topic yet."""

    def __init__(self) -> None:
        self.timeouts_s = list[float]()

    def poll(self, timeout: float) -> int:
        return 0

    def describe_topics(self, topics: Any, *, request_timeout: float) -> dict[str, Future[Any]]:
        return self._refusal(request_timeout, KafkaError.UNKNOWN_TOPIC_OR_PART)

    def create_topics(self, topics: Any, *, request_timeout: float) -> dict[str, Future[Any]]:
        return self._refusal(request_timeout, KafkaError.NOT_CONTROLLER)

    def _refusal(self, timeout_s: float, code: int) -> dict[str, Future[Any]]:
        self.timeouts_s.append(timeout_s)
        future: Future[Any] = Future()
        future.set_exception(KafkaException(KafkaError(code)))
        return {"history": future}


def test_topic_that_cannot_be_created_is_tried_again_within_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = _StartingCluster()
    monkeypatch.setattr(internal_topics, "make_admin", lambda *_, **__: cluster)
    topic = KafkaOwnedTopic("history", settings("b:1")._replace(create_timeout_s=2.0))
    with pytest.raises(
        UnreachableError, match=r"^creating topic history did not succeed within 2 s: creating topic history.*NOT_CONTROLLER"
    ):
        topic.create({})
    assert len(cluster.timeouts_s) > 2  # more than one attempt
    assert max(cluster.timeouts_s) <= 2.0
    assert cluster.timeouts_s == sorted(cluster.timeouts_s, reverse=True)  # what is left of it


@pytest.mark.parametrize(
    ("call", "doing"),
    [
        (KafkaOwnedTopic.exists, "looking for"),
        (KafkaOwnedTopic.is_empty, "looking at the offsets of"),
        (lambda topic: list(topic.read()), "looking at the offsets of"),
        (lambda topic: topic.create({}), "creating"),
    ],
)
def test_broker_that_does_not_answer_is_named_with_the_topic_and_the_time(
    call: Callable[[KafkaOwnedTopic], object], doing: str
) -> None:
    topic = KafkaOwnedTopic("history", settings("127.0.0.1:1")._replace(query_timeout_s=0.3, create_timeout_s=0.3))
    with pytest.raises(
        UnreachableError,
        match=rf"^{doing} topic history did not succeed within 0\.3 s: .*no Kafka broker answers at 127\.0\.0\.1:1 ",
    ):
        call(topic)
    topic.close()
