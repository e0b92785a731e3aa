"""Every recorded answer of Apache's standalone and distributed workers, against real workers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from connect.plugins import APACHE_VERSION
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.rest.replay import differences, filled, load_recordings, run_setup
from tests.integration.rest.workers import Workers
from tests.support.waiting import WAIT_S, Deadline


def _kind(recording: dict[str, Any]) -> tuple[str, str, int]:
    return recording["request"]["method"], recording["request"]["path"], recording["status"]


def _cases() -> Iterator[Any]:
    """All recordings. Of a cluster's answers that equal those of a standalone worker, the first of each request that succeeds is
    fast: another herder gives it."""
    standalone = {recording["id"]: recording for recording in load_recordings("standalone")}
    for recording in standalone.values():
        yield pytest.param("standalone", recording, id=f"standalone-{recording['id']}")
    distributed = load_recordings("distributed")
    same = [recording for recording in distributed if recording == standalone.get(recording["id"])]
    of_herder = [one for one in same if one["status"] < 300 and one["request"]["path"].startswith("/connectors")]
    firsts = {_kind(recording): recording["id"] for recording in reversed(of_herder)}
    for recording in distributed:
        is_long = recording in same and recording["id"] not in firsts.values()
        marks = [pytest.mark.long] if is_long else []
        yield pytest.param("distributed", recording, id=f"distributed-{recording['id']}", marks=marks)


@pytest.fixture(scope="module", autouse=True)
def _root_level() -> Iterator[None]:
    """The level that a worker's own process starts with."""
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.INFO)
    yield
    root.setLevel(before)


@pytest.fixture(scope="module")
def workers(_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    _wait_for_groups(_broker.bootstrap)
    running = Workers(_broker.bootstrap, lambda: tmp_path_factory.mktemp("worker"))
    yield running
    running.close()


@pytest.fixture(scope="module")
def cluster_id(_broker: EmbeddedBroker) -> str:
    return str(AdminClient({"bootstrap.servers": _broker.bootstrap}).list_topics(timeout=WAIT_S).cluster_id)


@pytest.mark.parametrize(("mode", "recording"), list(_cases()))
def test_response_equals_apaches(
    mode: str,
    recording: dict[str, Any],
    workers: Workers,
    broker: EmbeddedBroker,
    cluster_id: str,
    unique_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    worker = workers.get(mode, recording["worker"])
    target, topic = worker.target, unique_name("topic")
    names = {"c": unique_name("c"), "d": unique_name("d"), "topic": topic, "tmp": str(tmp_path)}
    names |= {"cluster_id": cluster_id, "worker_id": worker.server.worker_id}
    # The worker's own version is ours; a plugin that stands in for one of Apache's has Apache's.
    names["version"] = (
        target.send({"method": "GET", "path": "/"}).body["version"] if recording["request"]["path"] == "/" else APACHE_VERSION
    )
    if any(step["do"] == "produce" for step in recording["setup"]):
        _create_topic(broker, topic)
    try:
        run_setup(target, filled(recording["setup"], names))
        answer = target.send(filled(recording["request"], names))
        assert differences(filled(recording, names), answer) == []
    finally:
        target.delete_connectors()


def _wait_for_groups(bootstrap: str) -> None:
    """A new broker makes the topic of consumer groups when the first one is asked about, and answers when that is done. The one
    that was recorded had it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "first"})
    deadline = Deadline("a group coordinator")
    try:
        while True:
            try:
                consumer.committed([TopicPartition("none", 0)], timeout=5)
                return
            except KafkaException:
                deadline.check()
    finally:
        consumer.close()


def _create_topic(broker: EmbeddedBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result(WAIT_S)
