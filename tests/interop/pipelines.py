"""What runs in the scenarios: files and numbers through topics, by connectors that both makes of worker have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.topics import read_topic
from tests.cluster.verifiable import VerifiableCheck

_FILE = "org.apache.kafka.connect.file.FileStream"
_TOOLS = "org.apache.kafka.connect.tools."
_STRING = "org.apache.kafka.connect.storage.StringConverter"
WAIT_S = 60.0


class Lines:
    """A file that grows -> a topic -> a file."""

    def __init__(self, cluster: Cluster, source: str = "lines-source", sink: str = "lines-sink") -> None:
        self.source, self.sink = source, sink
        self.topic = f"{cluster.name}-lines"
        self._cluster = cluster
        self._folder = cluster.home / cluster.name
        self._folder.mkdir(parents=True, exist_ok=True)
        self.read_from, self.written_to = self._folder / "in.txt", self._folder / "out.txt"
        self.expected: list[str] = []

    def source_config(self, **more: str) -> dict[str, str]:
        return {
            "connector.class": f"{_FILE}SourceConnector",
            "tasks.max": "1",
            "file": str(self.read_from),
            "topic": self.topic,
            "value.converter": _STRING,
            **more,
        }

    def sink_config(self) -> dict[str, str]:
        return {
            "connector.class": f"{_FILE}SinkConnector",
            "tasks.max": "1",
            "file": str(self.written_to),
            "topics": self.topic,
            "key.converter": _STRING,
            "value.converter": _STRING,
            "consumer.override.auto.offset.reset": "earliest",
        }

    def grow(self, *lines: str) -> None:
        self.expected += lines
        with self.read_from.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def arrive_once(self) -> None:
        """Waits until every line is in the sink's file; each is there, and in the topic, once and in its place."""
        self._cluster.wait_for(lambda: len(self._arrived()) >= len(self.expected), WAIT_S, "lines", self._arrived)
        assert self._arrived() == self.expected
        stored = read_topic(self._cluster.bootstrap, self.topic)
        assert [(one.value or b"").decode() for one in stored] == self.expected

    def _arrived(self) -> list[str]:
        return self.written_to.read_text(encoding="utf-8").splitlines() if self.written_to.exists() else []


class Numbers:
    """A verifiable source -> a topic -> a verifiable sink."""

    def __init__(self, cluster: Cluster, source: str = "numbers-source", sink: str = "numbers-sink") -> None:
        self.source, self.sink = source, sink
        self.topic = f"{cluster.name}-numbers"
        self._cluster = cluster
        self.check = VerifiableCheck(cluster.bootstrap, self.topic, source, sink)

    def source_config(self, tasks: int, **more: str) -> dict[str, str]:
        return {
            "connector.class": f"{_TOOLS}VerifiableSourceConnector",
            "tasks.max": str(tasks),
            "topic": self.topic,
            "throughput": "50",
            **more,
        }

    def sink_config(self, tasks: int, **more: str) -> dict[str, str]:
        return {
            "connector.class": f"{_TOOLS}VerifiableSinkConnector",
            "tasks.max": str(tasks),
            "topics": self.topic,
            # Numbers of a transaction that was cut off are none.
            "consumer.override.isolation.level": "read_committed",
            **more,
        }

    def counts(self) -> Counter[int]:
        """How many different numbers of each task are in the topic."""
        return Counter(task for task, _ in set(self.check.in_topic()))

    def go_on(self, tasks: int, by: int = 10) -> None:
        """Waits until every task has written so many more numbers."""
        before = self.counts()
        self._cluster.wait_for(
            lambda: all((now := self.counts())[task] >= before[task] + by for task in range(tasks)),
            WAIT_S,
            "numbers",
            self.counts,
        )

    def reach_the_sink(self) -> None:
        """Waits until the sink was handed every number; the source must rest. Nothing is missing, lost, disordered, invented."""
        self._cluster.wait_for(
            lambda: not self.check.sink(self._cluster.printed()).missing, WAIT_S, "the sink to have all numbers"
        )
        source, sink = self.check.source(self._cluster.printed()), self.check.sink(self._cluster.printed())
        assert (source.missing, source.lost, source.disordered, sink.invented) == ((), (), (), ())

    def are_not_repeated(self) -> None:
        """No number is in the topic twice, and none was handed to the sink twice."""
        assert self.check.source(self._cluster.printed()).duplicated == {}
        assert self.check.sink(self._cluster.printed()).duplicated == {}

    def are_not_repeated_in_the_topic(self) -> None:
        assert self.check.source(self._cluster.printed()).duplicated == {}


def mock_config(direction: str, **more: str) -> dict[str, str]:
    """A mock connector that does nothing; ``direction`` is ``Source`` or ``Sink``."""
    return {"connector.class": f"{_TOOLS}Mock{direction}Connector", "tasks.max": "1", **more}


@dataclass(slots=True)
class Watched:
    """A value that is compared with what it was."""

    read: Callable[[], Any]
    before: Any = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.read()

    def is_unchanged(self) -> None:
        now = self.read()
        assert now == self.before, f"changed from {self.before} to {now}"


def stored_configs(cluster: Cluster) -> dict[str, Any]:
    """What the config topic says of connectors, their tasks and target states."""
    prefixes = ("connector-", "task-", "commit-", "target-state-")
    return {key: value for key, value in cluster.configs().items() if key.startswith(prefixes)}


def folder_of(home: Path, name: str) -> Path:
    """A folder of the scenario's own."""
    folder = home / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
