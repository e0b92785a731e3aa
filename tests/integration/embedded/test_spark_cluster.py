"""The embedded Spark cluster: its life cycle. What runs on it is tested in tests/integration/spark."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sluice.embedded.spark_cluster import EmbeddedSparkCluster
from tests.support.waiting import WAIT_S, eventually

pytestmark = [pytest.mark.long, pytest.mark.slow]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedSparkCluster]:
    own = EmbeddedSparkCluster(tmp_path / "spark", workers=1, dies_with_parent=True)
    yield own
    own.remove()


def alive_workers(cluster: EmbeddedSparkCluster) -> int:
    return sum(worker["state"] == "ALIVE" for worker in cluster.master.describe().get("workers", []))


def test_cluster_is_complete_after_kills_and_leaves_nothing_after_a_stop(cluster: EmbeddedSparkCluster) -> None:
    cluster.start(WAIT_S)
    url = cluster.master.url
    settings = cluster.connector_settings()
    assert settings["spark.master"] == url
    assert os.stat(cluster.data_dir / "secret").st_mode & 0o777 == 0o600
    assert os.stat(cluster.data_dir / "spark.properties").st_mode & 0o777 == 0o600
    cluster.workers[0].kill()
    cluster.master.kill()
    cluster.start(WAIT_S)
    assert cluster.master.url == url
    assert cluster.connector_settings() == settings
    eventually(lambda: alive_workers(cluster) == 1, "the worker")
    processes = [psutil.Process(server.pid) for server in (cluster.master, *cluster.workers)]
    assert EmbeddedSparkCluster(cluster.data_dir, workers=1).stop(), "another handle controls the same processes"
    assert not cluster.running
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


def test_cluster_ends_with_its_killed_parent(cluster: EmbeddedSparkCluster) -> None:
    code = (
        "import os, signal, sys; from sluice.embedded.spark_cluster import EmbeddedSparkCluster;"
        f"EmbeddedSparkCluster({str(cluster.data_dir)!r}, workers=1, dies_with_parent=True).start({WAIT_S});"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=2 * WAIT_S, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    eventually(lambda: not cluster.running, "the end of the cluster")
