"""The files of the web page, how they are served, and the switch that keeps the page from changing anything."""

from __future__ import annotations

import gzip
import http.client
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from rest.rest_server import RestServer
from rest.server.listeners import ListenSettings
from rest.settings import RestSettings, rest_settings
from rest.ui.settings import UiSettings
from rest.ui.static_files import ROOT, load
from tests.support.waiting import WAIT_S
from tests.unit.rest.fake_herder import FakeHerder
from worker.config.worker_config import WorkerConfig

FROM_PAGE = {"X-Requested-With": "sluice-ui"}


def _serve(settings: RestSettings) -> tuple[RestServer, FakeHerder]:
    herder = FakeHerder()
    herder.put_connector("c", {"connector.class": "x"}, replace=True)
    server = RestServer.bind(ListenSettings(("http://127.0.0.1:0",)), settings)
    server.start(herder)
    return server, herder


@pytest.fixture(scope="module")
def page() -> Iterator[int]:
    """The port of a worker with the page."""
    server, _ = _serve(RestSettings(ui=UiSettings()))
    yield server.ports[0]
    server.stop()


@pytest.fixture(scope="module")
def read_only() -> Iterator[tuple[int, FakeHerder]]:
    server, herder = _serve(RestSettings(ui=UiSettings(read_only=True)))
    yield server.ports[0], herder
    server.stop()


def ask(port: int, method: str, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, Mapping[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    try:
        connection.request(method, path, None, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def test_page_has_a_strict_policy_and_is_checked_at_each_visit(page: int) -> None:
    status, headers, body = ask(page, "GET", "/ui")
    assert status == 200
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["content-security-policy"].startswith("default-src 'self';")
    assert headers["cache-control"] == "no-cache"
    assert b"<script>" not in body
    assert b"style=" not in body
    assert ask(page, "GET", "/ui", {"If-None-Match": headers["etag"]})[0] == 304
    assert ask(page, "HEAD", "/ui")[2] == b""
    assert ask(page, "POST", "/ui")[0] == 405


def test_a_slash_at_the_end_is_removed_relative_to_where_the_page_is(page: int) -> None:
    status, headers, _ = ask(page, "GET", "/ui/")
    assert (status, headers["location"]) == (308, "../ui")


def test_every_file_that_the_page_names_is_served_and_kept_forever(page: int) -> None:
    _, _, body = ask(page, "GET", "/ui")
    named = re.findall(r'(?:href|src)="([^"]+)"', body.decode())
    assert len(named) > 15
    for path in named:
        status, headers, content = ask(page, "GET", f"/{path}")
        assert status == 200, path
        assert "immutable" in headers["cache-control"]
        assert ask(page, "GET", f"/{path}", {"If-None-Match": headers["etag"]})[0] == 304
        status, zipped, compressed = ask(page, "GET", f"/{path}", {"Accept-Encoding": "gzip, br"})
        assert zipped["content-encoding"] == "gzip"
        assert gzip.decompress(compressed) == content


def test_every_module_that_is_imported_exists() -> None:
    for path in ROOT.rglob("*.js"):
        for target in re.findall(r'from "(\.[^"]+)"', path.read_text("utf-8")):
            assert (path.parent / target).resolve().is_file(), f"{path.name} imports {target}"


def test_page_loads_nothing_from_elsewhere() -> None:
    for path in (path for path in ROOT.rglob("*") if path.suffix in (".js", ".css", ".html")):
        found = re.findall(r"https?://[^\s\"'`)]+", path.read_text("utf-8"))
        allowed = ("http://www.w3.org/", "https?:")
        assert [url for url in found if not url.startswith(allowed) and "HOST" not in url] == [], path.name


def test_files_of_another_version_and_unknown_paths_are_not_found(page: int) -> None:
    status, _, body = ask(page, "GET", "/ui/static/0000/app.css")
    assert (status, "reload the page" in json.loads(body)["message"]) == (404, True)
    assert ask(page, "GET", f"/ui/static/{load().digest}/../../../app.py")[0] in (400, 404)
    assert ask(page, "GET", f"/ui/static/{load().digest}/nothing.js")[0] == 404
    status, _, body = ask(page, "GET", "/ui/login")
    assert (status, json.loads(body)["message"]) == (404, "HTTP 404 Not Found")


def test_page_knows_whether_it_may_change_anything(page: int, read_only: tuple[int, FakeHerder]) -> None:
    assert json.loads(ask(page, "GET", "/ui/settings.json")[2]) == {"read_only": False, "target": None}
    assert json.loads(ask(read_only[0], "GET", "/ui/settings.json")[2]) == {"read_only": True, "target": None}


@pytest.mark.parametrize(
    "headers",
    [FROM_PAGE, {"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://127.0.0.1:{port}"}],
    ids=["own header", "browser", "origin"],
)
def test_read_only_page_changes_nothing(read_only: tuple[int, FakeHerder], headers: dict[str, str]) -> None:
    port, herder = read_only
    sent = {name: value.format(port=port) for name, value in headers.items()}
    for method, path in (("PUT", "/connectors/c/pause"), ("POST", "/connectors/c/restart"), ("DELETE", "/connectors/c")):
        status, _, body = ask(port, method, path, sent)
        assert (status, "ui.read.only" in json.loads(body)["message"]) == (403, True)
    assert (list(herder.configs), herder.restarted) == (["c"], [])


def test_read_only_concerns_the_page_alone(read_only: tuple[int, FakeHerder]) -> None:
    port, herder = read_only
    assert ask(port, "GET", "/connectors/c", FROM_PAGE)[0] == 200
    json_body = {**FROM_PAGE, "Content-Type": "application/json"}
    assert ask(port, "PUT", "/connector-plugins/x/config/validate", json_body)[0] != 403
    for trial in ("preview", "connection-test", "data-collections", "connectors/c/connection-test"):
        assert ask(port, "POST", f"/sluice/{trial}", json_body)[0] != 403
    assert ask(port, "POST", "/connectors/c/restart", {"Origin": "http://elsewhere:1"})[0] == 204
    assert herder.restarted
    herder.restarted.clear()


def test_keys_of_the_worker(tmp_path: Path) -> None:
    props = {"key.converter": "a", "value.converter": "b", "offset.storage.file.filename": str(tmp_path / "o")}
    assert rest_settings(WorkerConfig.standalone(props)).ui == UiSettings()
    assert rest_settings(WorkerConfig.standalone({**props, "ui.read.only": "true"})).ui == UiSettings(read_only=True)
    off = rest_settings(WorkerConfig.standalone({**props, "ui.enabled": "false"}))
    assert off.ui is None
    server, _ = _serve(off)
    try:
        assert ask(server.ports[0], "GET", "/ui")[0] == 404
    finally:
        server.stop()
