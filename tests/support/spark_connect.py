"""A Spark Connect server from PySpark's own JARs."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from connectors.spark.config import SparkConfig
from connectors.spark.session.jvm import java_command
from connectors.spark.session.settings import plan_launch
from rest.polling import wait_until
from sluice.embedded.ports import LOOPBACK, free_ports

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_READY_S = 180.0


@contextmanager
def connect_server(folder: Path, jars: str) -> Iterator[str]:
    """Runs a server with Delta's JARs in a new directory; yields its address, for ``spark.remote``."""
    folder.mkdir(parents=True)
    port = free_ports(1)[0]
    plan = plan_launch(SparkConfig("local[2]", "", (), (jars,)))
    conf = plan.conf | {"spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": LOOPBACK}
    *java, _ = java_command(plan)
    java[1:1] = [f"-D{key}={value}" for key, value in conf.items()]
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen([*java, SERVER], stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder)
    try:
        assert wait_until(lambda: process.poll() is not None or _accepts(port), _READY_S), log.read_text()
        assert process.poll() is None, log.read_text()
        yield f"sc://{LOOPBACK}:{port}"
    finally:
        process.terminate()
        process.wait()


def _accepts(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
