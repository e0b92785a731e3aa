"""The same work on embedded Spark, a standalone cluster, and a Spark Connect server ends in the same tables.

Embedded Spark, with which the other files of this folder do such work, runs here only with ``--all``.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from connect import crash_points
from connect.errors import ConfigError, ConnectError
from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.connector import SparkSink
from connectors.spark.delivery import commit_scheduler
from connectors.spark.session.remote import RemoteSpark
from tests.integration.spark import conftest
from tests.integration.spark.crashes import Crash
from tests.integration.spark.engines import Case, check_engines
from tests.support.spark_cluster import fast_settings
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    # PySpark's collect() leaves the socket it read from to Python's reference counting.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LOCAL, CLUSTER, CONNECT = "local", "cluster", "connect"
WAIT_S = 300.0
# Executors read the records, which are lists, with a class of the tests.
EXECUTOR_PATH = "spark.conf.spark.executorEnv.PYTHONPATH"
BY_MERGE = {"spark.conf.spark.databricks.delta.properties.defaults.enableDeletionVectors": "false"}


@pytest.fixture(scope="module", params=[pytest.param(LOCAL, marks=pytest.mark.long), CLUSTER, CONNECT])
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """Which Spark; all tests of one run before those of the next, because a process uses one Spark."""
    if request.param == LOCAL:
        yield request.param
        return
    with conftest.run_own_spark():
        yield request.param


@pytest.fixture
def crash_after_commit(monkeypatch: pytest.MonkeyPatch) -> Callable[[conftest.Run], None]:
    """Has a run commit its records to a table, and crash before the consumer group knows of it."""
    monkeypatch.setattr(commit_scheduler, "MAX_THREADS", 1)  # the commit of another table does not continue after the crash

    def crash(point: str) -> None:
        if point == "spark.committed":
            raise Crash

    def commit(running: conftest.Run) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(crash_points, "point", crash)
            with pytest.raises(Crash):
                running.commit()

    return commit


@dataclass
class Sink:
    """A sink with one topic, and its tables."""

    props: dict[str, str]
    topic: conftest.Topic
    run: type[conftest.Run]

    def start(self, **more: str) -> conftest.Run:
        self.props |= more
        return self.run(self.props, [self.topic], raw=True, group={})

    def rows(self, table: str = "t") -> list[dict[str, Any]]:
        lease = session.lease(parse_config(self.props).spark)
        try:
            frame = lease.session().read.format("delta").load(f"{self.props['table.location']}/{table}")
            found: list[dict[str, Any]] = frame.toArrow().to_pylist()
            return found
        finally:
            lease.release()

    def add(self, id_: int, op: str = "c", **fields: Any) -> None:
        image = {"id": id_, **fields}
        before, after = (image, None) if op == "d" else (None, image)
        value = {"before": before, "after": after, "op": op, "source": {"ts_ms": len(self.topic.logs[0]), "table": "t"}}
        self.topic.add(json.dumps({"id": id_}).encode(), json.dumps(value).encode())


@pytest.fixture
def settings(kind: str, spark_props: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    spark = {"spark.jars": spark_props["spark.jars"], "spark.conf.spark.sql.shuffle.partitions": "2"}
    if kind == LOCAL:
        spark |= spark_props
    elif kind == CLUSTER:
        spark |= fast_settings(request.getfixturevalue("spark_cluster"))
        spark |= {EXECUTOR_PATH: str(Path(__file__).parents[3])}
    else:
        spark |= {"spark.remote": request.getfixturevalue("connect_address")}
    lake = {"table.location": str(tmp_path / "lake"), "commit.interval.ms": "600000"}
    return {"name": "lake", "connector.class": "SparkSink", "topics": "t", **spark, **lake}


@pytest.fixture
def sink(settings: dict[str, str], run: Any, topic: Any) -> Sink:
    return Sink(settings, topic("t", schemas=False), run)


def test_append_adds_each_event_once_whatever_happens(sink: Sink, crash_after_commit: Callable[[conftest.Run], None]) -> None:
    """A new column, an errant record, a crash, and offsets that are set over REST."""
    partition = TopicPartition("t", 0)
    running = sink.start(**{"errors.tolerance": "all", "append.replay": "repeat"})
    sink.add(1, v="a")
    running.deliver()
    running.commit()
    sink.add(1, "u", v="b", extra=[{"n": 1}])
    sink.topic.add(b'{"id":9}', b"{broken")
    sink.add(1, "d", v="b")
    running.deliver()
    crash_after_commit(running)
    assert running.group == {partition: 1}
    assert running.task.progress()["refused"] == 1
    restarted = sink.start()
    assert restarted.position == {partition: 4}
    restarted.close()
    assert SparkSink().alter_offsets(sink.props, {partition: 3})
    again = sink.start()
    assert again.position == {partition: 3}
    again.deliver()
    again.close()
    rows = sorted(sink.rows(), key=lambda row: row["__offset"])
    assert [(r["__offset"], r["__op"], r["id"], r["v"], r["extra"]) for r in rows] == [
        (0, "c", 1, "a", None),
        (1, "u", 1, "b", [{"n": 1}]),
        (3, "d", 1, "b", None),
        (3, "d", 1, "b", None),
    ]


def test_both_has_the_latest_row_of_each_key_beside_every_event(
    sink: Sink, kind: str, crash_after_commit: Callable[[conftest.Run], None], request: pytest.FixtureRequest
) -> None:
    more = {"write.mode": "both", **BY_MERGE}  # Spark writes the rows: on a cluster, its executors
    for round_ in range(2):
        running = sink.start(**more)
        for key in range(5):
            sink.add(key + round_, "u" if round_ else "c", round=round_)
        sink.add(round_, "d", round=round_)
        running.deliver()
        if round_:
            running.close()
        else:
            crash_after_commit(running)
    rows = sink.rows()
    assert {row["id"]: row["round"] for row in rows} == {2: 1, 3: 1, 4: 1, 5: 1}
    assert len(rows) == 4
    assert Counter(row["__op"] for row in sink.rows("t_changelog")) == {"c": 5, "u": 5, "d": 2}
    if kind == CLUSTER:
        workers = request.getfixturevalue("spark_cluster").workers
        assert any("Finished task" in log.read_text() for worker in workers for log in worker.executor_logs())


def test_scd2_keeps_versions_or_is_refused(sink: Sink, kind: str) -> None:
    if kind == CONNECT:
        with pytest.raises(ConfigError, match=r"spark\.remote.*scd2 is out of reach of Spark Connect; use spark\.master"):
            sink.start(**{"write.mode": "scd2"})
        return
    running = sink.start(**{"write.mode": "scd2"})
    for round_ in range(2):
        sink.add(1, v=f"v{round_}")
        running.deliver()
        running.commit()
    running.close()
    assert sorted((row["v"], row["__current"]) for row in sink.rows()) == [("v0", False), ("v1", True)]


@pytest.mark.long
@pytest.mark.parametrize("kind", [CLUSTER], indirect=True)
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_executors_of_the_cluster_write_a_backlog(sink: Sink, mode: str) -> None:
    for partition in (0, 1):
        for offset in range(300):
            value = b'{"id":%d,"v":%d}' % (2 * (offset % 100) + partition, offset)
            sink.topic.add(b'{"id":%d}' % (2 * (offset % 100) + partition), value, partition)
    running = sink.start(**{"write.mode": mode, "spark.engine": "executors"})
    running.finish(WAIT_S)
    progress = running.task.progress()
    running.close()
    assert progress["engine"]["records"] == 600
    assert progress["engine"]["jobs"] > progress["engine"]["staged_parts"], "only the first rows pass through the worker"
    rows = sink.rows()
    if mode == "append":
        found = sorted((row["__partition"], row["__offset"], row["id"], row["v"]) for row in rows)
        assert found == [(p, offset, 2 * (offset % 100) + p, offset) for p in (0, 1) for offset in range(300)]
    else:
        assert sorted((row["id"], row["v"]) for row in rows) == [(id_, 200 + id_ // 2) for id_ in range(200)]


@pytest.mark.parametrize("kind", [CLUSTER], indirect=True)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(10, "delta", "upsert"), id="upsert"),
        pytest.param(Case(11, "delta", "append", raw=False), id="append", marks=pytest.mark.long),
    ],
)
def test_worker_and_executors_of_the_cluster_write_the_same_tables(
    settings: dict[str, str], run: Any, topic: Any, case: Case
) -> None:
    check_engines(case, settings, run, topic, events=32)


@pytest.mark.parametrize("kind", [CLUSTER], indirect=True)
def test_cluster_without_our_packages_is_told_which_and_how_to_ship_them(
    sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"  # on the hosts of the executors, one without packages
    bare = Path(sys.base_prefix) / "bin" / "python3"
    python.write_text(f'#!/bin/sh\n[ -n "$SPARK_EXECUTOR_DIRS" ] && exec {bare} "$@"\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    sink.add(1)
    running = sink.start(**{"spark.engine": "executors"})
    eventually(lambda: SparkContext._active_spark_context is not None, "the worker's connection to Spark")
    monkeypatch.setattr(SparkContext._active_spark_context, "pythonExec", str(python))
    with pytest.raises(ConnectError, match=r"the Python of executor \d+ on host \S+ lacks the package \w+.*spark\.archives"):
        running.finish(WAIT_S)
    running.task.close()


@pytest.mark.parametrize("kind", [CONNECT], indirect=True)
def test_two_tasks_on_one_server_write_only_their_own_rows_and_offsets(settings: dict[str, str], run: Any, topic: Any) -> None:
    props = {**settings, "topics": "a,b", "write.mode": "upsert"}
    topics = [topic(name, schemas=False) for name in ("a", "b")]
    runs = [run({**props, "spark.sink.task": str(task)}, [source], raw=True, group={}) for task, source in enumerate(topics)]
    at_once = threading.Barrier(len(runs))
    failures: list[BaseException] = []

    def work(running: Any, source: Any) -> None:
        try:
            for round_ in range(2):
                for key in range(10):
                    value = b'{"id":%d,"origin":"%s","round":%d}' % (key + round_, source.name.encode(), round_)
                    source.add(b'{"id":%d}' % (key + round_), value)
                running.deliver()
                at_once.wait(300)
                running.commit()
        except BaseException as e:
            failures.append(e)
            at_once.abort()

    threads = [threading.Thread(target=work, args=pair) for pair in zip(runs, topics, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for running, source in zip(runs, topics, strict=True):
        offsets = running.task.sink.tables.queue(source.name).load(source.partitions())
        assert offsets.ends == {source.partitions()[0]: 20}
        running.close()
        rows = Sink(props, source, run).rows(source.name)
        assert {row["id"]: (row["origin"], row["round"]) for row in rows} == {i: (source.name, min(i, 1)) for i in range(11)}
        assert len(rows) == 11


@pytest.mark.parametrize("kind", [CONNECT], indirect=True)
def test_collecting_a_session_that_was_never_released_leaves_others_usable(settings: dict[str, str]) -> None:
    from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator

    lease = session.lease(parse_config(settings).spark)
    try:
        used = lease.session()
        assert used.sql("select 1 n").collect()[0].n == 1
        lost = [RemoteSpark(parse_config(settings).spark).new_session(parse_config(settings).spark)]
        # PySpark's threads that release results: a collection may happen on any thread.
        ExecutePlanResponseReattachableIterator._get_or_create_release_thread_pool().submit(lost.clear).result()
        assert used.sql("select 2 n").collect()[0].n == 2
    finally:
        lease.release()
