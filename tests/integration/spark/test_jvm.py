"""One JVM for the processes of a worker: who starts it, who survives whom, and what follows its end."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from connect.errors import RetriableError
from connect.worker_lifetime import WorkerLifetime
from connectors.spark import session
from connectors.spark.config import SparkConfig, parse_config
from sluice.embedded.jars import folder_of, jar_set

pytestmark = [
    pytest.mark.usefixtures("own_spark_of_module"),
    pytest.mark.slow,
    # PySpark leaves the socket of a collect to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

EXIT_TIMEOUT_S = 60.0

# What an executor does: prints the JVM's process ID, then, per line of input, appends rows of a partition to a table.
EXECUTOR = """
import sys
from pathlib import Path
import pyarrow as pa
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.tables.open_table import open_table
from connectors.spark.tables.staging import Staging
from connectors.spark.tables.table import OffsetCommit

jars, name = sys.argv[1:]
location = {"name": name, "table.location": "/nowhere", "spark.master": "local[2]", "spark.jars": jars}
lease = session.lease(parse_config(location).spark)
spark = lease.session()
print(spark._jvm.java.lang.ProcessHandle.current().pid(), flush=True)
for line in sys.stdin:
    path, number_of_partition, first, last = line.split()
    parsed = parse_config({**location, "table.location": str(Path(path).parent)})
    table = open_table(parsed, Path(path).name, lease, Staging(parsed.location, name), lambda topic: TopicIdentity("c", "t"))
    partition = TopicPartition("t", int(number_of_partition))
    if table.load([partition]).columns is None:
        table.create({"id": pa.int64()}, ())
    for number in range(int(first), int(last)):
        rows = pa.table({"id": pa.array([number], pa.int64())})
        while True:
            commit = OffsetCommit({partition: (number, number + 1)}, {partition: number + 1}, table.load([partition]).ends)
            if table.append(rows, commit) is not None:
                break
    print("done", flush=True)
"""

# A worker that is killed: it starts an executor, prints the JVM's process ID, and waits.
WORKER = """
import subprocess, sys
from connect.worker_lifetime import WorkerLifetime
lifetime = WorkerLifetime()
import os
executor = subprocess.Popen(
    [sys.executable, "-c", sys.argv[1], sys.argv[2], "a"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    env={**os.environ, **lifetime.variables()}, pass_fds=(lifetime.scope.descriptor,),
)
print(executor.stdout.readline().strip(), flush=True)
sys.stdin.read()
"""


class Executor:
    """A process of a worker that uses Spark."""

    def __init__(self, lifetime: WorkerLifetime, jars: str, name: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", EXECUTOR, jars, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **lifetime.variables(), "PYTHONPATH": os.pathsep.join(sys.path)},
            pass_fds=(lifetime.scope.descriptor,),
        )

    def read_jvm(self) -> int:
        return int(self.read())

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def append(self, table: Path, partition: int, first: int, last: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{table} {partition} {first} {last}\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


@contextmanager
def watch(pid: int) -> Iterator[Callable[[], bool]]:
    """Yields a function that waits for the exit of a process, and returns whether it exited."""
    descriptor = os.pidfd_open(pid)
    try:
        yield lambda: bool(select.select([descriptor], [], [], EXIT_TIMEOUT_S)[0])
    finally:
        os.close(descriptor)


def rows_in(table: Path) -> list[int]:
    adds = []
    for log in sorted((table / "_delta_log").glob("*.json")):
        adds += [json.loads(line)["add"] for line in log.read_text().splitlines() if '"add":' in line]
    return sorted(json.loads(add["stats"])["minValues"]["id"] for add in adds)


def jvm_of(spark: Any) -> int:
    return int(spark._jvm.java.lang.ProcessHandle.current().pid())


@pytest.fixture
def jars(spark_props: dict[str, str]) -> str:
    return str(folder_of(jar_set("spark")))


@pytest.mark.long
def test_executors_commit_at_once_through_one_jvm_which_survives_its_starter_and_ends_with_the_worker(
    jars: str, tmp_path: Path
) -> None:
    lifetime = WorkerLifetime()
    first = Executor(lifetime, jars, "a")
    second = Executor(lifetime, jars, "b")
    try:
        jvm = first.read_jvm()
        assert second.read_jvm() == jvm
        table = tmp_path / "table"
        first.append(table, 0, 0, 1)  # creates it
        assert first.read() == "done"
        first.append(table, 0, 1, 4)
        second.append(table, 1, 4, 7)
        assert (first.read(), second.read()) == ("done", "done")
        assert rows_in(table) == list(range(7))

        first.end()  # one of them has started the JVM's host
        second.append(table, 1, 7, 8)
        assert second.read() == "done"
        third = Executor(lifetime, jars, "c")
        try:
            assert third.read_jvm() == jvm
            second.end()
            third.append(table, 2, 8, 9)
            assert third.read() == "done"
        finally:
            third.end()
        assert rows_in(table) == list(range(9))

        with watch(jvm) as has_exited:
            assert lifetime.end(EXIT_TIMEOUT_S)
            assert has_exited()
        assert not list(Path("/tmp").glob(f"sluice-{lifetime.scope.id}*"))
    finally:
        for executor in (first, second):
            if executor.process.poll() is None:
                executor.end()
        lifetime.end(EXIT_TIMEOUT_S)


def test_jvm_ends_when_its_worker_is_killed(jars: str) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, EXECUTOR, jars],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert worker.stdout is not None
    assert worker.stdin is not None
    with watch(int(worker.stdout.readline())) as has_exited:
        worker.kill()
        worker.wait()
        assert has_exited()
    worker.stdout.close()
    worker.stdin.close()


@pytest.mark.long
def test_jvm_ends_after_its_last_lease(jars: str) -> None:
    session.stop()
    lease = session.lease(SparkConfig("local[2]", "", (), (jars,), 0))
    with watch(jvm_of(lease.session())) as has_exited:
        lease.release()
        assert has_exited()
    session.stop()


@pytest.mark.long
def test_every_session_is_a_new_one(props: dict[str, str]) -> None:
    lease = session.lease(parse_config(props).spark)
    try:
        one, other = lease.session(), lease.session()
        one.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        one.range(1).createOrReplaceTempView("only_here")
        assert other.conf.get("spark.sql.session.timeZone") == "UTC"
        assert [t.name for t in other.catalog.listTables()] == []
    finally:
        lease.release()


def kill_jvm(spark: Any) -> None:
    os.kill(jvm_of(spark), signal.SIGKILL)


def exhaust_memory(spark: Any) -> None:
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    with pytest.raises(Exception, match=r".+"):
        gateway.new_array(spark._jvm.long, 2_000_000_000)


@pytest.mark.long
@pytest.mark.parametrize("end_jvm", [kill_jvm, pytest.param(exhaust_memory, marks=pytest.mark.long)])
def test_running_task_continues_in_another_jvm(
    props: dict[str, str], run: Any, topic: Any, read: Callable[[str], list[dict[str, Any]]], end_jvm: Callable[[Any], None]
) -> None:
    source = topic("t", schemas=False)
    for i in range(20):
        source.add(b'{"id":%d}' % i, b'{"id":%d}' % i)
    running = run(props, [source], raw=True, group={})
    running.deliver(upto=10)
    running.commit()
    lease = session.lease(parse_config(props).spark)
    spark = lease.session()
    before = jvm_of(spark)
    with watch(before) as has_exited:
        end_jvm(spark)
        assert has_exited()
    assert not lease.is_alive()
    running.deliver()
    with pytest.raises(RetriableError, match="Spark's JVM has ended"):
        running.commit()
    running.commit()
    assert sorted(row["id"] for row in read("t")) == list(range(20))
    assert jvm_of(lease.session()) != before
    assert lease.is_alive()
    lease.release()
    running.close()


@pytest.mark.long
def test_jvm_that_ends_during_a_commit_makes_it_retriable(props: dict[str, str], run: Any, topic: Any) -> None:
    source = topic("t", schemas=False)
    source.add(b'{"id":1}', b'{"id":1}')
    running = run(props, [source], raw=True, group={})
    running.deliver()
    running.commit()
    source.add(b'{"id":2}', b'{"id":2}')
    running.deliver()
    lease = session.lease(parse_config(props).spark)
    spark = lease.session()
    with watch(jvm_of(spark)) as has_exited:
        kill_jvm(spark)
        assert has_exited()
    with pytest.raises(RetriableError, match="Spark's JVM has ended"):
        running.commit()
    running.commit()
    assert running.task.progress()["tables"]["t"]["commits"] == 2
    lease.release()
    running.close()
