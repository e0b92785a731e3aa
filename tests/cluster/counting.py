"""A verifiable source and sink that run while a test disturbs the cluster, and the checks of their records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.cluster.cluster import Cluster
from tests.cluster.verifiable import SinkReport, SourceReport, VerifiableCheck
from tests.cluster.worker_process import WorkerProcess
from tests.support.waiting import WAIT_S

SOURCE_CLASS = "org.apache.kafka.connect.tools.VerifiableSourceConnector"
SINK_CLASS = "org.apache.kafka.connect.tools.VerifiableSinkConnector"
_TOPIC_MISSING = (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)


@dataclass(frozen=True, slots=True)
class Outcome:
    source: SourceReport
    sink: SinkReport

    def assert_nothing_lost(self) -> None:
        """Checks what holds with and without exactly-once."""
        assert self.source.counts, "the source wrote nothing"
        assert not self.source.lost, f"acknowledged, but not in the topic: {self.source.lost[:20]}"
        assert not self.source.missing, f"skipped numbers: {self.source.missing[:20]}"
        assert not self.source.disordered, f"out of order in the topic: {self.source.disordered[:20]}"
        assert not self.sink.missing, f"not delivered to the sink: {self.sink.missing[:20]}"
        assert not self.sink.unexpected, f"delivered to the sink, but not in the topic: {self.sink.unexpected[:20]}"
        assert not self.sink.unflushed, f"never flushed by the sink: {self.sink.unflushed[:20]}"

    def assert_one_run_at_a_time(self) -> None:
        """Promise 4: records of two runs of a task do not alternate in the topic."""
        assert not self.source.alternating, f"two runs of a task wrote at the same time: {self.source.alternating[:20]}"

    def assert_written_once(self) -> None:
        assert not self.source.duplicated, f"written twice: {_some(self.source.duplicated)}"

    def assert_received_once(self) -> None:
        assert not self.sink.duplicated, f"delivered twice to the sink: {_some(self.sink.duplicated)}"

    def assert_duplicates_bounded(self, disturbances: int, most_each: int) -> None:
        """Promise 5: a disturbance repeats, per task, at most the records of one flush interval."""
        for what, duplicated in (("written", self.source.duplicated), ("received", self.sink.duplicated)):
            by_task: Counter[int] = Counter()
            for (task, _), times in duplicated.items():
                by_task[task] += times
            beyond = {task: times for task, times in by_task.items() if times > disturbances * most_each}
            assert not beyond, f"more numbers {what} again than {disturbances} disturbances may cause, by task: {beyond}"


def _some(duplicated: Mapping[tuple[int, int], int]) -> str:
    return f"{len(duplicated)} numbers, {dict(list(duplicated.items())[:20])}"


class Counting:
    """A source whose tasks write ascending numbers to a topic with one partition, and a sink that reads it."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        tasks: int = 3,
        rate: int = 15,
        stem: str = "count",
        source_settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.cluster = cluster
        self.tasks = tasks
        self.rate = rate
        self._source_settings = source_settings
        self.source, self.sink, self.topic = (f"{cluster.name}-{stem}-{what}" for what in ("source", "sink", "numbers"))
        self._watcher: Consumer | None = None

    def create(self) -> None:
        """Creates both connectors. Returns when they run, numbers arrive, and the sink has caught up."""
        self.configure()
        self.wait_until_it_counts()
        self.wait_until_delivered()

    def configure(self) -> None:
        """Puts the configs of both connectors. May be called again, such as after a change of ``tasks``."""
        source = {
            "connector.class": SOURCE_CLASS,
            "tasks.max": str(self.tasks),
            "topic": self.topic,
            "throughput": str(self.rate),
            **self._source_settings,
        }
        sink = {"connector.class": SINK_CLASS, "tasks.max": "1", "topics": self.topic}
        for name, config in ((self.source, source), (self.sink, sink)):
            self.cluster.send("PUT", f"/connectors/{name}/config", config)

    def wait_until_running(self) -> None:
        """Waits until all tasks run on live workers."""
        self.cluster.wait_for_state(self.source, tasks=self.tasks)
        self.cluster.wait_for_state(self.sink, tasks=1)

    def wait_until_running_on(self, *workers: WorkerProcess) -> None:
        """Waits until all tasks run on these workers according to the first of them."""
        worker_ids = {worker.worker_id for worker in workers}
        found: dict[str, list[tuple[str, str]]] = {}

        def are_running() -> bool:
            for name in (self.source, self.sink):
                tasks = workers[0].client.status(name)["tasks"]
                found[name] = [(task["state"], task["worker_id"]) for task in tasks]
            if (len(found[self.source]), len(found[self.sink])) != (self.tasks, 1):
                return False
            return all(state == "RUNNING" and worker_id in worker_ids for tasks in found.values() for state, worker_id in tasks)

        self.cluster.wait_for(are_running, WAIT_S, f"all tasks on {sorted(worker_ids)}", lambda: found)

    def wait_until_it_counts(self) -> None:
        """Waits until all tasks run and the topic has received half a second's worth of new numbers."""
        self.wait_until_running()
        start = self.end_offset()
        self.cluster.wait_for(
            lambda: self.end_offset() >= start + self.rate * self.tasks // 2, WAIT_S, "numbers", self.end_offset
        )

    def wait_until_delivered(self) -> None:
        """Waits until the sink has committed everything in the topic, so that a disturbance does not repeat a backlog."""
        end, partition = self.end_offset(), TopicPartition(self.topic, 0)
        group = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": f"connect-{self.sink}"})
        try:
            self.cluster.wait_for(
                lambda: int(group.committed([partition], timeout=WAIT_S)[0].offset) >= end, WAIT_S, f"the sink to commit {end}"
            )
        finally:
            group.close()

    def end_offset(self) -> int:
        """Returns the end offset of the topic, including records of open transactions."""
        if self._watcher is None:
            self._watcher = Consumer(
                {"bootstrap.servers": self.cluster.bootstrap, "group.id": "tests-look", "allow.auto.create.topics": True}
            )
        try:
            return int(self._watcher.get_watermark_offsets(TopicPartition(self.topic, 0), timeout=WAIT_S)[1])
        except KafkaException as e:
            if e.args[0].code() not in _TOPIC_MISSING:
                raise
            return 0  # the source has not written its first record

    def finish(self) -> Outcome:
        """Stops the source, waits until the sink catches up, stops the sink, and returns the reports."""
        cluster = self.cluster
        cluster.send("PUT", f"/connectors/{self.source}/stop")
        cluster.wait_for_state(self.source, "STOPPED", tasks=0)
        check = VerifiableCheck(cluster.bootstrap, self.topic, self.source, self.sink)
        last = SinkReport((), (), (), {})

        def is_caught_up() -> bool:
            nonlocal last
            # The leader reports the tasks as stopped before the other workers stop them: they may still write records.
            end = self.end_offset()
            last = check.sink(cluster.printed())
            return not last.missing and not last.unflushed and self.end_offset() == end

        show = partial(lambda: f"missing {last.missing[:10]}, not flushed {last.unflushed[:10]}")
        cluster.wait_for(is_caught_up, WAIT_S, "the sink to catch up", show)
        cluster.send("PUT", f"/connectors/{self.sink}/stop")
        cluster.wait_for_state(self.sink, "STOPPED", tasks=0)
        lines = cluster.printed()
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
        return Outcome(check.source(lines), check.sink(lines))
