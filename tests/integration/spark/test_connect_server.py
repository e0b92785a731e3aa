"""Spark Connect, against the server in PySpark's own JARs."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from connectors.spark import session
from connectors.spark.config import SparkConfig, parse_config
from connectors.spark.session.jvm import java_command
from connectors.spark.session.settings import plan_launch
from rest.polling import wait_until
from sluice.embedded.ports import free_ports

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROUNDS = 3
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@pytest.fixture
def server(spark_props: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The address of a server. This process must not use another Spark meanwhile."""
    session.stop()
    port = free_ports(1)[0]
    plan = plan_launch(SparkConfig("local[2]", "", (), (spark_props["spark.jars"],)))
    conf = {**plan.conf, "spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": "127.0.0.1"}
    *java, _ = java_command(plan)
    java[1:1] = [f"-D{key}={value}" for key, value in conf.items()]
    log = tmp_path / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen([*java, SERVER], stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=tmp_path)
    try:
        assert wait_until(lambda: process.poll() is not None or _accepts(port), 120.0)
        assert process.poll() is None, log.read_text()
        yield f"sc://127.0.0.1:{port}"
    finally:
        session.stop()
        process.terminate()
        process.wait()


def _accepts(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_two_tasks_on_one_server_write_only_their_own_rows_and_offsets(server: str, tmp_path: Path, run: Any, topic: Any) -> None:
    props = {
        "name": "lake",
        "connector.class": "SparkSink",
        "topics": "a,b",
        "spark.remote": server,
        "table.location": str(tmp_path / "lake"),
        "write.mode": "upsert",
        "commit.interval.ms": "600000",
    }
    topics = [topic(name, schemas=False) for name in ("a", "b")]
    runs = [run({**props, "spark.sink.task": str(task)}, [source], raw=True, group={}) for task, source in enumerate(topics)]
    at_once = threading.Barrier(len(runs))
    failures: list[BaseException] = []

    def work(running: Any, source: Any) -> None:
        try:
            for round_ in range(ROUNDS):
                for key in range(10):
                    value = b'{"id":%d,"origin":"%s","round":%d}' % (key + round_, source.name.encode(), round_)
                    source.add(b'{"id":%d}' % (key + round_), value)
                running.deliver()
                at_once.wait(120)
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
        offsets = running.task.delivery.scheduler.table(source.name).load(source.partitions())
        assert offsets.ends == {source.partitions()[0]: 10 * ROUNDS}

    lease = session.lease(parse_config(props).spark)
    for source in topics:
        rows = lease.session().read.format("delta").load(f"{props['table.location']}/{source.name}").toArrow().to_pylist()
        assert {row["id"]: (row["origin"], row["round"]) for row in rows} == {
            i: (source.name, min(i, ROUNDS - 1)) for i in range(10 + ROUNDS - 1)
        }
        assert len(rows) == 10 + ROUNDS - 1
    lease.release()
    for running in runs:
        running.close()
