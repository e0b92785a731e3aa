"""Topics that a source task keeps: what becomes of their clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from connect import SourceRecord, SourceTask
from connect.errors import UnreachableError
from connect.source import OwnedTopicSettings
from tests.mock_kafka import MockKafka
from tests.unit.worker.executors.conftest import MemoryServices
from tests.unit.worker.source.source_rig import TASK_ID, Rig
from tests.unit.worker.tasks.task_listener import Listener
from worker.kafka.owned_topic import KafkaOwnedTopic
from worker.source.owned_topics import OwnedTopics
from worker.source.runtime import FlushTiming
from worker.source.task import SourceWorkerTask

pytestmark = pytest.mark.slow


def settings(bootstrap: str, **producer: str) -> OwnedTopicSettings:
    client = {"bootstrap.servers": bootstrap}
    return OwnedTopicSettings(client, {**client, **producer}, append_timeout_s=10.0)


class Keeper(SourceTask):
    """Writes to its topic when it starts, and leaves it open."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap

    def start(self, config: Mapping[str, str]) -> None:
        self.context.open_owned_topic("history", settings(self._bootstrap)).append([b"1"])

    def poll(self) -> Sequence[SourceRecord] | None:
        return None

    def stop(self) -> None: ...


def client_threads() -> int:
    """The number of threads of Kafka clients in this process."""
    count = 0
    for thread in Path("/proc/self/task").iterdir():
        try:
            count += (thread / "comm").read_text().startswith("rdk:")
        except OSError:
            continue  # it has ended
    return count


def wait_for(condition: Callable[[], bool]) -> None:
    deadline, pause = time.monotonic() + 60, threading.Event()
    while not condition():
        assert time.monotonic() < deadline
        pause.wait(0.05)


def test_reports_are_handled_while_nothing_is_written_and_the_client_ends_with_the_task(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("worker.kafka.log_writer._CLOSE_TIMEOUT_S", 0.1)
    before, listener = client_threads(), Listener()
    with MockKafka() as kafka:
        kafka.create_topic("history")
        runtime = replace(
            Rig(monkeypatch).runtime, task=Keeper(kafka.bootstrap), owned_topics=OwnedTopics(lambda _, given: given)
        )
        task = SourceWorkerTask(TASK_ID, listener, lambda *_: runtime, MemoryServices(), FlushTiming(60, 1, 1))
        task.start()
        wait_for(lambda: "running" in listener.said)
    wait_for(lambda: f"No Kafka broker answers at {kafka.bootstrap}" in caplog.text)
    assert client_threads() > before
    task.stop()
    assert task.join(time.monotonic() + 30)
    wait_for(lambda: client_threads() <= before)


def test_append_ends_in_time_when_no_broker_answers() -> None:
    """The worker's producers wait for brokers as long as it takes."""
    topic = KafkaOwnedTopic(
        "history", settings("127.0.0.1:1", **{"delivery.timeout.ms": "2147483647"})._replace(append_timeout_s=0.5)
    )
    with pytest.raises(UnreachableError, match=r"history.*127\.0\.0\.1:1"):
        topic.append([b"1", b"2"])
    topic.close()
