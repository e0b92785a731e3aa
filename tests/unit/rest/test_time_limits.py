"""Requests that take too long: bodies that do not come, handlers that hang."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from rest import app
from rest.middleware.request_body import RequestBodyLimit
from rest.rest_server import RestServer
from rest.routes.routing import ConnectRoute
from rest.server.listeners import ListenSettings
from rest.server.thread_pools import RequestKind
from tests.integration.rest.replay import Answer, Target
from tests.support.waiting import WAIT_S, eventually
from tests.unit.rest.fake_herder import FakeHerder
from worker.model import ConnectorInfo
from worker.observability.herder_activity import HerderActivity

Serve = Callable[[FakeHerder], Target]
CREATE = {"name": "c", "config": {"connector.class": "x"}}


@pytest.fixture
def serve() -> Iterator[Serve]:
    running = []

    def start(herder: FakeHerder) -> Target:
        server = RestServer.bind(ListenSettings(("http://127.0.0.1:0",)))
        running.append(server)
        server.start(herder)
        return Target("127.0.0.1", server.ports[0], lambda topic, values: None)

    yield start
    for server in running:
        server.stop(1)


def test_missing_body_is_408(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "RequestBodyLimit", lambda inner, limit: RequestBodyLimit(inner, limit, idle_timeout_s=0.1))
    target = serve(FakeHerder())
    with socket.create_connection((target.host, target.port), timeout=WAIT_S) as slow:
        slow.sendall(
            b"PUT /connectors/c/config HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
        )
        answer = http.client.HTTPResponse(slow)
        answer.begin()
        message = "The request body is incomplete: nothing received for 0.1 s"
        assert (answer.status, json.loads(answer.read())) == (408, {"error_code": 408, "message": message})


class _Hanging(FakeHerder):
    def __init__(self) -> None:
        super().__init__()
        self.release = threading.Event()
        self.stages = HerderActivity(lambda: 0)

    def timeout_message(self) -> str:
        return self.stages.timed_out()

    def put_connector(self, *args: object, **kwargs: object) -> tuple[ConnectorInfo, bool]:
        self.release.wait(WAIT_S)
        self.restarted.append("put")
        raise ValueError("too late")


def test_timeout_names_the_workers_activity_and_cancels_queued_calls(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Only where it hangs: others may take their time on a busy machine.
    monkeypatch.setattr(ConnectRoute, "timeout_s", property(lambda route: 0.3 if route.path == "/connectors" else WAIT_S))
    herder = _Hanging()
    target = serve(herder)
    answers: list[Answer] = []
    count = RequestKind.CONFIGURE.threads + 5

    def create() -> None:
        answers.append(target.send({"method": "POST", "path": "/connectors", "body": CREATE}))

    callers = [threading.Thread(target=create) for _ in range(count)]
    with herder.stages.doing("counting sheep"):
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(WAIT_S)
    message = "Request timed out. The worker is currently counting sheep, which began at 1970-01-01T00:00:00Z."
    assert [answer.status for answer in answers] == [500] * count
    assert {answer.body["message"] for answer in answers} == {message}
    herder.release.set()
    # A call in the same pool runs after all that were queued.
    assert target.send({"method": "GET", "path": "/connectors/none/offsets"}).status == 404
    assert len(herder.restarted) <= RequestKind.CONFIGURE.threads
    late = "A REST call failed after it had timed out: too late"
    eventually(lambda: late in caplog.text, "the late failure", lambda: caplog.text)
