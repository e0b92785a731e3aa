from __future__ import annotations

import re
import socket
from collections.abc import Callable

import pytest

from connect.errors import AlreadyExistsError, BadRequestError, ConfigError, ConnectError, NotFoundError, UnreachableError
from rest.client import ConnectClient
from rest.rest_server import RestServer
from tests.support.waiting import WAIT_S
from tests.unit.rest.fake_herder import FakeHerder
from worker.model import ConnectorStatus, State, Status

SOURCE = {"connector.class": "x"}


def test_error_responses_raise_the_matching_class(client: ConnectClient) -> None:
    client.create("c", SOURCE)
    with pytest.raises(AlreadyExistsError, match="Connector c already exists"):
        client.create("c", SOURCE)
    with pytest.raises(NotFoundError, match="Connector none not found"):
        client.connector("none")
    with pytest.raises(BadRequestError):
        client.put_config("d", {})
    with pytest.raises(ConnectError, match="no connector type"):
        client.validate({}, "x")


def test_no_worker_at_the_address_is_unreachable() -> None:
    with socket.socket() as taken:  # bound, so that nobody else comes to listen there
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(UnreachableError, match=f"No worker responds at http://127.0.0.1:{port}"):
            ConnectClient(f"http://127.0.0.1:{port}").connectors()
        with pytest.raises(UnreachableError, match=r"within 0\.1 s"):
            ConnectClient(f"127.0.0.1:{port}").wait_until_up(0.1)


def test_invalid_address_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="expected http://host:port"):
        ConnectClient("ftp://x")


def test_configuration_calls(client: ConnectClient) -> None:
    client.create("a b", SOURCE, initial_state="STOPPED")
    assert client.connectors() == ["a b"]
    assert client.status("a b")["connector"]["state"] == "STOPPED"
    client.put_config("a b", {**SOURCE, "k": 1})
    assert client.patch_config("a b", {"k": None, "l": "2"})["config"] == {**SOURCE, "name": "a b", "l": "2"}
    assert client.config("a b")["l"] == "2"
    assert set(client.connectors_expanded()["a b"]) == {"status", "info"}
    client.delete("a b")
    assert client.connectors() == []


def test_wait_for_returns_once_the_state_is_reached(client: ConnectClient) -> None:
    client.create("c", SOURCE)
    assert client.wait_for("c", timeout_s=WAIT_S, tasks=1)["name"] == "c"
    client.pause("c")
    client.wait_for("c", "PAUSED", timeout_s=WAIT_S)
    client.stop("c")
    client.wait_for("c", "STOPPED", timeout_s=WAIT_S)
    with pytest.raises(ConnectError, match="Connector c is not RUNNING after 0 s"):
        client.wait_for("c", timeout_s=0)


def test_wait_for_raises_the_trace_of_a_failure(client: ConnectClient, herder: FakeHerder) -> None:
    client.create("c", SOURCE)
    running, failed = Status(State.RUNNING, "w"), Status(State.FAILED, "w", trace="it broke")
    herder.connector_status = lambda name: ConnectorStatus(name, running, [(0, failed)], "source")  # type: ignore[method-assign]
    with pytest.raises(ConnectError, match="Task 0 of c FAILED: it broke"):
        client.wait_for("c")
    assert client.wait_for("c", "FAILED")["tasks"][0]["trace"] == "it broke"


def test_worker_that_stops_between_requests_is_unreachable(own_server: RestServer) -> None:
    client = ConnectClient(own_server.url)
    assert client.connectors() == []
    own_server.stop()
    with pytest.raises(UnreachableError):
        client.connectors()


@pytest.mark.parametrize(
    ("call", "answer", "problem"),
    [
        (lambda client: client.connectors(), 42, "GET /connectors at http://w:1 did not answer with a JSON array of strings"),
        (lambda client: client.connectors(), [1], "did not answer with a JSON array of strings"),
        (lambda client: client.plugins(), ["x"], "did not answer with a JSON array of objects"),
        (lambda client: client.history("c"), "<html>", "did not answer with a JSON array of objects"),
        (lambda client: client.status("c"), {"connector": {}}, "answered without the member tasks"),
        (lambda client: client.offsets("c"), {}, "answered without the member offsets"),
        (lambda client: client.config_version("c", 1), [], "did not answer with a JSON object"),
        (lambda client: client.config_version("c", 1), {"a": 1}, "did not answer with a configuration"),
        (lambda client: client.logs("c"), [], "did not answer with a JSON object"),
        (lambda client: client.diagnosis(), {"a": 1}, "answered without the member problems"),
        (lambda client: client.session(), {"a": 1}, "answered without the member subject"),
        (lambda client: client.dead_letters("c"), {"a": 1}, "answered without the member left"),
        (lambda client: client.config("c"), {"a": {"b": 1}}, "a value is not a string"),
        (lambda client: client.loggers(), {"a": {"b": 1}}, "did not answer with levels of loggers"),
        (lambda client: client.set_logger("root", "INFO"), "<html>", "did not answer with a JSON array of strings"),
    ],
)
def test_answer_of_another_program_is_an_error_that_says_so(
    monkeypatch: pytest.MonkeyPatch, call: Callable[[ConnectClient], object], answer: object, problem: str
) -> None:
    with ConnectClient("http://w:1") as client:
        monkeypatch.setattr(client, "send", lambda *arguments, **options: (200, answer))
        with pytest.raises(ConnectError, match=re.escape(problem) + ".*is it a Connect worker"):
            call(client)
