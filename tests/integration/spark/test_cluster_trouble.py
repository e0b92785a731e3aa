"""Clusters in trouble: each failure is reported with the master and the remedy, nothing hangs, and nothing is lost or doubled."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConnectError, RetriableError
from connectors.spark import session
from connectors.spark.config import parse_config
from rest.polling import wait_until
from sluice.embedded.ports import free_ports
from sluice.embedded.spark_cluster import EmbeddedSparkCluster
from tests.cluster.namespace import NotAllowedError, namespace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    # PySpark's collect() leaves the socket it read from to Python's reference counting.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

RECOVERY_S = 300.0
# Executors write the rows.
MERGE = {
    "write.mode": "upsert",
    "spark.conf.spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
    "spark.conf.spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(autouse=True)
def _one_spark() -> Iterator[None]:
    session.stop()
    yield
    session.stop()


@pytest.fixture
def props(spark_props: dict[str, str], tmp_path: Path) -> dict[str, str]:
    return {
        "name": "lake",
        "connector.class": "SparkSink",
        "topics": "t",
        "spark.jars": spark_props["spark.jars"],
        "spark.conf.spark.executor.memory": "512m",
        "table.location": str(tmp_path / "lake"),
        "commit.interval.ms": "600000",
        **MERGE,
    }


def add(source: Any, ids: range, round_: int) -> None:
    for id_ in ids:
        source.add(b'{"id":%d}' % id_, b'{"id":%d,"round":%d}' % (id_, round_))


def rounds(props: dict[str, str]) -> dict[int, int]:
    lease = session.lease(parse_config(props).spark)
    try:
        rows = lease.session().read.format("delta").load(f"{props['table.location']}/t").toArrow().to_pylist()
    finally:
        lease.release()
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


def test_task_reports_lost_workers_and_a_lost_master_and_continues_when_they_are_back(
    spark_cluster: EmbeddedSparkCluster, props: dict[str, str], run: Any, topic: Any
) -> None:
    props |= {**spark_cluster.connector_settings(), "spark.executors.timeout.ms": "2000"}
    url = spark_cluster.master.url
    source = topic("t", schemas=False)
    add(source, range(10), 0)
    running = run(props, [source], raw=True, group={})
    running.deliver()
    assert wait_until(commits(running), RECOVERY_S)

    for worker in spark_cluster.workers:
        worker.kill()
    add(source, range(5, 15), 1)
    running.deliver()
    with pytest.raises(RetriableError, match=rf"table t.*{url} has given it no executor for 2 s.*start workers"):
        running.commit()

    spark_cluster.kill()
    with pytest.raises(RetriableError, match=rf"table t.*no Spark master answers at {url}.*start the master and its workers"):
        running.commit()

    shutil.rmtree(spark_cluster.master.data_dir / "recovery")  # the next master does not know the application
    spark_cluster.start()
    assert wait_until(commits(running), RECOVERY_S)
    running.close()
    assert rounds(props) == {id_: 0 if id_ < 5 else 1 for id_ in range(15)}


def test_executors_that_cannot_start_are_reported_with_the_place_of_their_logs(
    tmp_path: Path, props: dict[str, str], run: Any, topic: Any
) -> None:
    old_java = tmp_path / "old-java" / "bin" / "java"
    old_java.parent.mkdir(parents=True)
    old_java.write_text("#!/bin/sh\necho UnsupportedClassVersionError >&2\nexit 1\n")
    old_java.chmod(0o755)
    cluster = EmbeddedSparkCluster(tmp_path / "spark", workers=1, dies_with_parent=True)
    cluster.workers[0].environment = {"JAVA_HOME": str(old_java.parents[1])}
    props |= {"spark.executors.timeout.ms": "2000"}
    source = topic("t", schemas=False)
    add(source, range(3), 0)
    with cluster:
        running = run(props | cluster.connector_settings(), [source], raw=True, group={})
        running.deliver()
        with pytest.raises(
            ConnectError, match=r"table t.*the cluster has ended the worker's application: its executors end as soon"
        ):
            running.commit()
        running.task.close()
        session.stop()
    assert "UnsupportedClassVersionError" in "".join(log.read_text() for log in cluster.workers[0].executor_logs())


def test_cluster_on_another_host_writes_tables_that_it_can_reach_and_names_those_that_it_cannot(
    tmp_path: Path, props: dict[str, str], run: Any, topic: Any
) -> None:
    """Needs root: the other host is a network namespace, with a directory of its own in place of one of ours."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    try:
        with namespace() as network:
            own_directory = ["sh", "-c", f'mount -t tmpfs none {hidden} && exec "$0" "$@"']

            def on_other_host(command: Any) -> list[Any]:
                return ["ip", "netns", "exec", network.name, *own_directory, *command]

            host = network.namespace_address
            with EmbeddedSparkCluster(tmp_path / "spark", host=host, wrap=on_other_host, dies_with_parent=True) as cluster:
                _use_other_host(props | cluster.connector_settings(), host, hidden, run, topic)
                logs = [log.read_text() for worker in cluster.workers for log in worker.executor_logs()]
                session.stop()
            assert any("Finished task" in log for log in logs), logs
            assert all(f"spark://CoarseGrainedScheduler@{network.host_address}:" in log for log in logs), "not our address there"
    except NotAllowedError as e:
        pytest.skip(f"needs root and network namespaces ({e})")


def _use_other_host(props: dict[str, str], host: str, hidden: Path, run: Any, topic: Any) -> None:
    source = topic("t", schemas=False)
    add(source, range(10), 0)
    running = run(props, [source], raw=True, group={})
    running.deliver()
    running.commit()
    add(source, range(5), 1)
    running.deliver()
    running.close()
    assert rounds(props) == {id_: 1 if id_ < 5 else 0 for id_ in range(10)}

    unreachable = run({**props, "table.location": str(hidden)}, [source], raw=True, group={})
    unreachable.deliver()
    with pytest.raises(ConnectError, match=rf"table t at {hidden}/t.* on host {host} .*table\.location must be reachable"):
        unreachable.commit()
    unreachable.task.close()
