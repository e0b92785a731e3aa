from __future__ import annotations

import socket
import threading
import time

import pytest

from connect.errors import ConfigError, IllegalStateError, UnreachableError
from rest.client import ConnectClient
from rest.rest_server import RestServer
from rest.server.listeners import ListenSettings, local_address
from sluice.embedded.ports import free_ports
from tests.support.waiting import WAIT_S
from tests.unit.rest.fake_herder import FakeHerder


def test_port_in_use_is_reported_with_the_key_to_change() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            UnreachableError, match=rf"Cannot listen on http://127\.0\.0\.1:{port}: port {port} is in use.*listeners"
        ):
            RestServer.bind(ListenSettings((f"http://127.0.0.1:{port}",)))


@pytest.mark.parametrize("listener", ["nonsense", "ftp://:1", "http://host", "https://:8443"])
def test_invalid_listener_is_a_config_error(listener: str) -> None:
    with pytest.raises(ConfigError, match="listeners"):
        RestServer.bind(ListenSettings((listener,)))


def test_failed_bind_releases_other_ports() -> None:
    (port,) = free_ports(1)
    with pytest.raises(UnreachableError, match=r"192\.0\.2\.77"):
        RestServer.bind(ListenSettings((f"http://127.0.0.1:{port}", "http://192.0.2.77:0")))
    RestServer.bind(ListenSettings((f"http://127.0.0.1:{port}",))).stop()


def test_every_listener_serves_and_the_first_is_advertised(herder: FakeHerder) -> None:
    server = RestServer.bind(ListenSettings(("http://127.0.0.1:0", "http://:0")))
    server.start(herder)
    try:
        assert server.worker_id == f"127.0.0.1:{server.ports[0]}"
        for host, port in (("127.0.0.1", server.ports[0]), ("localhost", server.ports[1]), (local_address(), server.ports[1])):
            with ConnectClient(f"{host}:{port}") as client:
                assert client.connectors() == []
    finally:
        server.stop()


def test_advertised_address_overrides_the_listener() -> None:
    server = RestServer.bind(ListenSettings(("http://:0",), advertised_host="worker-1", advertised_port=80))
    assert (server.worker_id, server.url) == ("worker-1:80", "http://worker-1:80/")
    server.stop()


def test_empty_host_advertises_a_reachable_address() -> None:
    server = RestServer.bind(ListenSettings(("http://:0",)))
    assert server.worker_id == f"{local_address()}:{server.ports[0]}"
    server.stop()


def test_stop_waits_for_a_running_request(herder: FakeHerder, monkeypatch: pytest.MonkeyPatch) -> None:
    entered = threading.Event()

    def slow() -> list[str]:
        entered.set()
        time.sleep(0.3)
        return ["late"]

    monkeypatch.setattr(herder, "connectors", slow)
    server = RestServer.bind(ListenSettings(("http://127.0.0.1:0",)))
    server.start(herder)
    answers: list[list[str]] = []
    caller = threading.Thread(target=lambda: answers.append(ConnectClient(server.url).connectors()))
    caller.start()
    assert entered.wait(WAIT_S)
    server.stop(WAIT_S)
    caller.join()
    assert answers == [["late"]]
    with pytest.raises(UnreachableError):
        ConnectClient(server.url).connectors()


def test_second_start_is_rejected_and_second_stop_has_no_effect(own_server: RestServer, herder: FakeHerder) -> None:
    with pytest.raises(IllegalStateError):
        own_server.start(herder)
    own_server.stop()
    own_server.stop()
