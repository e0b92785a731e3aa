"""Replays a scenario recorded with Apache's worker on another worker, and compares the internal topics."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from sluice.embedded.broker import EmbeddedBroker
from tests.cluster.cluster import Cluster
from tests.cluster.topics import Stored, TopicReader, topic_reader
from tests.cluster.worker_process import Kind
from tests.interop.recording import Comparison, Recording, Step, load_recording
from tests.support.waiting import WAIT_S

QUIET_S = 1.0
"""How long to watch for unexpected records at the end."""


def replay(broker: EmbeddedBroker, home: Path, kind: Kind, scenario: str) -> list[str]:
    """Returns the differences between the worker's internal topics and the recording.

    Stops at the first step that differs: later differences would only be consequences.
    """
    home.mkdir(parents=True, exist_ok=True)
    with Cluster(broker, home, workers=0, stem=scenario) as cluster, topic_reader(broker.bootstrap) as reader:
        files = home / cluster.name
        names = {"tmp": str(files), **{one: f"{cluster.name}-{one}" for one in ("lines", "numbers", "own")}}
        recording = load_recording(scenario, names)
        for key in ("offset.storage.partitions", "status.storage.partitions"):
            del cluster.properties[key]  # the recording has the defaults
        # No worker is killed. With long sessions a delayed worker keeps its membership and tasks.
        cluster.properties |= {"session.timeout.ms": "30000", "consumer.session.timeout.ms": "30000", **recording.worker}
        # Workers start twice as fast without executor processes, and store the same.
        cluster.properties["task.executors"] = "0"
        replayer = _Replayer(cluster, kind, recording, reader, names)
        files.mkdir()
        (files / "in.txt").write_text("1\n2\n3\n")
        if scenario.startswith("protocol_"):  # they were recorded after a scenario that filled this topic
            _produce(broker.bootstrap, names["lines"], ["1", "2", "3"])
        return replayer.run()


class _Replayer:
    def __init__(self, cluster: Cluster, kind: Kind, recording: Recording, reader: TopicReader, names: dict[str, str]) -> None:
        self._cluster = cluster
        self._kind = kind
        self._recording = recording
        self._comparison = Comparison(recording)
        self._reader = reader
        self._files = Path(names["tmp"])
        self._topics = {
            "configs": cluster.configs_topic,
            "status": cluster.status_topic,
            "offsets": cluster.offsets_topic,
            "own": names["own"],
        }

    def run(self) -> list[str]:
        for number in range(len(self._recording.steps)):
            step = self._comparison.start_step(number)
            if found := self._execute(step) or self._await_records(step):
                return found
        self._watch(QUIET_S)
        return self._comparison.wrong + self._topic_differences()

    def _execute(self, step: Step) -> list[str]:
        actions: dict[str, Callable[[], None]] = {
            "start": self._start,
            "start_second": self._start,
            "stop_second": lambda: self._cluster.stop(self._cluster.workers[1]),
            "restart": self._restart,
            "add_line": self._add_line,
            "wait": lambda: None,
        }
        if step.do != "http":
            actions[step.do]()
            return []
        request = step.request
        query = list(request.get("query", {}).items())
        status, answer = self._cluster.exchange(request["method"], request["path"], request.get("body"), query=query)
        if status != step.status:
            return [f"step {step.number} ({step.name}): expected status {step.status}, got {status}: {answer}"]
        return []

    def _await_records(self, step: Step) -> list[str]:
        """Waits until the step's records are stored. Returns missing records after the timeout, or wrong ones."""
        deadline = time.monotonic() + WAIT_S
        while True:
            self._read_new_records()
            missing = self._comparison.missing()
            if self._comparison.wrong or not missing or time.monotonic() > deadline:
                return self._comparison.wrong + missing
            time.sleep(0.02)

    def _watch(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._read_new_records()
            time.sleep(0.1)

    def _read_new_records(self) -> None:
        roles = {topic: role for role, topic in self._topics.items() if role in self._recording.topics}
        by_role: dict[str, list[Stored]] = {}
        for record in self._reader.new_records(roles):
            by_role.setdefault(roles[record.topic], []).append(record)
        for role, records in by_role.items():
            self._comparison.add(role, records)

    def _start(self) -> None:
        self._cluster.start(self._cluster.add(self._kind))

    def _restart(self) -> None:
        self._cluster.stop()
        self._cluster.start(self._cluster.workers[0])

    def _add_line(self) -> None:
        with (self._files / "in.txt").open("a") as file:
            file.write("4\n")

    def _topic_differences(self) -> list[str]:
        """Returns where partitions and settings of the topics differ from those that Apache creates."""
        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap})
        found = []
        for role, expected in self._recording.topics.items():
            topic = self._topics[role]
            partitions = len(admin.list_topics(topic, timeout=WAIT_S).topics[topic].partitions)
            if partitions != expected["partitions"]:
                found.append(f"{role}: expected {expected['partitions']} partitions, got {partitions}")
            resource = ConfigResource(ResourceType.TOPIC, topic)
            (answer,) = admin.describe_configs([resource]).values()
            settings = {one.name: one.value for one in answer.result(WAIT_S).values() if int(one.source) == 1}
            if settings != expected["settings"]:
                found.append(f"{role}: expected the settings {expected['settings']}, got {settings}")
        return found


def _produce(bootstrap: str, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value.encode())
    assert producer.flush(WAIT_S) == 0
