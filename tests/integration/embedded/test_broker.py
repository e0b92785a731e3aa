"""The embedded broker: its life cycle, its data, and rejected settings."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from connect.errors import ConfigError, ConnectError, IllegalStateError
from sluice.embedded.broker import EmbeddedBroker, has_live_broker
from sluice.embedded.ports import LOOPBACK
from tests.integration.embedded.lifetimes import assert_exits_with_killed_parent
from tests.support.waiting import WAIT_S
from worker.kafka.admin import KafkaAdmin
from worker.kafka.console import consume, produce


@pytest.fixture
def own(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    """A broker for one test, not started."""
    server = EmbeddedBroker(tmp_path / "broker", dies_with_parent=True)
    yield server
    server.remove()


def client(server: EmbeddedBroker) -> dict[str, str]:
    return {"bootstrap.servers": server.bootstrap}


def values(server: EmbeddedBroker, topic: str, count: int) -> list[bytes | None]:
    records = consume(client(server), topic, from_beginning=True, max_messages=count, timeout_ms=120_000)
    return [record.value for record in records]


@pytest.mark.long
def test_records_survive_a_stop_and_a_kill_on_the_same_port(own: EmbeddedBroker) -> None:
    own.start()
    bootstrap = own.bootstrap
    assert produce(client(own), "retained", [(None, b"1"), (None, b"2")]) == 2
    assert own.stop()
    assert not own.running
    own.start()
    assert own.bootstrap == bootstrap
    assert produce(client(own), "retained", [(None, b"3")]) == 1
    assert own.kill()
    assert not own.running
    own.start()
    assert own.bootstrap == bootstrap
    assert values(own, "retained", 3) == [b"1", b"2", b"3"]


@pytest.mark.long
def test_second_start_has_no_effect(own: EmbeddedBroker) -> None:
    own.start()
    pid = own.pid
    own.start()
    assert own.pid == pid
    other = EmbeddedBroker(own.data_dir)
    assert (other.pid, other.bootstrap, other.answers()) == (pid, own.bootstrap, True)
    with pytest.raises(IllegalStateError, match=f"already runs on port {own.port}"):
        EmbeddedBroker(own.data_dir, port=own.port + 1).start()
    assert other.stop()
    assert not own.stop()


@pytest.mark.long
def test_short_lived_broker_serves_without_the_second_compiler(tmp_path: Path) -> None:
    server = EmbeddedBroker(tmp_path / "broker", dies_with_parent=True, short_lived=True)
    try:
        server.start()
        assert "-XX:TieredStopAtLevel=1" in psutil.Process(server.pid).cmdline()
        assert produce(client(server), "brief", [(None, b"1")]) == 1
        assert values(server, "brief", 1) == [b"1"]
    finally:
        server.remove()


def test_server_listens_only_on_loopback(broker: EmbeddedBroker) -> None:
    assert broker.pid is not None
    listening = [one.laddr.ip for one in psutil.Process(broker.pid).net_connections("tcp") if one.status == "LISTEN"]
    assert {ip.removeprefix("::ffff:") for ip in listening} == {LOOPBACK}


def test_port_in_use_is_reported_and_nothing_starts(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        server = EmbeddedBroker(tmp_path / "broker", port=port)
        with pytest.raises(ConfigError, match=f"{port}: the port is in use; choose another port with --port"):
            server.start()
        assert not server.running


@pytest.mark.long
def test_failed_broker_start_reports_its_log_and_leaves_nothing(own: EmbeddedBroker) -> None:
    broken = EmbeddedBroker(own.data_dir, settings={"log.retention.ms": "often"})
    with pytest.raises(ConnectError, match=r"(?s)ended while starting.*log\.retention\.ms"):
        broken.start()
    assert not broken.running
    assert not (own.data_dir / "broker.pid").exists()
    own.start()


def test_port_of_another_server_is_not_a_live_broker() -> None:
    with socket.create_server((LOOPBACK, 0)) as silent:
        port = silent.getsockname()[1]
        silent.close()
        assert not has_live_broker(port)


def test_groups_and_transactions_work_on_one_node(broker: EmbeddedBroker, unique_name: Callable[[str], str]) -> None:
    from confluent_kafka import Consumer, Producer

    topic = unique_name("tx")
    producer = Producer({**client(broker), "transactional.id": topic})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"aborted")
    producer.abort_transaction(WAIT_S)
    producer.begin_transaction()
    producer.produce(topic, b"committed")
    producer.commit_transaction(WAIT_S)
    settings = {"group.id": topic, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    consumer = Consumer({**client(broker), **settings, "enable.auto.commit": "false"})
    consumer.subscribe([topic])
    message = consumer.poll(WAIT_S)
    assert message is not None
    assert message.value() == b"committed"
    consumer.commit(asynchronous=False)
    consumer.close()
    (partition,) = KafkaAdmin(client(broker)).describe_group(topic).partitions
    assert partition.lag is not None


@pytest.mark.long
def test_server_ends_when_its_parent_is_killed(own: EmbeddedBroker) -> None:
    assert_exits_with_killed_parent(own)


@pytest.mark.long
def test_start_waits_for_a_broker_whose_starter_was_killed(own: EmbeddedBroker) -> None:
    own.start()
    own.stop()
    code = (
        "import os, signal; from sluice.embedded import process;"
        "process.wait_ready = lambda *_: os.kill(os.getpid(), signal.SIGKILL);"
        "from sluice.embedded.broker import EmbeddedBroker;"
        f"EmbeddedBroker({str(own.data_dir)!r}).start()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid = own.pid
    assert pid is not None
    own.start()
    assert (own.pid, own.answers()) == (pid, True)
