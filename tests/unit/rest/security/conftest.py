"""A server over the fake herder with users, tokens, and roles."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rest.rest_server import RestServer
from rest.security.passwords import hash_token
from tests.support.waiting import WAIT_S
from tests.unit.rest.fake_herder import FakeHerder
from worker.config.worker_config import WorkerConfig

PLAIN = {
    "bootstrap.servers": "localhost:1",
    "key.converter": "String",
    "value.converter": "String",
    "offset.storage.file.filename": "offsets",
    "listeners": "http://127.0.0.1:0",
}
# ln=4: as slow as a test can afford.
PASSWORD_HASH = "$scrypt$ln=4,r=8,p=1$c2FsdHNhbHQ$Jn0WRgRIxCnKPmiAFI0pqQ"
ROLES = """
bindings:
  - {role: admin, users: [root]}
  - {role: admin, users: [shop-admin], connectors: ["shop-*"]}
  - {role: operator, groups: [operators], connectors: ["shop-*"]}
  - {role: viewer, users: ["bearer:viewer"]}
  - {role: viewer, users: [shop-viewer], connectors: ["shop-*"]}
"""
TOKENS = {"root": (), "shop-admin": (), "operator": ("operators",), "viewer": (), "shop-viewer": (), "nobody": ()}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Any
    headers: http.client.HTTPMessage


class Caller:
    """Sends requests to a server, each on a connection of its own."""

    def __init__(self, port: int, folder: Path | None = None) -> None:
        self.port = port
        self.folder = folder
        """Where the server's files are."""

    def __call__(
        self, method: str, path: str, body: Any = None, *, token: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        sent = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        payload = None
        if body is not None:
            payload = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            connection.request(method, path, payload, sent)
            answer = connection.getresponse()
            text = answer.read()
            try:
                parsed = json.loads(text) if text else None
            except ValueError:
                parsed = text.decode()
            return Answer(answer.status, parsed, answer.headers)
        finally:
            connection.close()


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}


Serve = Callable[[dict[str, str]], Caller]


@pytest.fixture(scope="session")
def _fake() -> FakeHerder:
    return FakeHerder()


@pytest.fixture
def fake(_fake: FakeHerder) -> FakeHerder:
    """The herder behind all servers, as new."""
    _fake.__dict__.clear()
    _fake.__init__()  # type: ignore[misc]
    return _fake


@pytest.fixture
def serve(fake: FakeHerder) -> Iterator[Serve]:
    """Starts a server with a worker's properties."""
    running: list[RestServer] = []

    def start(props: dict[str, str]) -> Caller:
        server = RestServer.from_config(WorkerConfig.standalone({**PLAIN, **props}))
        running.append(server)
        server.start(fake)
        return Caller(server.ports[0])

    yield start
    for server in running:
        server.stop(1)


def write_tokens(path: Path) -> str:
    path.write_text("".join(f"{name}:{hash_token(name)}:{','.join(groups)}\n" for name, groups in TOKENS.items()))
    return str(path)


@pytest.fixture(scope="session")
def _secured(_fake: FakeHerder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    folder = tmp_path_factory.mktemp("secured")
    roles = folder / "roles.yaml"
    roles.write_text(ROLES)
    settings = {
        "rest.authentication": "bearer",
        "rest.authentication.tokens.file": write_tokens(folder / "tokens"),
        "rest.authorization.roles.file": str(roles),
        "rest.audit.log.file": str(folder / "audit.jsonl"),
    }
    server = RestServer.from_config(WorkerConfig.standalone({**PLAIN, **settings}))
    server.start(_fake)
    yield Caller(server.ports[0], folder)
    server.stop(1)


@pytest.fixture
def secured(_secured: Caller, fake: FakeHerder) -> Caller:
    """A server whose tokens are the names of their owners; shared, for tests that change none of its files."""
    return _secured
