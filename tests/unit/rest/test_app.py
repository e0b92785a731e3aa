"""REST responses in Apache's forms, statuses, and corner cases, over a fake herder."""

from __future__ import annotations

import http.client
import json
import threading
from typing import Any

import pytest

from connect.errors import ConnectError, IllegalStateError
from rest.client import ConnectClient
from rest.rest_server import RestServer
from rest.routes.routing import ConnectRoute
from rest.server.listeners import ListenSettings
from tests.integration.rest.replay import Answer, Target
from tests.support.waiting import WAIT_S
from tests.unit.rest.fake_herder import FakeHerder
from worker.model import TargetState

SOURCE = {"connector.class": "x"}


@pytest.fixture
def target(server: RestServer) -> Target:
    return Target("127.0.0.1", server.ports[0], lambda topic, values: None)


def send(target: Target, method: str, path: str, **more: Any) -> Answer:
    return target.send({"method": method, "path": path, **more})


def raw_get(target: Target, path: str) -> Any:
    """The body of a path that is sent as it is."""
    connection = http.client.HTTPConnection(target.host, target.port, timeout=WAIT_S)
    try:
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def error(status: int, text: str) -> dict[str, Any]:
    return {"error_code": status, "message": text}


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", "/nonsense", 404, "HTTP 404 Not Found"),
        ("OPTIONS", "/nonsense", 404, "HTTP 404 Not Found"),
        ("GET", "/connectors/a/b/c/d", 404, "HTTP 404 Not Found"),
        ("DELETE", "/connectors/a/config", 405, "HTTP 405 Method Not Allowed"),
        ("TRACE", "/connectors", 405, "HTTP 405 Method Not Allowed"),
        ("PUT", "/", 405, "HTTP 405 Method Not Allowed"),
    ],
)
def test_unknown_route_returns_json_without_content_type(target: Target, method: str, path: str, status: int, text: str) -> None:
    answer = send(target, method, path)
    assert (answer.status, answer.body) == (status, error(status, text))
    assert "content-type" not in answer.headers


def test_media_types_are_checked_after_path_and_method(target: Target) -> None:
    text = {"headers": {"Content-Type": "text/plain"}, "raw": "a=b"}
    assert send(target, "POST", "/nonsense", **text).status == 404
    assert send(target, "POST", "/health", **text).status == 405
    assert send(target, "POST", "/connectors", **text).status == 415
    assert send(target, "PUT", "/connectors/a/pause", **text).status == 415
    assert send(target, "GET", "/", headers={"Accept": "text/plain"}).status == 406
    assert send(target, "GET", "/", headers={"Accept": "text/html, */*;q=0.8"}).status == 200


def test_body_without_content_type_is_rejected_with_content_type(target: Target) -> None:
    for content_type in ("", "*/*", "application/*"):
        answer = send(target, "POST", "/connectors", headers={"Content-Type": content_type}, raw="{}")
        assert (answer.status, answer.headers["content-type"]) == (415, "application/json")


@pytest.mark.parametrize("content_type", ["json", "application / json", "application/json, text/plain", "/json"])
def test_invalid_media_type_is_rejected_before_routing(target: Target, content_type: str) -> None:
    headers = {"Content-Type": content_type}
    for path in ("/connectors", "/nonsense"):
        answer = send(target, "POST", path, headers=headers, raw="{}")
        assert (answer.status, answer.headers["content-type"]) == (400, "text/html;charset=iso-8859-1")
        assert f"{path}</td>" in answer.body["_text"]
        assert send(target, "PUT", path, headers=headers, raw="{}").body is None


def test_root_accepts_any_content_type(target: Target) -> None:
    for path in ("/", "/health"):
        assert send(target, "GET", path, headers={"Content-Type": "text/plain"}).status == 200


def test_flag_without_value_counts_as_absent(target: Target) -> None:
    connectors = send(target, "GET", "/connector-plugins").body
    for flag in ("", "true", "TRUE"):
        assert send(target, "GET", "/connector-plugins", query=[["connectorsOnly", flag]]).body == connectors


def test_first_value_of_a_parameter_wins(target: Target, herder: FakeHerder, client: ConnectClient) -> None:
    client.create("c", SOURCE)
    query = [["includeTasks", "false"], ["includeTasks", "true"]]
    assert send(target, "POST", "/connectors/c/restart", query=query).status == 204
    assert herder.restarted == [("c", False, False)]
    listed = send(target, "GET", "/connectors", query=[["expand", "info"], ["expand", "status"]]).body
    assert list(listed["c"]) == ["info", "status"]


@pytest.mark.parametrize("path", ["/connectors", "/connectors/"])
def test_one_trailing_slash_changes_nothing(target: Target, path: str) -> None:
    assert send(target, "GET", path).body == []


def test_head_returns_get_without_the_body(target: Target) -> None:
    answer = send(target, "HEAD", "/connectors")
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, None, "2")


def test_options_lists_methods_in_javas_order(target: Target) -> None:
    answer = send(target, "OPTIONS", "/connectors")
    assert answer.headers["allow"] == "HEAD,POST,GET,OPTIONS"
    assert (answer.headers["content-type"], answer.body) == ("text/plain", {"_text": "HEAD, POST, GET, OPTIONS"})


@pytest.mark.parametrize("name", ["a%2Fb", "a%25b"])
def test_name_with_slash_or_percent_cannot_be_addressed(target: Target, name: str) -> None:
    answer = send(target, "GET", f"/connectors/{name}")
    assert (answer.status, answer.headers["content-type"]) == (400, "text/html;charset=iso-8859-1")
    refused = send(target, "DELETE", f"/connectors/{name}")
    assert (refused.status, refused.body, "content-type" in refused.headers) == (400, None, False)


def test_matrix_parameters_are_ignored(target: Target, client: ConnectClient) -> None:
    client.create("c", SOURCE)
    client.create("c;d", SOURCE)
    assert raw_get(target, "/connectors;x=1/c;y=2/config;z")["name"] == "c"
    assert raw_get(target, "/connectors/c%3Bd/config")["name"] == "c;d"


@pytest.mark.parametrize(
    "raw",
    [
        "{bad", "", "null", "[]", '"a"', '{"name":"a","config":{}} {}', '{"name":"a","config":{}} x', '{"name":"a"}',
        '{"name":"a","config":{},"x":1}', '{"name":"a","config":{"k":[1]}}',
    ],
)  # fmt: skip
def test_unexpected_create_body_is_500(target: Target, raw: str) -> None:
    answer = send(target, "POST", "/connectors", headers={"Content-Type": "application/json"}, raw=raw)
    assert (answer.status, answer.body["error_code"]) == (500, 500)
    assert answer.body["message"]


def test_config_values_become_text_as_written(target: Target, herder: FakeHerder) -> None:
    raw = '{"connector.class":"x","a":1,"b":1.50,"c":true,"d":1e3,"e":12345678901234567890123,"f":null}\n '
    answer = send(target, "PUT", "/connectors/c/config", headers={"Content-Type": "application/json"}, raw=raw)
    assert answer.status == 201
    assert herder.configs["c"] == {
        "connector.class": "x", "a": "1", "b": "1.50", "c": "true", "d": "1e3", "e": "12345678901234567890123", "f": None,
        "name": "c",
    }  # fmt: skip


def test_create_returns_the_location_and_put_whether_it_created(target: Target) -> None:
    body = {"name": " a é ", "config": SOURCE, "initial_state": "paused"}
    created = send(target, "POST", "/connectors", body=body)
    assert created.status == 201
    assert created.headers["location"] == f"http://127.0.0.1:{target.port}/connectors/a%20%C3%A9"
    assert created.body == {
        "name": "a é",
        "config": {"connector.class": "x", "name": "a é"},
        "tasks": [{"connector": "a é", "task": 0}],
        "type": "source",
    }
    changed = send(target, "PUT", "/connectors/a%20é/config", body=SOURCE)
    assert (changed.status, "location" in changed.headers) == (200, False)


@pytest.mark.parametrize(("name", "path"), [("a%b", "a%25b"), ("a%25b", "a%25b"), ("100%", "100%25"), ("%2f%", "%2f%25")])
def test_location_keeps_escapes_in_the_name(target: Target, name: str, path: str) -> None:
    created = send(target, "POST", "/connectors", body={"name": name, "config": SOURCE})
    assert created.headers["location"] == f"http://127.0.0.1:{target.port}/connectors/{path}"


def test_name_in_the_body_must_match_the_path(target: Target) -> None:
    answer = send(target, "PUT", "/connectors/c/config", body={**SOURCE, "name": "other"})
    message = "Connector name configuration (other) doesn't match connector name in the URL (c)"
    assert (answer.status, answer.body) == (400, error(400, message))


def test_herder_errors_map_to_statuses(client: ConnectClient, target: Target) -> None:
    client.create("c", SOURCE)
    assert send(target, "POST", "/connectors", body={"name": "c", "config": SOURCE}).body == error(
        409, "Connector c already exists"
    )
    assert send(target, "GET", "/connectors/none").body == error(404, "Connector none not found")
    assert send(target, "POST", "/connectors", body={"name": "d", "config": {}}).status == 400


@pytest.mark.parametrize(
    ("raised", "status", "text"),
    [
        (IllegalStateError("busy"), 409, "busy"),
        (ConnectError("broken"), 500, "broken"),
        (ValueError("a bug"), 500, "a bug"),
        (ValueError(), 500, "ValueError"),
    ],
)
def test_unexpected_errors_are_500(
    target: Target, herder: FakeHerder, monkeypatch: pytest.MonkeyPatch, raised: Exception, status: int, text: str
) -> None:
    def fail() -> list[str]:
        raise raised

    monkeypatch.setattr(herder, "connectors", fail)
    answer = send(target, "GET", "/connectors")
    assert (answer.status, answer.body) == (status, error(status, text))


def test_expanded_list_omits_connectors_deleted_meanwhile(target: Target, herder: FakeHerder, client: ConnectClient) -> None:
    client.create("c", SOURCE)
    herder.connectors = lambda: ["c", "gone"]  # type: ignore[method-assign]
    answer = send(target, "GET", "/connectors", query=[["expand", "status"], ["expand", "nonsense"]])
    assert answer.body == {
        "c": {
            "status": {
                "name": "c",
                "connector": {"state": "RUNNING", "worker_id": "localhost:8083", "version": "1.0"},
                "tasks": [{"id": 0, "state": "RUNNING", "worker_id": "localhost:8083", "version": "1.0"}],
                "type": "source",
            }
        }
    }


def test_task_calls(target: Target, client: ConnectClient, herder: FakeHerder) -> None:
    client.create("c", SOURCE)
    status = send(target, "GET", "/connectors/c/tasks/0/status")
    assert status.body == {"id": 0, "state": "FAILED", "worker_id": "localhost:8083", "trace": "boom"}
    assert send(target, "GET", "/connectors/c/tasks/-1/status").body == error(404, "No status found for task c--1")
    wrong = send(target, "GET", "/connectors/c/tasks/abc/status")
    assert (wrong.status, wrong.headers["content-type"]) == (404, "application/json")
    assert client.tasks("c") == [{"id": {"connector": "c", "task": 0}, "config": {"file": "x"}}]
    assert send(target, "POST", "/connectors/c/tasks/0/restart").status == 204


def test_target_states_and_restart(client: ConnectClient, herder: FakeHerder, target: Target) -> None:
    client.create("c", SOURCE)
    assert send(target, "PUT", "/connectors/c/pause").status == 202
    assert herder.targets["c"] is TargetState.PAUSED
    assert send(target, "PUT", "/connectors/c/stop").status == 204
    assert send(target, "PUT", "/connectors/c/resume").status == 202
    assert client.restart("c") is None
    plan = client.restart("c", include_tasks=True)
    assert plan is not None
    assert plan["name"] == "c"
    assert herder.restarted == [("c", False, False), ("c", True, False)]


def test_offsets_plugins_progress_and_worker(client: ConnectClient) -> None:
    client.create("c", SOURCE)
    assert client.offsets("c") == [
        {"partition": {"filename": "x"}, "offset": {"position": 6}},
        {"partition": {"filename": "y"}, "offset": None},
    ]
    assert [plugin["class"] for plugin in client.plugins()] == ["Source"]
    assert len(client.plugins(connectors_only=False)) == 2
    errors = {
        "failures": 3,
        "errors": 2,
        "skipped": 2,
        "retries": 1,
        "logged": 2,
        "dead_letters": 2,
        "dead_letter_failures": 0,
        "last_error_ms": 1700000000000,
    }
    counts = {"records": 10, "bytes": 100, "lag": None, "details": {"rows": 5}, "errors": errors}
    assert client.progress("c") == [{"id": 0, **counts, "activity": None, "stalled": None}]
    assert client.server_info() == {"version": "1.2.3", "commit": "abc", "kafka_cluster_id": "cluster"}
    assert client.health()["status"] == "healthy"


def test_validate_names_the_java_error_and_checks_the_connector_class(target: Target) -> None:
    path = "/connector-plugins/FileStreamSource/config/validate"
    java = "org.apache.kafka.connect.runtime.rest.errors.BadRequestException: "
    assert send(target, "PUT", path, body={}).body == error(500, java + "Connector config {} contains no connector type")
    wrong = send(target, "PUT", path, body={"connector.class": "FileStreamSource", "producer.override.retries": "x"}).body
    java = "org.apache.kafka.common.config.ConfigException: "
    assert wrong == error(500, java + "Invalid value x for configuration retries: Not a number of type INT")
    mismatch = send(target, "PUT", path, body={"connector.class": "a.B"})
    assert mismatch.body == error(400, "Included connector type a.B does not match request type FileStreamSource")
    assert send(target, "PUT", path, body={"connector.class": "x.FileStreamSourceConnector"}).status == 200


def test_hanging_handler_times_out_and_does_not_block_others(herder: FakeHerder, monkeypatch: pytest.MonkeyPatch) -> None:
    # Only where it hangs: others may take their time on a busy machine.
    monkeypatch.setattr(ConnectRoute, "timeout_s", property(lambda route: 0.2 if route.path == "/connectors" else 30.0))
    release = threading.Event()
    monkeypatch.setattr(herder, "connectors", lambda: release.wait(WAIT_S) and [])
    server = RestServer.bind(ListenSettings(("http://127.0.0.1:0",)))
    server.start(herder)
    try:
        target = Target("127.0.0.1", server.ports[0], lambda topic, values: None)
        answers: list[Answer] = []
        waiting = threading.Thread(target=lambda: answers.append(send(target, "GET", "/connectors")))
        waiting.start()
        assert send(target, "GET", "/health").status == 200
        waiting.join()
        assert answers[0].body == error(500, "Request timed out")
    finally:
        release.set()
        server.stop()


def test_openapi_describes_every_route(target: Target) -> None:
    document = send(target, "GET", "/openapi.json").body
    assert document["openapi"].startswith("3.")
    assert {"get", "post"} <= document["paths"]["/connectors"].keys()
    assert "requestBody" in document["paths"]["/connectors/{connector}/config"]["put"]


def test_body_of_a_logger_level_accepts_only_text(target: Target) -> None:
    answer = send(target, "PUT", "/admin/loggers/root", body={"level": "INFO", "other": {}})
    assert answer.body == error(500, '"other" is not a string')
