"""The driver's address in a Spark cluster."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect.errors import ConnectError
from connectors.spark.config import SparkConfig
from connectors.spark.session.cluster_driver import driver_conf
from connectors.spark.session.settings import plan_launch
from sluice.embedded.ports import free_ports

HERE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a master on all addresses of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_driver_has_the_address_that_reaches_the_master(port: int) -> None:
    assert driver_conf(f"spark://127.0.0.1:{port}") == HERE


def test_second_master_is_asked_if_the_first_is_down(port: int) -> None:
    assert driver_conf(f"spark://127.0.0.1:{free_ports(1)[0]},127.0.0.1:{port}") == HERE


def test_master_that_is_down_is_named() -> None:
    down = free_ports(1)[0]
    with pytest.raises(ConnectError, match=rf"No Spark master answers at 127\.0\.0\.1:{down} \(.+\): start it, or correct spark"):
        driver_conf(f"spark://127.0.0.1:{down}")


@pytest.mark.parametrize("master", ["yarn", "k8s://https://h:6443", "local[2]"])
def test_other_masters_leave_the_address_to_spark(master: str) -> None:
    assert driver_conf(master) == {}


def test_own_address_is_kept(tmp_path: Path) -> None:
    jar = tmp_path / "delta.jar"
    jar.touch()
    own = (("spark.driver.host", "worker.example"), ("spark.driver.bindAddress", "0.0.0.0"))
    conf = plan_launch(SparkConfig(f"spark://127.0.0.1:{free_ports(1)[0]}", "", own, (str(jar),))).conf
    assert (conf["spark.driver.host"], conf["spark.driver.bindAddress"]) == ("worker.example", "0.0.0.0")
