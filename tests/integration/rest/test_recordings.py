"""Every recorded answer of Apache's standalone worker that is in scope, against a real standalone worker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from connect.plugins import APACHE_VERSION
from rest.listeners import ListenSettings
from rest.server import RestServer
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.rest.replay import Target, differences, filled, load_recordings, run_setup
from worker.config import WorkerConfig
from worker.standalone import StandaloneHerder

LEFT_OUT = {
    "logger*": "loggers come with the whole REST API",
    "admin-off-loggers": "loggers come with the whole REST API",
    "offsets-patch-*": "changing offsets comes with the whole REST API",
    "offsets-delete-*": "changing offsets comes with the whole REST API",
    "offsets-get-after-*": "changing offsets comes with the whole REST API",
    "topics-*": "tracking of active topics comes with the whole REST API",
    "internal-*": "calls between workers come with distributed mode",
    "cors-*": "response headers and CORS come with the whole REST API",
    "response-headers-on-error": "response headers and CORS come with the whole REST API",
    "policy-none-*": "recorded with response headers; tests/unit/worker_validation has the policies",
    "plugin-config-verifiable-source": "needs Apache's verifiable source, which comes with distributed mode",
    "plugin-config-jdk-class": "a class of the JVM's own: there is none here",
    "restart-failed-*": "needs Apache's mock connectors, which come with distributed mode",
    "status-task-failed": "needs Apache's mock connectors, which come with distributed mode",
    "status-sink-task-failed": "needs Apache's mock connectors, which come with distributed mode",
    "stop-failed": "needs Apache's mock connectors, which come with distributed mode",
    "tasks-get-two": "needs Apache's verifiable source, which comes with distributed mode",
}
"""Names of recordings that are not in the folder, and why."""

RECORDINGS = load_recordings()
JSON = "org.apache.kafka.connect.json.JsonConverter"

Start = Callable[[dict[str, str]], tuple[Target, dict[str, str]]]


@pytest.fixture(scope="module")
def start_worker(_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a worker for some extra settings, once, and tells what fills its placeholders."""
    running: dict[str, tuple[StandaloneHerder, RestServer, Target]] = {}
    producer = Producer({"bootstrap.servers": _broker.bootstrap})

    def produce(topic: str, values: list[str]) -> None:
        for value in values:
            producer.produce(topic, value.encode())
        producer.flush()

    def start(extra: dict[str, str]) -> tuple[Target, dict[str, str]]:
        key = json.dumps(extra)
        if key not in running:
            props = {
                "bootstrap.servers": _broker.bootstrap,
                "key.converter": JSON,
                "value.converter": JSON,
                "offset.storage.file.filename": str(tmp_path_factory.mktemp("worker") / "offsets"),
                "offset.flush.interval.ms": "500",
                **extra,
            }
            server = RestServer.bind(ListenSettings(("http://127.0.0.1:0",)))
            herder = StandaloneHerder(WorkerConfig.standalone(props), worker_id=server.worker_id)
            herder.start()
            server.start(herder)
            herder.started()
            running[key] = (herder, server, Target("127.0.0.1", server.ports[0], produce))
        herder, server, target = running[key]
        return target, {"worker_id": server.worker_id}

    yield start
    for herder, server, _ in running.values():
        server.stop()
        herder.close(10)


@pytest.fixture(scope="module")
def cluster_id(_broker: EmbeddedBroker) -> str:
    return str(AdminClient({"bootstrap.servers": _broker.bootstrap}).list_topics(timeout=10).cluster_id)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda r: r["id"])
def test_answers_as_apache_does(
    recording: dict[str, Any],
    start_worker: Start,
    broker: EmbeddedBroker,
    cluster_id: str,
    unique_name: Callable[[str], str],
    tmp_path: Path,
) -> None:
    target, names = start_worker(recording["worker"])
    topic = unique_name("topic")
    names |= {"c": unique_name("c"), "d": unique_name("d"), "topic": topic, "tmp": str(tmp_path), "cluster_id": cluster_id}
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


def _create_topic(broker: EmbeddedBroker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result(30)


def test_what_is_left_out_is_not_here() -> None:
    both = [r["id"] for r in RECORDINGS if any(fnmatch(r["id"], pattern) for pattern in LEFT_OUT)]
    assert both == []
