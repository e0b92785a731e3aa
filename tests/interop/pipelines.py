"""Pipelines of the scenarios: files and numbers through topics, with connectors that both implementations have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.topics import read_topic
from tests.cluster.verifiable import VerifiableCheck
from tests.support.waiting import WAIT_S

_FILE = "org.apache.kafka.connect.file.FileStream"
_TOOLS = "org.apache.kafka.connect.tools."
_STRING = "org.apache.kafka.connect.storage.StringConverter"


class Lines:
    """A growing file -> a topic -> a file."""

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

    def append(self, *lines: str) -> None:
        self.expected += lines
        with self.read_from.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def assert_delivered_once(self) -> None:
        """Waits until all lines are in the sink's file and checks that file and topic have each line once and in order."""
        self._cluster.wait_for(lambda: len(self._delivered()) >= len(self.expected), WAIT_S, "lines", self._delivered)
        assert self._delivered() == self.expected
        stored = read_topic(self._cluster.bootstrap, self.topic)
        assert [(one.value or b"").decode() for one in stored] == self.expected

    def _delivered(self) -> list[str]:
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
            "throughput": "10",
            **more,
        }

    def sink_config(self, tasks: int, **more: str) -> dict[str, str]:
        return {
            "connector.class": f"{_TOOLS}VerifiableSinkConnector",
            "tasks.max": str(tasks),
            "topics": self.topic,
            # Ignore numbers of aborted transactions.
            "consumer.override.isolation.level": "read_committed",
            **more,
        }

    def counts(self) -> Counter[int]:
        """Returns how many different numbers of each task are in the topic."""
        return Counter(task for task, _ in set(self.check.in_topic()))

    def wait_for_more(self, tasks: int, count: int = 10) -> None:
        """Waits until every task has written this many more numbers."""
        before = self.counts()
        self._cluster.wait_for(
            lambda: all((now := self.counts())[task] >= before[task] + count for task in range(tasks)),
            WAIT_S,
            "numbers",
            self.counts,
        )

    def assert_all_reach_the_sink(self) -> None:
        """Waits until the sink has every number of the stopped source. Checks that they are complete and in order."""
        self._cluster.wait_for(
            lambda: not self.check.sink(self._cluster.printed()).missing, WAIT_S, "the sink to have all numbers"
        )
        source, sink = self.check.source(self._cluster.printed()), self.check.sink(self._cluster.printed())
        assert (source.missing, source.lost, source.disordered, sink.unexpected) == ((), (), (), ())

    def assert_no_duplicates(self) -> None:
        """Checks that no number was written or delivered twice."""
        assert self.check.source(self._cluster.printed()).duplicated == {}
        assert self.check.sink(self._cluster.printed()).duplicated == {}

    def assert_no_duplicates_in_topic(self) -> None:
        assert self.check.source(self._cluster.printed()).duplicated == {}


def mock_config(direction: str, **more: str) -> dict[str, str]:
    """Returns the config of a mock connector that does nothing. ``direction`` is ``Source`` or ``Sink``."""
    return {"connector.class": f"{_TOOLS}Mock{direction}Connector", "tasks.max": "1", **more}


@dataclass(slots=True)
class Unchanged:
    """Checks that a value stays the same."""

    read: Callable[[], Any]
    before: Any = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.read()

    def check(self) -> None:
        now = self.read()
        assert now == self.before, f"changed from {self.before} to {now}"


def stored_configs(cluster: Cluster) -> dict[str, Any]:
    """Returns connector configs, task configs, and target states from the config topic."""
    prefixes = ("connector-", "task-", "commit-", "target-state-")
    return {key: value for key, value in cluster.configs().items() if key.startswith(prefixes)}


def create_folder(home: Path, name: str) -> Path:
    """Creates a folder for the scenario."""
    folder = home / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder
