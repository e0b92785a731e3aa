"""Metrics and probes over HTTP."""

from __future__ import annotations

import httpx
import pytest

from rest.rest_server import RestServer
from rest.server.listeners import ListenSettings
from tests.unit.rest.fake_herder import FakeHerder


@pytest.mark.parametrize("accept", ["text/plain", "*/*", "application/json", None])
def test_metrics_are_text_whatever_the_client_accepts(server: RestServer, accept: str | None) -> None:
    response = httpx.get(f"{server.url}metrics", headers={} if accept is None else {"Accept": accept})
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'sluice_test_total{connector="a\\"b\\\\c"} 2\n' in response.text


def test_probe_is_503_while_the_worker_is_not_ready(server: RestServer, herder: FakeHerder) -> None:
    assert httpx.get(f"{server.url}health/ready").json()["status"] == "ready"
    herder.broker_answers = False
    response = httpx.get(f"{server.url}health/ready")
    assert response.status_code == 503
    assert response.json() == {
        "status": "not ready",
        "checks": {"broker": {"ok": False, "message": "does not answer"}},
    }
    assert httpx.get(f"{server.url}health/live").status_code == 200


def test_admin_listeners_serve_metrics_and_probes_too(herder: FakeHerder) -> None:
    server = RestServer.bind(ListenSettings(("http://127.0.0.1:0",), admin_listeners=("http://127.0.0.1:0",)))
    server.start(herder)
    try:
        for port in (*server.ports, *server.admin_ports):
            for path in ("metrics", "health/live", "health/ready"):
                assert httpx.get(f"http://127.0.0.1:{port}/{path}").status_code == 200
        assert httpx.get(f"http://127.0.0.1:{server.admin_ports[0]}/connectors").status_code == 404
    finally:
        server.stop()
