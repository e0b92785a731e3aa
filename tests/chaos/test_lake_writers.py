"""Two workers with the same sinks write the same tables: they, or only their Spark, are killed, and stopped until another one has
taken over, at random moments, while a third Spark runs OPTIMIZE and VACUUM. Every record is in the append table once, the upsert
table has the last change of each key, and the table of versions all of them. Promises 4 to 6.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from connect.errors import ConnectError, RetriableError
from connectors.spark import session
from connectors.spark.config import SparkConfig
from connectors.spark.tables.table_lock import TableLock
from rest.client import ConnectClient
from sluice.embedded import jars
from sluice.embedded.broker import EmbeddedBroker
from tests.cluster.topics import read_topic
from tests.cluster.worker_process import WorkerProcess
from tests.integration.spark.table_access import FORMATS, TableAccess
from tests.support import randomness
from tests.support.background import BackgroundWriter
from tests.support.standalone_worker import SHORT_SESSIONS, WITHOUT_SCHEMAS, create_worker
from tests.support.waiting import WAIT_S, eventually

pytestmark = [
    pytest.mark.long,
    pytest.mark.chaos,
    pytest.mark.timeout(20_000),
    # PySpark's collect() leaves the socket it read from to Python's reference counting.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

KILLS = randomness.size("SLUICE_KILLS", 2)
"""How often something is killed or stopped: by turns, and at random beyond the first three. 200 take some hours. A few leave
the table of versions out."""
PARTITIONS = 3
KEYS = 500
READY_S = 300.0
CARE_S = 4.0 if KILLS > 2 else 20.0
"""Between two rounds of OPTIMIZE and VACUUM."""
LOCAL_SPARK = {"spark.master": "local[1]", "spark.conf.spark.driver.memory": "1g"}
SINKS = {"lake-append": "append", "lake-upsert": "upsert", "lake-versions": "scd2"}
TOPICS = {"append": "append", "upsert": "upsert", "scd2": "upsert"}
"""By mode of a table: the topic that it gets."""


class Records:
    """Produces numbered records until it is stopped: events without keys, and changes of rows with tombstones."""

    def __init__(self, bootstrap: str, append: str, upsert: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self._topics = append, upsert
        self._writer = BackgroundWriter("lake-records", self._run)
        self.start = self._writer.start

    def stop(self) -> None:
        self._writer.stop()
        assert self._producer.flush(WAIT_S) == 0

    def _run(self, stop: threading.Event) -> None:
        append, upsert = self._topics
        chance = randomness.chance("records")
        n = 0
        while not stop.wait(0.1):  # a producer that sends more often keeps the broker busy with requests
            for _ in range(20):
                n += 1
                id_ = chance.randrange(KEYS)
                self._producer.produce(append, json.dumps({"n": n}), partition=n % PARTITIONS)
                value = None if chance.random() < 0.1 else json.dumps({"id": id_, "n": n})
                self._producer.produce(upsert, value, json.dumps({"id": id_}), partition=id_ % PARTITIONS)
            self._producer.poll(0)


class Care:
    """Another Spark that runs OPTIMIZE and VACUUM on tables, again and again."""

    def __init__(self, tables: list[TableAccess]) -> None:
        self._writer = BackgroundWriter("lake-care", self._run)
        # A round of OPTIMIZE and VACUUM beside two workers takes minutes on a busy machine.
        self.start, self.stop = self._writer.start, partial(self._writer.stop, READY_S)
        self._tables = tables
        folder = str(jars.folder_of(jars.jar_set("spark")))
        # The address of the other tests with Spark: a process uses only one.
        self._lease = session.lease(SparkConfig("local[2]", "", (("spark.driver.memory", "1g"),), (folder,)))
        self._spark = self._lease.session()
        self._spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        self.rounds = 0

    def _run(self, stop: threading.Event) -> None:
        while not stop.wait(CARE_S):
            for table in self._tables:
                # On local disks, commits are safe in one JVM only, so a writer in another one takes the lock.
                # Commits that the sinks have planned meanwhile then conflict.
                with contextlib.suppress(RetriableError), TableLock(str(table.log), ".sluice-commit.lock").held():
                    table.change(self._spark, "OPTIMIZE {table}")
                    table.change(self._spark, "VACUUM {table} RETAIN 0.1 HOURS")
                    self.rounds += 1

    def rows(self, table: TableAccess) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = table.by_spark(self._spark).to_pylist()
        return found

    def close(self) -> None:
        try:
            self._writer.stop()
        finally:
            self._lease.release()
            session.stop()


class Lake:
    """The topics, the tables, and workers that run the same sinks."""

    def __init__(
        self,
        home: Path,
        broker: EmbeddedBroker,
        name: str,
        formats: Mapping[str, str],
        workers: str = "ab",
        spark: Mapping[str, str] = LOCAL_SPARK,
    ) -> None:
        """``formats``: of the table of each mode; ``workers``: their names; ``spark``: settings of the sinks."""
        self._formats = formats
        self._spark = spark
        self.topics = {topic: f"{name}-{topic}" for topic in TOPICS.values()}
        self.tables = {mode: FORMATS[formats[mode]](home / "lake" / f"{name}-{mode}") for mode in formats}
        self._bootstrap = broker.bootstrap
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for created in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in self.topics.values()]).values():
            created.result(WAIT_S)
        self._names = {f"{name}-{sink}": mode for sink, mode in SINKS.items() if mode in formats}
        configs = {sink: self._config(home, mode) for sink, mode in self._names.items()}
        properties = {**WITHOUT_SCHEMAS, **SHORT_SESSIONS, "task.executors": "1"}
        self.workers = [create_worker(home, broker, configs, properties, name=worker) for worker in workers]

    def _config(self, home: Path, mode: str) -> dict[str, str]:
        return {
            "connector.class": "SparkSink",
            "topics": self.topics[TOPICS[mode]],
            "table.name.format": self.tables[mode].path.name,
            **self._spark,
            "table.location": str(home / "lake"),
            "write.mode": mode,
            "table.format": self._formats[mode],
            "metadata.columns": "__partition,__offset",
            "freshness.ms": "1000",
        }

    def start(self, worker: WorkerProcess) -> None:
        worker.start(environment={"SLUICE_SPARK_JARS": str(jars.folder_of(jars.jar_set("spark")))})

    def owns_partitions(self, worker: WorkerProcess) -> bool:
        """Whether both sinks of this worker have partitions."""
        try:
            return all(all(task["lag"] for task in worker.client.progress(name)) for name in self._names)
        except ConnectError:
            return False  # it is starting

    def has_delivered_everything(self) -> bool:
        return self.lag() == 0

    def lag(self) -> int | None:
        """The number of records that are in no table yet; None while a worker does not say it."""
        lags = [self._lag(worker.client, name) for worker in self.workers for name in self._names]
        known = [lag for lag in lags if lag is not None]
        return sum(known) if len(known) == len(lags) else None

    @staticmethod
    def _lag(client: ConnectClient, name: str) -> int | None:
        try:
            tasks = client.progress(name)
        except ConnectError:
            return None
        lags = [lag for task in tasks for lag in (task["lag"] or {"unknown": None}).values()]
        return None if not lags or None in lags else sum(lags)

    def versions(self) -> list[int]:
        """The number of commits of each table."""
        return [table.versions() for table in self.tables.values()]

    def wait_for_takeover(self) -> None:
        """Waits until other writers have committed to both tables."""
        before = self.versions()

        def have_committed() -> bool:
            return all(now > then + 3 for now, then in zip(self.versions(), before, strict=True))

        eventually(have_committed, f"more commits than {before}", self.versions, timeout_s=READY_S, pause_s=0.1)

    def is_locked(self) -> bool:
        """Whether another process keeps the lock of a table."""
        for table in self.tables.values():
            try:
                with TableLock(str(table.log), ".sluice-commit.lock").held():
                    pass
            except RetriableError:
                return True
        return False

    def records(self, mode: str) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
        """All keys and values of the topic of a table, by partition."""
        found: dict[int, list[tuple[bytes | None, bytes | None]]] = {number: [] for number in range(PARTITIONS)}
        for record in read_topic(self._bootstrap, self.topics[TOPICS[mode]]):
            assert record.offset == len(found[record.partition])
            found[record.partition].append((record.key, record.value))
        return found

    def end(self) -> None:
        for worker in self.workers:
            worker.thaw()
            worker.end()


@pytest.fixture
def lake(tmp_path: Path, broker: EmbeddedBroker, unique_name: Any, formats: dict[str, str]) -> Iterator[Lake]:
    formats = {mode: format_ for mode, format_ in formats.items() if mode != "scd2" or KILLS > 2}
    jars.ensure_jars("spark")
    jars.ensure_jars("spark-iceberg")
    made = Lake(tmp_path, broker, unique_name("lake"), formats)
    yield made
    made.end()


@pytest.fixture
def care(lake: Lake) -> Iterator[Care]:
    made = Care(list(lake.tables.values()))
    yield made
    made.close()


DISTURBANCES = ("kill", "stop", "kill Spark")


def disturb(lake: Lake, worker: WorkerProcess, disturbance: str) -> None:
    """Kills a worker, or its JVM, or stops it while it commits nothing; continues it after the other one has taken over."""
    if disturbance == "kill Spark":
        for child in psutil.Process(worker.pid).children(recursive=True):
            if child.name() == "java":
                child.kill()
        lake.wait_for_takeover()
        return
    if disturbance == "kill":
        worker.kill()
        lake.wait_for_takeover()
        lake.start(worker)
        return
    worker.freeze()
    while lake.is_locked():  # nobody else could commit
        worker.thaw()
        time.sleep(0.5)
        worker.freeze()
    lake.wait_for_takeover()
    worker.thaw()


@pytest.mark.parametrize(
    "formats",
    [
        pytest.param({"append": "delta", "upsert": "iceberg", "scd2": "delta"}, id="upsert-iceberg"),
        pytest.param({"append": "iceberg", "upsert": "delta", "scd2": "iceberg"}, id="upsert-delta", marks=pytest.mark.long),
    ],
)
def test_tables_are_exact_when_their_writers_are_killed_or_stopped(
    lake: Lake, care: Care, broker: EmbeddedBroker, formats: dict[str, str]
) -> None:
    chance = randomness.chance("kills")
    records = Records(broker.bootstrap, lake.topics["append"], lake.topics["upsert"])
    records.start()
    for worker in lake.workers:
        lake.start(worker)
    for worker in lake.workers:
        worker.wait_for(partial(lake.owns_partitions, worker), READY_S, "partitions")
    lake.workers[0].wait_for(lambda: all(lake.versions()), READY_S, "both tables")
    care.start()
    for number in range(KILLS):
        worker = chance.choice(lake.workers)
        worker.run_for(chance.uniform(0.2, 3))
        disturb(lake, worker, DISTURBANCES[number] if number < len(DISTURBANCES) else chance.choice(DISTURBANCES))
        worker.wait_for(partial(lake.owns_partitions, worker), READY_S, "partitions")
    records.stop()
    lake.workers[0].wait_for(lambda: care.rounds > 0, READY_S, "maintenance")
    care.stop()
    lake.workers[0].wait_for(lake.has_delivered_everything, READY_S, "everything to arrive")
    for worker in lake.workers:
        worker.stop()
    checks = {"append": assert_append_table, "upsert": assert_upsert_table, "scd2": assert_versions}
    for mode, table in lake.tables.items():
        check = checks[mode]
        check(lake, [table.by_second_engine().to_pylist(), care.rows(table)])


def assert_append_table(lake: Lake, readings: Sequence[list[dict[str, Any]]]) -> None:
    expected = [
        (partition, offset, json.loads(value or b"")["n"])
        for partition, log in lake.records("append").items()
        for offset, (_, value) in enumerate(log)
    ]
    for rows in readings:
        assert sorted((r["__partition"], r["__offset"], r["n"]) for r in rows) == expected


def assert_upsert_table(lake: Lake, readings: Sequence[list[dict[str, Any]]]) -> None:
    expected: dict[int, tuple[int, int, int]] = {}
    for partition, log in lake.records("upsert").items():
        for offset, (key, value) in enumerate(log):
            id_ = json.loads(key or b"")["id"]
            expected.pop(id_, None)
            if value is not None:
                expected[id_] = (partition, offset, json.loads(value)["n"])
    for rows in readings:
        found = sorted((r["id"], r["__partition"], r["__offset"], r["n"]) for r in rows)
        assert found == sorted((id_, *where) for id_, where in expected.items())


def assert_versions(lake: Lake, readings: Sequence[list[dict[str, Any]]]) -> None:
    expected: dict[tuple[int, int], tuple[int, int, bool]] = {}
    current: dict[int, tuple[int, int]] = {}
    for partition, log in lake.records("scd2").items():
        for offset, (key, value) in enumerate(log):
            id_ = json.loads(key or b"")["id"]
            if before := current.pop(id_, None):
                expected[before] = (*expected[before][:2], False)
            if value is not None:
                current[id_] = partition, offset
                expected[partition, offset] = (id_, json.loads(value)["n"], True)
    for rows in readings:
        found = sorted((r["__partition"], r["__offset"], r["id"], r["n"], r["__current"]) for r in rows)
        assert found == sorted((*where, *version) for where, version in expected.items())
