"""What a worker passes on from other workers, and what it asks them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from starlette.requests import Request

from connect.errors import NotLeaderError
from rest.forwarding.forwarder import Forwarder
from rest.forwarding.peers import Peers
from rest.forwarding.worker_client import WorkerClient, WorkerResponse
from rest.rest_server import RestServer
from rest.server.listeners import ListenSettings
from rest.server.thread_pools import RequestKind, ThreadPools
from tests.integration.rest.replay import Target
from tests.support.waiting import WAIT_S
from tests.unit.rest.fake_herder import FakeHerder


class Follower(FakeHerder):
    """Cannot change anything itself."""

    leader_url = ""

    def put_connector(self, name: str, config: Mapping[str, str | None], **more: Any) -> Any:
        raise NotLeaderError("not the leader", self.leader_url)


@pytest.fixture
def follower(server: RestServer, herder: FakeHerder) -> Iterator[Target]:
    """A follower of the session's server, with the same configurations."""
    own = Follower()
    own.leader_url, own.configs, own.targets = server.url.rstrip("/"), herder.configs, herder.targets
    found = RestServer.bind(ListenSettings(("http://127.0.0.1:0",)))
    found.start(own)
    yield Target("127.0.0.1", found.ports[0], lambda topic, values: None)
    found.stop()


def test_keys_with_kept_secrets_are_named_by_a_follower_too(follower: Target, herder: FakeHerder) -> None:
    def put(password: str) -> Any:
        body = {"connector.class": "x", "db.password": password}
        return follower.send({"method": "PUT", "path": "/connectors/a/config", "body": body})

    created = put("s3cret")
    assert (created.status, created.headers["location"].endswith("/connectors/a")) == (201, True)
    kept = put("[hidden]")
    assert (kept.status, kept.headers["x-sluice-kept-secrets"]) == (200, "db.password")
    assert herder.configs["a"]["db.password"] == "s3cret"


class CountingClient(WorkerClient):
    """Counts the requests instead of sending them."""

    count = 0

    def send(self, *args: Any, **more: Any) -> WorkerResponse:
        self.count += 1
        return WorkerResponse(200, [], b"{}")


def test_request_to_another_worker_that_got_no_thread_in_time_is_never_sent() -> None:
    pools, client, release = ThreadPools(), CountingClient(), threading.Event()
    herder: Any = FakeHerder()
    busy = [pools.submit(RequestKind.FORWARD, lambda: release.wait(WAIT_S)) for _ in range(RequestKind.FORWARD.threads)]
    peers = Peers(client, "http", pools, Forwarder(client, pools, herder))
    request = Request({"type": "http", "method": "GET", "headers": [], "path": "/"})
    try:
        assert peers.get(request, ["w:1"], "/x", 0.01).errors == {"w:1": "no answer within 0.01 s"}
    finally:
        release.set()
    assert all(one.result(WAIT_S) for one in busy)
    assert peers.get(request, ["w:1"], "/x").found == {"w:1": {}}
    assert pools.close(time.monotonic() + WAIT_S) == []
    assert client.count == 1
