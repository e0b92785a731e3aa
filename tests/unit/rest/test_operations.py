"""Offsets, topics, history and connector files over REST, over a herder without an engine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from connect.errors import NotFoundError
from rest.client import ConnectClient
from rest.rest_server import RestServer
from tests.integration.rest.replay import Answer, Target
from tests.unit.rest.fake_herder import FakeHerder
from worker.model import ConfigVersion, OffsetEntry, Origin, Restarts, Stall, State, Status, TargetState, TaskSignal

SOURCE = {"connector.class": "x"}


@pytest.fixture
def target(server: RestServer) -> Target:
    return Target("127.0.0.1", server.ports[0], lambda topic, values: None)


def patch(target: Target, body: Any = None, raw: str | None = None) -> Answer:
    headers = {"Content-Type": "application/json"}
    return target.send({"method": "PATCH", "path": "/connectors/c/offsets", "body": body, "raw": raw, "headers": headers})


def post(target: Target, path: str, body: Any) -> Answer:
    headers = {"Content-Type": "application/json"}
    return target.send({"method": "POST", "path": path, "body": body, "headers": headers})


def test_offsets_keep_the_types_of_their_json(target: Target, herder: FakeHerder) -> None:
    herder.configs["c"] = {}
    partition = {"file": "a", "n": 1, "big": 2**40, "f": 1.0, "on": True, "no": None}
    body = {"offsets": [{"partition": partition, "offset": {"at": 1}}, {"partition": None}]}
    answer = patch(target, body)
    assert (answer.status, answer.body) == (200, {"message": "done"})
    ((_, offsets),) = herder.altered
    assert offsets == [OffsetEntry(partition, {"at": 1}), OffsetEntry(None, None)]
    assert type(offsets[0].partition["f"]) is float


@pytest.mark.parametrize("raw", ["[]", "{bad", '{"offsets":[],"x":1}', '{"offsets":"a"}', '{"offsets":[null]}',
                                 '{"offsets":[{"partition":[]}]}', '{"offsets":[{"offset":1}]}', '{"offsets":[{"x":1}]}',
                                 '{"offsets":[{"offset":{"n":1e999}}]}', '{"offsets":[{"offset":{"n":NaN}}]}'])  # fmt: skip
def test_offsets_body_of_another_shape_is_500_as_in_apache(target: Target, herder: FakeHerder, raw: str) -> None:
    assert patch(target, raw=raw).status == 500
    assert herder.altered == []


@pytest.mark.parametrize("raw", ["", "null", "{}", '{"offsets":null}', '{"offsets":[]}'])
def test_offsets_body_without_offsets_is_400_for_any_connector(target: Target, raw: str) -> None:
    answer = patch(target, raw=raw)
    assert (answer.status, answer.body["message"]) == (
        400,
        "Partitions / offsets need to be provided for an alter offsets request",
    )


def test_client_calls_for_offsets_and_topics(client: ConnectClient, herder: FakeHerder) -> None:
    client.create("c", SOURCE)
    assert client.alter_offsets("c", client.offsets("c")) == "done"
    assert client.reset_offsets("c") == "done"
    assert client.topics("c") == ["t"]
    client.reset_topics("c")
    entries = [OffsetEntry({"filename": "x"}, {"position": 6}), OffsetEntry({"filename": "y"}, None)]
    assert herder.altered == [("c", entries), ("c", None), ("c", "topics")]


def test_unknown_connectors_have_no_topics_and_disabled_tracking_is_403(target: Target) -> None:
    assert target.send({"method": "GET", "path": "/connectors/nobody/topics"}).body == {"nobody": {"topics": []}}
    answer = target.send({"method": "GET", "path": "/connectors/untracked/topics"})
    assert (answer.status, answer.body) == (403, {"error_code": 403, "message": "Topic tracking is disabled."})


def test_history_shows_keys_but_no_values(client: ConnectClient, target: Target, herder: FakeHerder) -> None:
    first = {**SOURCE, "password": "secret"}
    herder.versions["c"] = [
        ConfigVersion(3, 1_700_000_000_000, Origin.REST, first),
        ConfigVersion(4, 1_700_000_001_500, Origin.DIRECTORY, {**SOURCE, "password": "other"}),
        ConfigVersion(5, 1_700_000_002_000, Origin.CLUSTER, None),
    ]
    versions = client.history("c")
    assert versions[1] == {
        "version": 4,
        "at": "2023-11-14T22:13:21.500Z",
        "origin": "directory",
        "deleted": False,
        "changes": {"added": [], "removed": [], "changed": ["password"]},
    }
    assert "secret" not in str(versions)
    assert versions[2]["deleted"]
    assert client.config_version("c", 3) == first
    assert client.config_version("c", 5) is None
    for path, status in (("history/2", 404), ("history/x", 404)):
        assert target.send({"method": "GET", "path": f"/sluice/connectors/c/{path}"}).status == status
    assert target.send({"method": "GET", "path": "/sluice/connectors/d/history"}).body["message"] == (
        "No history found for connector d"
    )


def test_rollback_recreates_a_deleted_connector(client: ConnectClient, target: Target, herder: FakeHerder) -> None:
    herder.versions["c"] = [ConfigVersion(1, 0, Origin.REST, {**SOURCE, "x": "1"})]
    path = "/sluice/connectors/c/rollback"
    answer = target.send({"method": "POST", "path": path, "query": [["version", "1"]]})
    assert (answer.status, answer.headers["location"].endswith("/connectors/c")) == (201, True)
    assert client.rollback("c", 1)["config"] == {**SOURCE, "x": "1"}
    for query in ([], [["version", "one"]]):
        assert target.send({"method": "POST", "path": path, "query": query}).status == 400


def test_signals_reach_the_tasks_of_a_connector(client: ConnectClient, target: Target, herder: FakeHerder) -> None:
    for name in ("c", "elsewhere"):
        herder.put_connector(name, SOURCE, replace=True)
    data = {"data-collections": ["public.t"], "n": 5}
    assert client.signal("c", "execute-snapshot", data, signal_id="1") == "1"
    assert herder.altered == [("c-0", TaskSignal("1", "execute-snapshot", json.dumps(data)))]
    assert len(client.signal("c", "pause-snapshot")) == 36
    assert herder.altered[1][1].data is None
    path = "/sluice/connectors/c/signals"
    bodies: list[dict[str, Any]] = [{"type": 5}, {"data": {}}, {"type": "log", "more": 1}, {"type": "unknown"}]
    for body in bodies:
        assert post(target, path, body).status == 400, body
    answer = post(target, "/sluice/connectors/elsewhere/signals", {"type": "log"})
    assert answer.status == 409
    assert "runs at the moment" in answer.body["message"]
    assert post(target, "/sluice/connectors/d/signals", {"type": "log"}).status == 404


def test_files_of_the_directory_are_listed(client: ConnectClient) -> None:
    assert client.connector_files() == [{"file": "a.json", "connector": None, "state": "invalid", "error": "no"}]


def test_status_has_restarts_only_if_enabled(target: Target, herder: FakeHerder, monkeypatch: pytest.MonkeyPatch) -> None:
    herder.put_connector("c", SOURCE, replace=False)
    plain = target.send({"method": "GET", "path": "/connectors/c/status"}).body
    assert "restarts" not in plain["connector"]
    monkeypatch.setattr(herder, "task_status", lambda task: Status(State.FAILED, "w", restarts=Restarts(2, None)))
    task = target.send({"method": "GET", "path": "/connectors/c/tasks/0/status"}).body
    assert task["restarts"] == {"count": 2, "next_ms": None}


def test_status_has_a_stall_only_if_there_is_one(target: Target, herder: FakeHerder, monkeypatch: pytest.MonkeyPatch) -> None:
    herder.put_connector("c", SOURCE, replace=False)
    assert "stalled" not in target.send({"method": "GET", "path": "/connectors/c/tasks/0/status"}).body
    stall = Stall("call", "putting", 5, "put() has not returned")
    monkeypatch.setattr(herder, "task_status", lambda task: Status(State.RUNNING, "w", stalled=stall, since_ms=1))
    task = target.send({"method": "GET", "path": "/connectors/c/tasks/0/status"}).body
    assert task == {
        "id": 0, "state": "RUNNING", "worker_id": "w",
        "stalled": {"kind": "call", "phase": "putting", "since_ms": 5, "message": "put() has not returned"},
    }  # fmt: skip


def test_diagnosis_has_the_problems_of_all_connectors_or_one_without_secrets(client: ConnectClient, herder: FakeHerder) -> None:
    herder.put_connector("c", SOURCE, replace=False)
    herder.put_connector("d", SOURCE, replace=False)
    herder.set_target_state("d", TargetState.PAUSED)
    found = client.diagnosis()
    assert [(one["name"], one["code"], one["severity"]) for one in found["problems"]] == [
        ("worker", "broker-unreachable", "error"), ("d", "paused", "note"),
    ]  # fmt: skip
    assert "hunter2" not in json.dumps(found)
    assert found["worker_id"] == herder.worker_id
    assert [one["name"] for one in client.diagnosis("c")["problems"]] == ["worker"]
    with pytest.raises(NotFoundError, match="Connector x not found"):
        client.diagnosis("x")


def test_diagnosis_asks_for_the_progress_of_all_tasks_at_once(client: ConnectClient, herder: FakeHerder) -> None:
    for name in ("c", "d", "e"):
        herder.put_connector(name, SOURCE, replace=False)
    client.diagnosis()
    assert herder.progress_requests == 1


def test_results_of_verifications_are_kept_per_connector(client: ConnectClient, target: Target, herder: FakeHerder) -> None:
    client.put_config("verified", {"connector.class": "x"})
    path = "/sluice/connectors/verified/verification"
    with pytest.raises(NotFoundError, match="run sluice verify"):
        client.verification("verified")
    result = {"equal": False, "rows": 10, "differences": 2, "unsettled": 0, "seconds": 1.5, "tables": []}
    client.store_verification("verified", result)
    stored = client.verification("verified")
    assert {name: stored[name] for name in result} == result
    assert stored["name"] == "verified"
    assert stored["stored_ms"] > 0
    assert stored["schedule"] is None
    run = {"last_ms": 5, "error": "no database", "worker_id": "a:1", "failing_since_ms": 3}
    herder.schedules["verified"] = {"interval_ms": 5000, "paused": False, **run, "next_ms": 60_005}
    assert client.verification("verified") == {**stored, "schedule": herder.schedules["verified"]}
    problems = client.diagnosis("verified")["problems"]
    assert {"tables-differ", "verification-failed"} <= {one["code"] for one in problems}
    herder.schedules["verified"] |= {"paused": True, "next_ms": None}
    problems = client.diagnosis("verified")["problems"]
    assert "verification-failed" not in {one["code"] for one in problems}, "a paused connector is not verified"
    client.put_config("new", {"connector.class": "x"})
    herder.schedules["new"] = {"interval_ms": 1000, "last_ms": None, "error": None, "next_ms": None}
    assert client.verification("new") == {"name": "new", "schedule": herder.schedules["new"]}
    assert post(target, path, {**result, "rows": True}).status == 400
    assert post(target, path, {"equal": True}).status == 400
    for name, value in (("rows", -1), ("unsettled", 2**63), ("seconds", 10**400)):
        assert post(target, path, {**result, name: value}).status == 400
    assert post(target, path, {**result, "more": 10**30}).status == 201
    assert client.verification("verified")["more"] == 10**30
    assert post(target, "/sluice/connectors/unknown/verification", result).status == 404
