"""A Spark cluster: a standalone master and two workers from PySpark's own JARs, whose driver is the task's process."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from connect.errors import ConnectError
from connectors.spark import session
from connectors.spark.config import SparkConfig, parse_config
from connectors.spark.session.jvm import java_command
from connectors.spark.session.settings import plan_launch
from rest.polling import wait_until
from sluice.embedded.ports import free_ports

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
WORKERS = ROUNDS = 2


@pytest.fixture
def master(spark_props: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The address of the master. This process must not use another Spark meanwhile."""
    session.stop()
    port, *web_ports = free_ports(2 + WORKERS)
    address = f"spark://127.0.0.1:{port}"
    # Not the options of the JVM of a worker of ours, such as its log settings.
    command, *_, classpath, _ = java_command(plan_launch(SparkConfig("local", "", (), (spark_props["spark.jars"],))), ())
    java = [command, "-Xmx256m", "-XX:+UseSerialGC", "-cp", classpath]
    # What Spark's scripts set, to launch executors.
    home = Path(pyspark.__file__).parent
    variables = {"SPARK_HOME": str(home), "JAVA_HOME": str(Path(command).parents[1]), "SPARK_SCALA_VERSION": "2.13"}
    log = tmp_path / "cluster.log"

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [*java, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=tmp_path,
            env={**os.environ, **variables},
        )
        stack.callback(process.wait)
        stack.callback(process.terminate)
        return process

    with log.open("wb") as output, contextlib.ExitStack() as stack:
        stack.callback(session.stop)
        processes = [start(MASTER, "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(web_ports[0]))]
        for number, web_port in enumerate(web_ports[1:]):
            options = ["--host", "127.0.0.1", "--webui-port", str(web_port), "--cores", "1", "--memory", "1g"]
            processes.append(start(WORKER, *options, "--work-dir", str(tmp_path / f"work-{number}"), address))

        def has_workers() -> bool:
            assert all(process.poll() is None for process in processes), log.read_text()
            return log.read_text().count("Registering worker") == WORKERS

        assert wait_until(has_workers, 120.0), log.read_text()
        yield address


def props(master: str, tmp_path: Path, **more: str) -> dict[str, str]:
    return {
        "name": "lake",
        "connector.class": "SparkSink",
        "topics": "t",
        "spark.master": master,
        "spark.conf.spark.executor.memory": "512m",
        "spark.conf.spark.sql.shuffle.partitions": "2",
        "table.location": str(tmp_path / "lake"),
        "commit.interval.ms": "600000",
        **more,
    }


def test_tables_on_a_cluster_are_those_of_an_embedded_spark(
    master: str, spark_props: dict[str, str], tmp_path: Path, run: Any, topic: Any
) -> None:
    source = topic("t", schemas=False)
    config = props(master, tmp_path, **{"write.mode": "upsert", "spark.jars": spark_props["spark.jars"]})
    # Two runs: one writes with deletion vectors, the other lets the executors MERGE.
    merged = {"spark.conf.spark.databricks.delta.properties.defaults.enableDeletionVectors": "false"}
    for name, settings in (("vectors", {}), ("merge", merged)):
        one = {**config, **settings, "name": name, "table.location": str(tmp_path / name)}
        running = run(one, [source], raw=True, group={})
        for round_ in range(ROUNDS):
            for key in range(20):
                source.add(b'{"id":%d}' % (key + round_), b'{"id":%d,"round":%d}' % (key + round_, round_))
            source.add(b'{"id":%d}' % round_, None)
            running.deliver()
            running.commit()
        lease = session.lease(parse_config(one).spark)
        read = lease.session().read.format("delta").load(f"{tmp_path}/{name}/t")
        assert {row["id"]: row["round"] for row in read.collect()} == expected()
        lease.release()
        running.close()
        source.logs[0].clear()
    logs = [file.read_text() for file in tmp_path.glob("work-*/app-*/*/stderr")]
    assert len(logs) >= WORKERS
    assert any("Finished task" in log for log in logs), logs


def expected() -> dict[int, int]:
    """The rows after all rounds, each of which deletes one key."""
    rows: dict[int, int] = {}
    for round_ in range(ROUNDS):
        rows |= {key + round_: round_ for key in range(20)}
        del rows[round_]
    return rows


def test_master_that_is_down_fails_the_task_with_its_address(
    spark_props: dict[str, str], tmp_path: Path, run: Any, topic: Any
) -> None:
    session.stop()
    down = free_ports(1)[0]
    config = props(f"spark://127.0.0.1:{down}", tmp_path, **{"spark.jars": spark_props["spark.jars"]})
    with pytest.raises(ConnectError, match=rf"No Spark master answers at 127\.0\.0\.1:{down}"):
        run(config, [topic("t", schemas=False)], raw=True, group={})
    session.stop()
