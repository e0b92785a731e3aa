"""Runs the sink task like a worker, but without a broker: partitions are lists, and a crash discards the task."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connect.converters.api import Converter
from connect.converters.json.converter import JsonConverter
from connect.converters.simple_header import SimpleHeaderConverter
from connect.data.headers import Header, Headers
from connect.record import RawBatch, SinkRecord, TopicPartition
from connect.sink import FailedRead, OffsetRange, RangeBatch, RangeReader, TopicIdentity
from connect.worker_lifetime import VARIABLE
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.delivery import sink_tables
from connectors.spark.delivery.sink_tables import MaintenanceThread
from connectors.spark.plan.evolution import arrow_type
from connectors.spark.task import SparkSinkTask
from sluice.demo.delta_table import read_delta_table
from sluice.embedded.jars import ensure_jars, folder_of, jar_set
from sluice.embedded.spark_cluster import EmbeddedSparkCluster
from tests.support.services import share_spark
from tests.support.small_spark import CODE_CACHE, INTERPRETED
from tests.support.spark_connect import connect_server


def json_converters(settings: Mapping[str, str]) -> tuple[Converter, Converter]:
    key, value = JsonConverter(), JsonConverter()
    key.configure(settings, True)
    value.configure(settings, False)
    return key, value


class Topic:
    """The partitions of one topic, with messages in JsonConverter's format."""

    def __init__(self, name: str, *, schemas: bool) -> None:
        self.name = name
        self.id = f"id of {name}"
        """Kafka's topic ID. A test that recreates the topic changes it."""
        self.beginnings: dict[int, int] = {}
        """By partition: the first offset that retention left."""
        self.converter = {"schemas.enable": str(schemas).lower()}
        self.converters: tuple[Converter, Converter] | None = None
        """Configured converters of keys and values, if they are no JsonConverters."""
        self.logs: dict[int, list[tuple[bytes | None, bytes | None]]] = {0: []}
        self.headers: dict[tuple[int, int], list[tuple[str, bytes | None]]] = {}
        """By partition and offset."""

    def add(
        self, key: bytes | None, value: bytes | None, partition: int = 0, headers: list[tuple[str, bytes | None]] | None = None
    ) -> None:  # fmt: skip
        log = self.logs.setdefault(partition, [])
        if headers is not None:
            self.headers[partition, len(log)] = headers
        log.append((key, value))

    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, p) for p in self.logs]


@dataclass(frozen=True)
class ListRangeReader:
    """Reads lists like the worker reads Kafka, in any process."""

    logs: Mapping[str, Mapping[int, Sequence[tuple[bytes | None, bytes | None]]]]
    settings: Mapping[str, str]
    raw: bool
    batch: int = 500

    def converters(self) -> tuple[JsonConverter, JsonConverter]:
        key, value = JsonConverter(), JsonConverter()
        key.configure(self.settings, True)
        value.configure(self.settings, False)
        return key, value

    def read(self, offset_range: OffsetRange) -> Iterator[RangeBatch]:
        (name, partition), first, end = offset_range
        for start in range(first, end, self.batch):
            offsets = list(range(start, min(end, start + self.batch)))
            log = self.logs[name][partition][start : offsets[-1] + 1]
            raw = RawBatch(name, partition, offsets, [k for k, _ in log], [v for _, v in log], [0] * len(log))
            records = None if self.raw else to_records(raw, *self.converters())
            yield RangeBatch(raw, records, (), offsets[-1] + 1)


def to_records(raw: RawBatch, key: Converter, value: Converter) -> list[SinkRecord]:
    records = []
    headers = raw.headers or [None] * len(raw)
    for offset, k, v, listed in zip(raw.offsets, raw.keys, raw.values, headers, strict=True):
        kk, vv = key.to_connect_data(raw.topic, k), value.to_connect_data(raw.topic, v)
        record = SinkRecord(raw.topic, raw.partition, kk.schema, kk.value, vv.schema, vv.value, offset)
        if listed is not None:
            read = [(name, SimpleHeaderConverter().to_connect_header(raw.topic, name, text)) for name, text in listed]
            record.headers = Headers([Header(name, header.schema, header.value) for name, header in read])
        records.append(record)
    return records


class Context:
    """A fake of the worker's task context."""

    errant_record_reporter = None

    def __init__(self, topics: Iterable[Topic], raw: bool) -> None:
        self.topics = {t.name: t for t in topics}
        self.raw_allowed = raw
        self.seeks: dict[TopicPartition, int] = {}
        self.commits_requested = 0
        first = next(iter(self.topics.values()))
        self.converter = first.converter
        self.key_converter, self.value_converter = first.converters or json_converters(first.converter)
        self.group: dict[TopicPartition, int] = {}
        self.assigned: set[TopicPartition] = set()
        self.read = 0
        """Records that other processes have read."""

    def configs(self) -> Mapping[str, str]:
        return {}

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.seeks.update(offsets)

    def timeout(self, timeout_ms: int) -> None:
        assert timeout_ms > 0

    def assignment(self) -> set[TopicPartition]:
        return set(self.assigned)

    def pause(self, *partitions: TopicPartition) -> None: ...

    def resume(self, *partitions: TopicPartition) -> None: ...

    def request_commit(self) -> None:
        self.commits_requested += 1

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: len(self.topics[tp.topic].logs[tp.partition]) for tp in partitions}

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.topics[tp.topic].beginnings.get(tp.partition, 0) for tp in partitions}

    def group_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.group[tp] for tp in partitions if tp in self.group}

    def positions(self) -> dict[TopicPartition, int]:
        return {tp: self.seeks.get(tp, self.group.get(tp, 0)) for tp in self.assigned}

    def range_reader(self) -> RangeReader:
        return ListRangeReader({name: t.logs for name, t in self.topics.items()}, self.converter, raw=self.raw_allowed)

    def count_read(self, partition: TopicPartition, records: int, size_bytes: int) -> None:
        self.read += records

    def report_failed_read(self, failure: FailedRead) -> Future[None]:
        raise failure.error

    def topic_identities(self, topics: Collection[str]) -> dict[str, TopicIdentity]:
        return {topic: TopicIdentity("test-cluster", self.topics[topic].id, len(self.topics[topic].logs)) for topic in topics}


class Run:
    """One run of the task, from its start to its close or crash."""

    def __init__(
        self,
        props: Mapping[str, str],
        topics: Iterable[Topic],
        *,
        raw: bool,
        group: dict[TopicPartition, int],
        partitions: Collection[int] | None = None,
    ) -> None:
        """``partitions``: those of each topic that the task has; by default all."""
        self.topics = list(topics)
        self.context = self._new_context(raw)
        self.group = group
        self.task = SparkSinkTask()
        self.task.initialize(self.context)
        self.task.start(props)
        self.raw = self.task.wants_raw()
        assert self.raw == raw
        owned = [tp for t in self.topics for tp in t.partitions() if partitions is None or tp.partition in partitions]
        self.context.group, self.context.assigned = group, set(owned)
        try:
            self.task.open(owned)
        except BaseException:
            self.task.close()  # or its maintenance would go on
            raise
        self.position = {tp: self.context.seeks.get(tp, group.get(tp, 0)) for tp in owned}

    def _new_context(self, raw: bool) -> Context:
        return Context(self.topics, raw)

    def deliver(self, upto: int | None = None, batch: int = 500) -> None:
        """Delivers the topics' records in batches, up to an offset in each partition."""
        for topic in self.topics:
            for partition, log in topic.logs.items():
                if TopicPartition(topic.name, partition) in self.position:
                    self.deliver_partition(topic, partition, len(log) if upto is None else min(upto, len(log)), batch)

    def deliver_partition(self, topic: Topic, partition: int, end: int, batch: int = 500) -> None:
        """Delivers one partition's records, up to an offset."""
        tp = TopicPartition(topic.name, partition)
        while self.position[tp] < end:
            first, last = self.position[tp], min(end, self.position[tp] + batch)
            self._put(topic, partition, first, last)
            self.position[tp] = last

    def _put(self, topic: Topic, partition: int, first: int, last: int) -> None:
        log = topic.logs[partition][first:last]
        offsets = list(range(first, last))
        keys, values = [k for k, _ in log], [v for _, v in log]
        headers = [topic.headers.get((partition, offset)) for offset in offsets]
        if self.raw:
            some = headers if any(headers) else None
            self.task.put_raw([RawBatch(topic.name, partition, offsets, keys, values, [0] * len(log), some)])
            return
        raw = RawBatch(topic.name, partition, offsets, keys, values, [0] * len(log), headers if any(headers) else None)
        self.task.put(to_records(raw, self.context.key_converter, self.context.value_converter))

    def commit(self) -> None:
        """Flushes buffered records into the tables and commits the offsets from pre_commit to the group."""
        self.task.flush(dict(self.position))
        self.group.update(self.task.pre_commit(dict(self.position)))

    def finish(self, timeout_s: float = 900.0) -> None:
        """Lets Spark's executors write all records, and commits the offsets to the group."""
        deadline = time.monotonic() + timeout_s
        ends = {tp: len(self.context.topics[tp.topic].logs[tp.partition]) for tp in self.position}
        while any(self.context.positions()[tp] < end for tp, end in ends.items()):
            assert time.monotonic() < deadline, self.task.progress()
            self.task.put_raw([]) if self.raw else self.task.put([])
            threading.Event().wait(0.01)
        self.position = {tp: self.context.seeks.get(tp, start) for tp, start in self.position.items()}
        self.group.update(self.task.pre_commit(dict(self.position)))

    def close(self) -> None:
        self.commit()
        self.task.close_partitions(list(self.position))
        self.task.close()


@pytest.fixture(scope="session")
def spark_props(shared_services: Path) -> Iterator[dict[str, str]]:
    """Settings of the Spark session for the whole test run. All test processes share its JVM; see ``own_spark``."""
    share_spark(shared_services)
    ensure_jars("spark")
    # Before the first JVM starts, which the tests share.
    ensure_jars("spark-s3")
    ensure_jars("spark-iceberg")
    yield {
        "spark.master": "local[2]",
        "spark.jars": str(folder_of(jar_set("spark"))),
        "spark.conf.spark.driver.memory": "1g",
        **INTERPRETED,
        **CODE_CACHE,
    }
    session.stop()


@contextmanager
def run_own_spark() -> Iterator[None]:
    """Inside, Spark's JVM is this process's own: it starts with the first session and ends with :func:`session.stop`."""
    session.stop()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(VARIABLE, raising=False)
        yield
        session.stop()


@pytest.fixture
def own_spark(spark_props: dict[str, str]) -> Iterator[None]:
    """The test's own JVM, which it may kill."""
    with run_own_spark():
        yield


@pytest.fixture(scope="module")
def own_spark_of_module(spark_props: dict[str, str]) -> Iterator[None]:
    """A JVM for the tests of one module, for example the driver of a cluster."""
    with run_own_spark():
        yield


@pytest.fixture(scope="session")
def shared_cluster(services_dir: Path) -> Iterator[EmbeddedSparkCluster]:
    """The cluster of :func:`spark_cluster`, in whatever state the last test left it."""
    cluster = EmbeddedSparkCluster(services_dir / "spark-cluster", workers=1, dies_with_parent=True)
    yield cluster
    cluster.remove()


@pytest.fixture
def spark_cluster(shared_cluster: EmbeddedSparkCluster) -> EmbeddedSparkCluster:
    """A standalone master and a worker with one core, running; a test may kill them."""
    shared_cluster.start()
    return shared_cluster


@pytest.fixture(scope="session")
def connect_address(services_dir: Path, spark_props: dict[str, str]) -> Iterator[str]:
    """The address of a Spark Connect server."""
    with connect_server(services_dir / "spark-connect", spark_props["spark.jars"]) as address:
        yield address


@pytest.fixture
def props(spark_props: dict[str, str], tmp_path: Path) -> dict[str, str]:
    return {
        **spark_props,
        "name": "lake",
        "connector.class": "SparkSink",
        "topics": "t",
        "table.location": str(tmp_path / "lake"),
        "commit.interval.ms": "600000",
    }


@pytest.fixture
def read(props: dict[str, str]) -> Callable[[str], list[dict[str, Any]]]:
    """Reads a Delta table with delta-rs, which costs a tenth of what Spark takes; the rows have no order."""

    def rows(table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = read_delta_table(f"{props['table.location']}/{table}").to_pylist()
        return found

    return rows


@pytest.fixture
def read_by_spark(props: dict[str, str]) -> Callable[[str], list[dict[str, Any]]]:
    """Reads a Delta table with Spark, also one with features that delta-rs lacks; the rows have no order."""

    def rows(table: str) -> list[dict[str, Any]]:
        lease = session.lease(parse_config(props).spark)
        try:
            frame = lease.session().read.format("delta").load(f"{props['table.location']}/{table}")
            found: list[dict[str, Any]] = frame.toArrow().to_pylist()
            return found
        finally:
            lease.release()

    return rows


@pytest.fixture
def columns_of(props: dict[str, str]) -> Callable[[str], dict[str, pa.DataType]]:
    def columns(table: str) -> dict[str, pa.DataType]:
        import json

        lease = session.lease(parse_config(props).spark)
        try:
            schema = lease.session().read.format("delta").load(f"{props['table.location']}/{table}").schema
            return {f["name"]: arrow_type(f["type"]) for f in json.loads(schema.json())["fields"]}
        finally:
            lease.release()

    return columns


@pytest.fixture
def no_maintenance_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are maintained only when the test does it."""
    monkeypatch.setattr(sink_tables, "MaintenanceThread", lambda name, writers: MaintenanceThread(name, writers, 3600.0))


@pytest.fixture(scope="session")
def run() -> type[Run]:
    return Run


@pytest.fixture(scope="session")
def topic() -> type[Topic]:
    return Topic
