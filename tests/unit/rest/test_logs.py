"""The log lines of a connector over REST: filters, positions, waiting, and lines of other workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from connect.errors import BadRequestError, NotFoundError
from rest.client import ConnectClient
from rest.rest_server import RestServer
from rest.routes import logs as logs_route
from rest.server.listeners import ListenSettings
from rest.server.thread_pools import RequestKind
from tests.support.waiting import WAIT_S
from tests.unit.rest.fake_herder import FakeHerder
from worker.model import TargetState
from worker.observability.log_lines import LogLine
from worker.observability.recent_logs import RecentLogs

Serve = Callable[[RecentLogs], tuple[FakeHerder, ConnectClient]]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    servers: list[RestServer] = []
    clients: list[ConnectClient] = []

    def start(logs: RecentLogs) -> tuple[FakeHerder, ConnectClient]:
        monkeypatch.setattr(logs_route, "recent_logs", lambda: logs)
        server, herder = RestServer.bind(ListenSettings(("http://127.0.0.1:0",))), FakeHerder()
        herder.worker_id = server.worker_id
        herder.configs["orders"], herder.targets["orders"] = {}, TargetState.STARTED
        servers.append(server)
        server.start(herder)
        clients.append(ConnectClient(server.url))
        return herder, clients[-1]

    yield start
    for client in clients:
        client.close()
    for server in servers:
        server.stop()


def line(message: str, *, task: int | None = None, level: str = "INFO", at_ms: int = 1, connector: str = "orders") -> LogLine:
    return LogLine(connector, task, at_ms, level, "worker.sink", message, None)


def messages(answer: dict[str, Any]) -> list[str]:
    return [one["message"] for one in answer["lines"]]


def test_lines_are_filtered_and_continue_at_the_position(serve: Serve) -> None:
    logs = RecentLogs()
    herder, client = serve(logs)
    logs.add([line("a", at_ms=5), line("b", task=1, level="ERROR", at_ms=6), line("c", task=0, level="WARN", at_ms=7)])
    answer = client.logs("orders")
    assert answer["worker_id"] == herder.worker_id
    assert answer["lines"][1] == {
        "seq": 2, "at_ms": 6, "level": "ERROR", "logger": "worker.sink", "worker_id": herder.worker_id, "task": 1,
        "message": "b", "trace": None,
    }  # fmt: skip
    assert (messages(answer), answer["has_gap"], answer["unavailable"]) == (["a", "b", "c"], False, [])
    assert messages(client.logs("orders", limit=1)) == ["c"]
    assert messages(client.logs("orders", level="warn")) == ["b", "c"]
    assert messages(client.logs("orders", task=0)) == ["c"]
    assert messages(client.logs("orders", since_ms=6)) == ["b", "c"]
    assert messages(client.logs("orders", after=answer["next"])) == []
    logs.add([line("d")])
    assert messages(client.logs("orders", after=answer["next"])) == ["d"]


def test_a_position_of_an_earlier_process_continues_with_all_lines_and_shows_the_gap(serve: Serve) -> None:
    logs = RecentLogs()
    herder, client = serve(logs)
    logs.add([line("a"), line("b")])
    answer = client.logs("orders", after=f"{herder.worker_id}@12345.1", limit=1)
    assert (messages(answer), answer["has_gap"]) == (["a"], True)
    answer = client.logs("orders", after=answer["next"])
    assert (messages(answer), answer["has_gap"]) == (["b"], False)


def test_unknown_connectors_and_bad_parameters_are_refused(serve: Serve) -> None:
    logs = RecentLogs()
    _, client = serve(logs)
    with pytest.raises(NotFoundError, match="Connector absent not found"):
        client.logs("absent")
    logs.add([line("gone", connector="absent")])
    assert messages(client.logs("absent")) == ["gone"]
    for query, message in (
        ([("level", "LOUD")], "level is 'LOUD'; expected one of ALL, TRACE, DEBUG"),
        ([("limit", "1001")], "limit is '1001'; expected a number from 0 to 1000"),
        ([("task", "x")], "task is 'x'; expected a number"),
        ([("wait_ms", "30001")], "wait_ms is '30001'; expected a number from 0 to 30000"),
        ([("limit", "9" * 5000)], "expected a number from 0 to 1000"),
        ([("task", "²")], "task is '²'; expected a number"),
        ([("after", f"w@{'1' * 5000}.1")], "expected next of an earlier response"),
        ([("after", "nonsense")], "after is 'nonsense'; expected next of an earlier response"),
        ([("scope", "all")], "scope is 'all'; expected cluster or worker"),
    ):
        status, answer = client.send("GET", "/sluice/connectors/orders/logs", query=query)
        assert (status, message in answer["message"]) == (400, True), answer
    with pytest.raises(BadRequestError):
        client.logs("orders", after=f"{uuid4()}@x.y")


def test_waiting_requests_take_no_thread_and_end_with_the_first_line(serve: Serve) -> None:
    logs = RecentLogs()
    _, client = serve(logs)
    position = client.logs("orders")["next"]
    waiting = 2 * RequestKind.READ.threads
    found: list[list[str]] = []

    def wait() -> None:
        with ConnectClient(client.url) as own:
            found.append(messages(own.logs("orders", after=position, wait_ms=30_000, level="WARN")))

    threads = [threading.Thread(target=wait) for _ in range(waiting)]
    for thread in threads:
        thread.start()
    done = threading.Event()
    while len(logs._watchers.get("orders", ())) < waiting:
        assert not done.wait(0.01)
    assert client.connectors() == ["orders"]  # answered although all of them wait
    logs.add([line("not wanted")])
    logs.add([line("wanted", level="ERROR")])
    for thread in threads:
        thread.join(WAIT_S)
    assert found == [["wanted"]] * waiting
    assert client.logs("orders", after=client.logs("orders")["next"], wait_ms=1)["lines"] == []


def test_a_worker_merges_the_lines_of_the_others_and_names_those_that_do_not_respond(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs_route, "_ASK_EVERY_S", 0.05)
    ours, theirs = RecentLogs(), RecentLogs()
    herder, client = serve(ours)
    other, _ = serve(theirs)
    herder.others = [other.worker_id, "127.0.0.1:1"]
    ours.add([line("second", at_ms=20)])
    theirs.add([line("first", at_ms=10), line("third", at_ms=30)])
    answer = client.logs("orders")
    assert messages(answer) == ["first", "second", "third"]
    assert [one["worker_id"] for one in answer["lines"]] == [other.worker_id, herder.worker_id, other.worker_id]
    assert answer["unavailable"] == ["127.0.0.1:1"]
    timer = threading.Timer(0.2, lambda: theirs.add([line("fourth", at_ms=40)]))
    timer.start()
    following = client.logs("orders", after=answer["next"], wait_ms=20_000)
    timer.join()
    assert messages(following) == ["fourth"]
    assert messages(client.logs("orders", after=following["next"])) == []
    assert messages(client.send("GET", "/sluice/connectors/orders/logs", query=[("scope", "worker")])[1]) == ["second"]
