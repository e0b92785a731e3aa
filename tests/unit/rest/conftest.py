from __future__ import annotations

from collections.abc import Iterator

import pytest

from rest.client import ConnectClient
from rest.rest_server import RestServer
from rest.server.listeners import ListenSettings
from tests.unit.rest.fake_herder import FakeHerder


@pytest.fixture(scope="session")
def _server() -> Iterator[tuple[RestServer, FakeHerder]]:
    herder = FakeHerder()
    server = RestServer.bind(ListenSettings(("http://127.0.0.1:0",)))
    server.start(herder)
    yield server, herder
    server.stop()


@pytest.fixture
def herder(_server: tuple[RestServer, FakeHerder]) -> FakeHerder:
    """The herder behind the session's server, as new."""
    herder = _server[1]
    vars(herder).clear()
    vars(herder).update(vars(FakeHerder()))
    return herder


@pytest.fixture
def server(_server: tuple[RestServer, FakeHerder], herder: FakeHerder) -> RestServer:
    """A server over the fake herder, for tests that don't stop it."""
    return _server[0]


@pytest.fixture
def client(server: RestServer) -> Iterator[ConnectClient]:
    with ConnectClient(server.url) as client:
        yield client


@pytest.fixture
def own_server(herder: FakeHerder) -> Iterator[RestServer]:
    """A server of the test's own."""
    server = RestServer.bind(ListenSettings(("http://127.0.0.1:0",)))
    server.start(herder)
    yield server
    server.stop()
