"""Figures of connectors, on one worker and on all workers of a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rest.client import ConnectClient
from rest.rest_server import RestServer
from rest.server.listeners import ListenSettings
from sluice.embedded.ports import free_ports
from tests.unit.rest.fake_herder import FakeHerder

CONFIG = {"connector.class": "x"}


@pytest.fixture
def other() -> Iterator[tuple[RestServer, FakeHerder]]:
    """Another worker of the cluster, which knows the same connector."""
    herder = FakeHerder()
    server = RestServer.bind(ListenSettings(("http://127.0.0.1:0",)))
    herder.worker_id = f"127.0.0.1:{server.ports[0]}"
    server.start(herder)
    yield server, herder
    server.stop()


def _share(connector: str, herders: list[FakeHerder], workers: list[str]) -> None:
    for herder in herders:
        herder.put_connector(connector, CONFIG, replace=True)
        herder.task_workers[connector] = workers


def test_progress_of_the_cluster_has_the_tasks_of_all_workers(
    client: ConnectClient, herder: FakeHerder, other: tuple[RestServer, FakeHerder]
) -> None:
    other_id = other[1].worker_id
    _share("c", [herder, other[1]], [other_id, herder.worker_id, other_id])
    status, own = client.send("GET", "/sluice/connectors/c/progress")
    assert (status, [task["id"] for task in own["tasks"]], "missing_workers" in own) == (200, [1], False)
    status, found = client.send("GET", "/sluice/connectors/c/progress?scope=cluster")
    assert status == 200
    assert [task["id"] for task in found["tasks"]] == [0, 1, 2]
    assert found["missing_workers"] == []


def test_workers_that_do_not_answer_are_named(client: ConnectClient, herder: FakeHerder) -> None:
    gone = f"127.0.0.1:{free_ports(1)[0]}"
    _share("c", [herder], [gone, herder.worker_id])
    _, found = client.send("GET", "/sluice/connectors/c/progress?scope=cluster")
    assert ([task["id"] for task in found["tasks"]], found["missing_workers"]) == ([1], [gone])
    _, totals = client.send("GET", "/sluice/progress?scope=cluster")
    assert (totals["connectors"]["c"]["tasks"], totals["missing_workers"]) == (1, [gone])


def test_totals_are_sums_over_tasks_and_workers(
    client: ConnectClient, herder: FakeHerder, other: tuple[RestServer, FakeHerder]
) -> None:
    other_id = other[1].worker_id
    _share("both", [herder, other[1]], [herder.worker_id, other_id, herder.worker_id])
    _share("there", [herder, other[1]], [other_id])
    _, own = client.send("GET", "/sluice/progress")
    assert own == {"connectors": {"both": {"tasks": 2, "records": 20, "bytes": 200, "lag": None, "errors": 4}}}
    _, found = client.send("GET", "/sluice/progress?scope=cluster")
    assert found == {
        "connectors": {
            "both": {"tasks": 3, "records": 30, "bytes": 300, "lag": None, "errors": 6},
            "there": {"tasks": 1, "records": 10, "bytes": 100, "lag": None, "errors": 2},
        },
        "missing_workers": [],
    }


def test_totals_of_named_connectors(client: ConnectClient, herder: FakeHerder) -> None:
    for name in ("a", 'b"c, d'):
        herder.put_connector(name, CONFIG, replace=True)
    assert list(client.send("GET", '/sluice/progress?connectors=["b%5C"c,%20d","gone"]')[1]["connectors"]) == ['b"c, d']
    for wrong in ("a", "{}", "[1]"):
        status, answer = client.send("GET", f"/sluice/progress?connectors={wrong}")
        assert (status, "is not a JSON array of names" in answer["message"]) == (400, True)


def test_totals_of_many_connectors_are_one_request_of_the_herder(client: ConnectClient, herder: FakeHerder) -> None:
    for number in range(30):
        herder.put_connector(f"c{number}", CONFIG, replace=True)
    assert len(client.send("GET", "/sluice/progress")[1]["connectors"]) == 30
    assert herder.progress_requests == 1
