"""The requests that the dead letter resources pass on, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rest.client import ConnectClient
from rest.rest_server import RestServer
from rest.server.listeners import ListenSettings
from rest.server.thread_pools import RequestKind, request_kind
from tests.unit.rest.fake_herder import FakeHerder
from worker.model import TargetState

NOTHING = {"cause": None, "partition": None, "offsets": None, "with_replayed": False}
PATH = "/sluice/connectors/orders/dead-letters"


@pytest.fixture
def herder() -> FakeHerder:
    found = FakeHerder()
    found.configs["orders"], found.targets["orders"] = {}, TargetState.STARTED
    return found


@pytest.fixture
def client(herder: FakeHerder) -> Iterator[ConnectClient]:
    server = RestServer.bind(ListenSettings(("http://127.0.0.1:0",)))
    server.start(herder)
    with ConnectClient(server.url) as found:
        yield found
    server.stop()


def test_queries_become_requests(herder: FakeHerder, client: ConnectClient) -> None:
    client.dead_letters("orders")
    client.dead_letters("orders", limit=0, cause="ab", partition=0, offsets="1-2", replayed=True, trace=True)
    client.dead_letter_causes("orders", partition=1)
    client.replay_dead_letters("orders", {})
    body = {"dry_run": False, "selection": {"cause": "ab"}, "limit": 5, "to": "t", "check": False, "next": {"0": 7}}
    body["transforms"] = {"transforms": "a"}
    client.replay_dead_letters("orders", {**body, "config": {"a": "b", "c": None}})
    listed = {"cause": "ab", "partition": 0, "offsets": "1-2", "with_replayed": True}
    assert herder.requested == [
        ("orders", {"action": "list", "limit": 20, "selection": NOTHING, "with_trace": False}, None),
        ("orders", {"action": "list", "limit": 0, "selection": listed, "with_trace": True}, None),
        ("orders", {"action": "causes", "selection": {**NOTHING, "partition": 1}}, None),
        ("orders", {"action": "replay"}, None),
        ("orders", {**body, "action": "replay"}, {"a": "b", "c": None}),
    ]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("GET", "?limit=1001", None, 400, "limit is '1001'; expected a number from 0 to 1000"),
        ("GET", f"?partition={'9' * 5000}", None, 400, "expected a number from 0 to 2147483647"),
        ("GET", "?partition=x", None, 400, "partition is 'x'; expected a number from 0"),
        ("POST", "/replay", [], 500, "The body is not an object"),
        ("POST", "/replay", {"dryrun": True}, 400, 'Unknown member "dryrun" of the body; expected selection, limit, dry_run'),
        ("POST", "/replay", {"action": "list"}, 400, 'Unknown member "action"'),
        ("POST", "/replay", {"config": {"a": 1}}, 400, '"config" is not an object of strings'),
    ],
)
def test_malformed_requests_are_refused(
    client: ConnectClient, method: str, path: str, body: Any, status: int, message: str
) -> None:
    found, answer = client.send(method, PATH + path, body)
    assert (found, message in answer["message"]) == (status, True), answer


def test_such_requests_have_the_threads_of_those_that_run_plugins() -> None:
    for path in ("", "/causes", "/replay"):
        assert request_kind("GET", f"/sluice/connectors/{{connector}}/dead-letters{path}") is RequestKind.CONFIGURE
