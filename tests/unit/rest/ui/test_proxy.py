"""The proxy of ``sluice ui``: what it passes on, and to whom it answers."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from rest.rest_server import RestServer
from rest.server.listeners import ListenSettings
from rest.ui_server import UiServer
from sluice.embedded.ports import free_ports
from tests.support.waiting import WAIT_S
from tests.unit.rest.fake_herder import FakeHerder

FROM_PAGE = {"X-Requested-With": "sluice-ui"}


@pytest.fixture(scope="module")
def worker() -> Iterator[tuple[RestServer, FakeHerder]]:
    herder = FakeHerder()
    herder.put_connector("a b/c", {"connector.class": "x"}, replace=True)
    herder.put_connector("c", {"connector.class": "x"}, replace=True)
    server = RestServer.bind(ListenSettings(("http://127.0.0.1:0",)))
    server.start(herder)
    yield server, herder
    server.stop()


@pytest.fixture(scope="module")
def page(worker: tuple[RestServer, FakeHerder]) -> Iterator[UiServer]:
    server = UiServer(worker[0].url.rstrip("/"), "127.0.0.1", 0, read_only=False)
    yield server
    server.close()


def ask(
    page: UiServer, method: str, path: str, headers: Mapping[str, str] | None = None, body: Any = None
) -> tuple[int, Mapping[str, str], Any]:
    host = page.url.removeprefix("http://").removesuffix("/ui")
    connection = http.client.HTTPConnection(host, timeout=WAIT_S)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), dict(headers or {}))
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, json.loads(text) if text else None
    finally:
        connection.close()


def test_requests_and_answers_are_passed_on(page: UiServer, worker: tuple[RestServer, FakeHerder]) -> None:
    assert ask(page, "GET", "/connectors")[2] == ["a b/c", "c"]
    assert ask(page, "GET", "/connectors?expand=status")[2]["c"]["status"]["name"] == "c"
    status, headers, answer = ask(page, "GET", "/connectors/none")
    assert (status, answer["error_code"], headers["content-type"]) == (404, 404, "application/json")
    json_type = {"Content-Type": "application/json", **FROM_PAGE}
    status, headers, _ = ask(page, "POST", "/connectors", json_type, {"name": "n", "config": {"connector.class": "x"}})
    assert (status, headers["location"].endswith("/connectors/n")) == (201, True)
    assert ask(page, "DELETE", "/connectors/n", FROM_PAGE)[0] == 204


def test_client_that_disconnects_ends_the_request_to_the_worker(page: UiServer, worker: tuple[RestServer, FakeHerder]) -> None:
    herder = worker[1]
    connection = http.client.HTTPConnection(page.url.removeprefix("http://").removesuffix("/ui"), timeout=WAIT_S)
    body = json.dumps({"config": {"connector.class": "Hangs"}})
    connection.request("POST", "/sluice/connection-test", body, {"Content-Type": "application/json", **FROM_PAGE})
    assert herder.hangs.wait(WAIT_S)
    assert not herder.cancelled.is_set()
    connection.close()
    assert herder.cancelled.wait(WAIT_S)


@pytest.fixture
def answering() -> Iterator[str]:
    """The URL of a server whose answers have headers of every kind."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(401)
            for name, value in ANSWERED:
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="answering")
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


ANSWERED = [
    ("WWW-Authenticate", 'Basic realm="KafkaConnect"'),
    ("WWW-Authenticate", 'Bearer realm="KafkaConnect"'),
    ("Set-Cookie", "a=1; Path=/"),
    ("Set-Cookie", "b=; Max-Age=0"),
    ("X-Sluice-Kept-Secrets", "code, url"),
    ("Server", "not passed on"),
]


def test_all_headers_of_a_name_are_passed_on(answering: str) -> None:
    server = UiServer(answering, "127.0.0.1", 0, read_only=False)
    connection = http.client.HTTPConnection(server.url.removeprefix("http://").removesuffix("/ui"), timeout=WAIT_S)
    try:
        connection.request("GET", "/connectors")
        headers = connection.getresponse().headers
        for name in ("WWW-Authenticate", "Set-Cookie", "X-Sluice-Kept-Secrets"):
            assert headers.get_all(name) == [value for key, value in ANSWERED if key == name]
        assert "not passed on" not in (headers.get_all("Server") or [])
    finally:
        connection.close()
        server.close()


def test_page_tells_which_worker_it_is_for(page: UiServer, worker: tuple[RestServer, FakeHerder]) -> None:
    assert ask(page, "GET", "/ui/settings.json")[2] == {"read_only": False, "target": worker[0].url.rstrip("/")}


def test_changes_of_others_are_refused(page: UiServer, worker: tuple[RestServer, FakeHerder]) -> None:
    status, _, answer = ask(page, "POST", "/connectors/c/restart", {"Content-Type": "application/json"})
    assert (status, "Only the web page" in answer["message"]) == (403, True)
    assert worker[1].restarted == []


def test_other_host_names_are_refused(page: UiServer) -> None:
    port = page.url.removesuffix("/ui").rpartition(":")[2]
    status, _, answer = ask(page, "GET", "/connectors", {"Host": f"evil.example:{port}"})
    assert (status, "not for evil.example" in answer["message"]) == (403, True)
    assert ask(page, "GET", "/connectors", {"Host": f"localhost:{port}"})[0] == 200


def test_read_only_page_passes_no_change_on(worker: tuple[RestServer, FakeHerder]) -> None:
    server = UiServer(worker[0].url.rstrip("/"), "127.0.0.1", 0, read_only=True)
    try:
        assert ask(server, "POST", "/connectors/c/restart", FROM_PAGE)[0] == 403
        assert ask(server, "GET", "/connectors")[0] == 200
        assert worker[1].restarted == []
    finally:
        server.close()


def test_worker_that_does_not_answer_is_named() -> None:
    target = f"http://127.0.0.1:{free_ports(1)[0]}"
    server = UiServer(target, "127.0.0.1", 0, read_only=False)
    try:
        status, _, answer = ask(server, "GET", "/connectors")
        assert (status, f"No worker answers at {target}" in answer["message"]) == (503, True)
    finally:
        server.close()
