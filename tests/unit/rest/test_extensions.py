"""REST extensions of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from connect.errors import ConfigError
from rest.extensions import ClusterView
from rest.middleware.extension_loader import load_extensions
from rest.rest_server import RestServer
from rest.server.listeners import ListenSettings
from rest.settings import RestSettings
from tests.integration.rest.replay import Target
from tests.unit.rest.fake_herder import FakeHerder

HERE = __name__


class Gate:
    """Answers /gate itself, with what it can see of the cluster."""

    events: ClassVar[list[str]] = []

    def configure(self, settings: Mapping[str, str]) -> None:
        self.word = settings["gate.word"]
        self.events.append("configured")

    def wrap(self, app: ASGIApp, cluster: ClusterView) -> ASGIApp:
        async def gate(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"] == "/gate":
                status = cluster.connector_status("c").connector.state.value
                seen = (self.word, *cluster.connectors(), cluster.connector_config("c")["x"], status, cluster.kafka_cluster_id())
                await PlainTextResponse(" ".join(map(str, seen)))(scope, receive, send)
            else:
                await app(scope, receive, send)

        return gate

    def close(self) -> None:
        self.events.append("closed")


class Incomplete:
    def configure(self, settings: Mapping[str, str]) -> None: ...


class Broken(Gate):
    def configure(self, settings: Mapping[str, str]) -> None:
        raise ValueError("no disk")


def test_extension_sees_requests_first_and_can_read_the_cluster() -> None:
    Gate.events.clear()
    extensions = load_extensions([f"{HERE}:Gate"], {"gate.word": "hello"})
    herder = FakeHerder()
    herder.put_connector("c", {"connector.class": "x", "x": "y"}, replace=False)
    server = RestServer.bind(ListenSettings(("http://127.0.0.1:0",)), RestSettings(extensions=tuple(extensions)))
    server.start(herder)
    target = Target("127.0.0.1", server.ports[0], lambda topic, values: None)
    try:
        assert target.send({"method": "GET", "path": "/gate"}).body == {"_text": "hello c y RUNNING cluster"}
        assert target.send({"method": "GET", "path": "/connectors"}).body == ["c"]
    finally:
        server.stop()
        server.stop()
    assert Gate.events == ["configured", "closed"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("com.example.Security", "Java classes are not supported; use org.apache.*module:Class"),
        ("nowhere:Gate", "the class cannot be loaded: ModuleNotFoundError: No module named 'nowhere'"),
        (f"{HERE}:Nothing", "the class cannot be loaded: AttributeError"),
        (f"{HERE}:Incomplete", r"the class has no wrap\(\), close\(\)"),
        (f"{HERE}:Broken", r"its configure\(\) failed: ValueError: no disk"),
    ],
)
def test_unusable_extension_aborts_startup(name: str, text: str) -> None:
    with pytest.raises(ConfigError, match=rf"^Invalid value {name} for configuration rest.extension.classes: {text}"):
        load_extensions([name], {"gate.word": "x"})
