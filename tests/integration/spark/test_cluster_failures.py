"""Clusters in trouble: each failure is reported with the table, the place, and the remedy, nothing hangs, and nothing is lost or
doubled.

The driver and all executors have working directories of their own, so paths below ``/proc/self/cwd`` are like those of storage
that hosts do not share. With ``--all``, also a cluster that Spark takes long to give up, and one in another network.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connectors.spark import session
from rest.polling import wait_until
from sluice.demo.delta_table import read_delta_table
from sluice.embedded.ports import free_ports
from sluice.embedded.spark_cluster import EmbeddedSparkCluster
from tests.cluster.namespace import namespace
from tests.support.spark_cluster import fast_settings

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    # PySpark's collect() leaves the socket it read from to Python's reference counting.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

RECOVERY_S = 300.0
T = TopicPartition("t", 0)
OWN_STORAGE = "/proc/self/cwd/lake"
"""Another directory for each process."""
MERGE = {
    "write.mode": "upsert",
    # Executors write the rows.
    "spark.conf.spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
    "spark.conf.spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="module", autouse=True)
def _driver_with_its_own_directory(own_spark_of_module: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("driver"))
        yield


@pytest.fixture
def props(spark_props: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """All tests have the same settings of Spark, which runs from one to the next."""
    return {
        "name": "lake",
        "connector.class": "SparkSink",
        "topics": "t",
        "spark.jars": spark_props["spark.jars"],
        "spark.executors.timeout.ms": "2000",
        "table.location": str(tmp_path / "lake"),
        "commit.interval.ms": "600000",
        **MERGE,
    }


def add(source: Any, ids: range, round_: int) -> None:
    for id_ in ids:
        source.add(b'{"id":%d}' % id_, b'{"id":%d,"round":%d}' % (id_, round_))


def rounds(props: dict[str, str]) -> dict[int, int]:
    rows = read_delta_table(f"{props['table.location']}/t").to_pylist()
    found = {row["id"]: row["round"] for row in rows}
    assert len(found) == len(rows), "a row is doubled"
    return found


def commits(running: Any) -> Callable[[], bool]:
    """Commits as the worker does: again after an error that passes."""

    def commit() -> bool:
        try:
            running.commit()
        except RetriableError:
            return False
        return True

    return commit


def test_master_that_is_down_at_the_start_fails_the_task_with_its_address(props: dict[str, str], run: Any, topic: Any) -> None:
    down = free_ports(1)[0]
    with pytest.raises(
        ConnectError, match=rf"No Spark master answers at 127\.0\.0\.1:{down}.*: start it, or correct spark\.master"
    ):
        run({**props, "spark.master": f"spark://127.0.0.1:{down}"}, [topic("t", schemas=False)], raw=True, group={})
    session.stop()


def test_executor_that_cannot_reach_the_storage_is_named_with_the_table(
    spark_cluster: EmbeddedSparkCluster, props: dict[str, str], run: Any, topic: Any
) -> None:
    props |= {**fast_settings(spark_cluster), "table.location": OWN_STORAGE}
    source = topic("t", schemas=False)
    add(source, range(3), 0)
    running = run(props, [source], raw=True, group={})
    running.deliver()
    with pytest.raises(
        ConnectError, match=rf"table t at {OWN_STORAGE}/t.*executor \d on host 127\.0\.0\.1 .*table\.location must be reachable"
    ):
        wait_until(commits(running), RECOVERY_S)
    running.task.close()
    assert running.group == {}


@pytest.fixture
def replace_java(shared_cluster: EmbeddedSparkCluster, tmp_path: Path) -> Iterator[Callable[[str, int], None]]:
    """Restarts the workers of the cluster with another Java for their executors: a script, and its permissions."""

    def restart(script: str, mode: int) -> None:
        java = tmp_path / "java" / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text(script)
        java.chmod(mode)
        for worker in shared_cluster.workers:
            worker.kill()
            worker.environment = {"JAVA_HOME": str(java.parents[1])}
        shared_cluster.start()

    yield restart
    use_own_java(shared_cluster)


def use_own_java(cluster: EmbeddedSparkCluster) -> None:
    """Executors of workers that start from now on have the Java of their worker."""
    for worker in cluster.workers:
        worker.kill()
        worker.environment = {}


def test_task_reports_lost_executors_and_a_lost_master_and_continues_when_executors_are_back(
    spark_cluster: EmbeddedSparkCluster,
    replace_java: Callable[[str, int], None],
    props: dict[str, str],
    run: Any,
    topic: Any,
) -> None:
    props |= fast_settings(spark_cluster)
    url = spark_cluster.master.url
    source = topic("t", schemas=False)
    add(source, range(10), 0)
    running = run(props, [source], raw=True, group={})
    running.deliver()
    assert wait_until(commits(running), RECOVERY_S)

    replace_java("#!/bin/sh\necho UnsupportedClassVersionError >&2\nexit 1\n", 0o755)
    add(source, range(5, 15), 1)
    running.deliver()
    with pytest.raises(
        RetriableError,
        match=rf"table t.*{url} has given it no executor for 2 s.*: start workers with .*, "
        "or, if executors end as soon as they start, see the executors' logs",
    ):
        running.commit()
    logs = [log.read_text() for worker in spark_cluster.workers for log in worker.executor_logs()]
    assert any("UnsupportedClassVersionError" in log for log in logs)
    use_own_java(spark_cluster)
    spark_cluster.start()
    assert wait_until(commits(running), RECOVERY_S)

    spark_cluster.master.kill()
    add(source, range(3), 2)
    running.deliver()
    assert wait_until(commits(running), RECOVERY_S), "executors need no master"

    spark_cluster.kill()
    add(source, range(3), 3)
    running.deliver()
    with pytest.raises(RetriableError, match=rf"table t.*no Spark master answers at {url}.*start the master and its workers"):
        running.commit()
    running.task.close()
    assert running.group == {T: 23}
    assert rounds(props) == {id_: 2 if id_ < 3 else 0 if id_ < 5 else 1 for id_ in range(15)}


def test_application_that_the_cluster_ends_fails_the_task(
    shared_cluster: EmbeddedSparkCluster,
    replace_java: Callable[[str, int], None],
    props: dict[str, str],
    run: Any,
    topic: Any,
) -> None:
    """Spark ends an application after ten executors that do not even start."""
    session.stop()
    replace_java("", 0o644)
    source = topic("t", schemas=False)
    add(source, range(3), 0)
    group: dict[TopicPartition, int] = {}

    def start_and_commit() -> None:
        running = run(props | fast_settings(shared_cluster), [source], raw=True, group=group)
        running.deliver()
        wait_until(commits(running), RECOVERY_S)

    with pytest.raises(ConnectError, match=r"the cluster has ended the worker's application: .*its executors ended too often"):
        start_and_commit()
    session.stop()
    assert group == {}


@pytest.mark.long
def test_task_continues_with_a_master_that_does_not_know_the_application(
    spark_cluster: EmbeddedSparkCluster, props: dict[str, str], run: Any, topic: Any
) -> None:
    props |= fast_settings(spark_cluster)
    source = topic("t", schemas=False)
    add(source, range(10), 0)
    running = run(props, [source], raw=True, group={})
    running.deliver()
    assert wait_until(commits(running), RECOVERY_S)
    spark_cluster.kill()
    add(source, range(5, 15), 1)
    running.deliver()
    with pytest.raises(RetriableError, match="no Spark master answers"):
        running.commit()
    shutil.rmtree(spark_cluster.master.data_dir / "recovery")
    spark_cluster.start()
    assert wait_until(commits(running), RECOVERY_S)
    running.close()
    assert rounds(props) == {id_: 0 if id_ < 5 else 1 for id_ in range(15)}


@pytest.mark.long
def test_cluster_in_another_network_writes_tables_that_it_can_reach_and_names_those_that_it_cannot(
    tmp_path: Path, props: dict[str, str], run: Any, topic: Any
) -> None:
    """Needs root: the other host is a network namespace, with a directory of its own in place of one of ours."""
    session.stop()
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    with namespace() as network:
        own_directory = ["sh", "-c", f'mount -t tmpfs none {hidden} && exec "$0" "$@"']

        def on_other_host(command: Any) -> list[Any]:
            return ["ip", "netns", "exec", network.name, *own_directory, *command]

        host = network.namespace_address
        with EmbeddedSparkCluster(tmp_path / "spark", host=host, wrap=on_other_host, dies_with_parent=True) as cluster:
            _use_other_host(props | fast_settings(cluster), host, hidden, run, topic)
            logs = [log.read_text() for worker in cluster.workers for log in worker.executor_logs()]
            session.stop()
        assert any("Finished task" in log for log in logs), logs
        assert all(f"spark://CoarseGrainedScheduler@{network.host_address}:" in log for log in logs), "not our address there"


def _use_other_host(props: dict[str, str], host: str, hidden: Path, run: Any, topic: Any) -> None:
    source = topic("t", schemas=False)
    add(source, range(10), 0)
    running = run(props, [source], raw=True, group={})
    running.deliver()
    assert wait_until(commits(running), RECOVERY_S)
    add(source, range(5), 1)
    running.deliver()
    assert wait_until(commits(running), RECOVERY_S)
    running.close()
    assert rounds(props) == {id_: 1 if id_ < 5 else 0 for id_ in range(10)}

    unreachable = run({**props, "table.location": str(hidden)}, [source], raw=True, group={})
    unreachable.deliver()
    with pytest.raises(ConnectError, match=rf"table t at {hidden}/t.* on host {host} .*table\.location must be reachable"):
        wait_until(commits(unreachable), RECOVERY_S)
    unreachable.task.close()
