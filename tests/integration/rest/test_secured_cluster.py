"""Authentication in a cluster: workers trust each other, and each applies its roles to the caller of a forwarded request."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest

from connect.errors import ConnectError
from rest.client import ConnectClient
from rest.forwarding.leader_client import RestLeaderClient
from rest.forwarding.worker_client import WorkerClient
from rest.polling import wait_until
from rest.rest_server import RestServer
from rest.security.identity import Identity
from rest.security.passwords import hash_token
from sluice.embedded.broker import EmbeddedBroker
from tests.support.waiting import WAIT_S
from worker.config.worker_config import WorkerConfig
from worker.distributed.bootstrap import assemble
from worker.distributed.herder import DistributedHerder

JSON = "org.apache.kafka.connect.json.JsonConverter"
SOURCE = {
    "connector.class": "FileStreamSource",
    "file": "/nowhere",
    "topic": "t",
    "tasks.max": "1",
    "db.password": "s3cret-value",
}
ROLES = """
bindings:
  - {role: admin, users: [root]}
  - {role: operator, users: [operator], connectors: ["shop-*"]}
"""


@dataclass(frozen=True, slots=True)
class SecuredWorker:
    server: RestServer
    herder: DistributedHerder
    audit: Path


def _fail(error: ConnectError) -> None:
    raise error


def _start(broker: EmbeddedBroker, group: str, folder: Path, number: int, **more: str) -> SecuredWorker:
    config = WorkerConfig.for_cluster(
        {
            "bootstrap.servers": broker.bootstrap,
            "key.converter": JSON,
            "value.converter": JSON,
            "listeners": "http://127.0.0.1:0",
            "task.executors": "0",
            "group.id": group,
            "offset.storage.partitions": "1",
            "status.storage.partitions": "1",
            "heartbeat.interval.ms": "500",
            **{f"{what}.storage.topic": f"{group}-{what}" for what in ("config", "offset", "status")},
            **{f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")},
            "rest.authentication": "bearer",
            "rest.authentication.tokens.file": str(folder / "tokens"),
            "rest.authorization.roles.file": str(folder / "roles.yaml"),
            "rest.audit.log.file": str(folder / f"audit-{number}"),
            **more,
        }
    )
    server = RestServer.from_config(config)
    client = RestLeaderClient(WorkerClient.from_config(config))
    parts = assemble(config, worker_id=server.worker_id, url=server.url, leader_client=client, on_fatal=_fail)
    herder = DistributedHerder(parts)
    server.start(herder)
    herder.start()
    return SecuredWorker(server, herder, folder / f"audit-{number}")


def _wait_until_up(worker: SecuredWorker) -> SecuredWorker:
    with ConnectClient(worker.server.url) as anonymous:
        anonymous.wait_until_up(WAIT_S)
    return worker


def _stop(workers: Sequence[SecuredWorker]) -> None:
    for one in workers:
        one.server.stop()
        one.herder.close(10.0)


def _write_credentials(folder: Path) -> None:
    (folder / "roles.yaml").write_text(ROLES)
    (folder / "tokens").write_text("".join(f"{name}:{hash_token(name)}\n" for name in ("root", "operator")))


@pytest.fixture(scope="module")
def cluster(_broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SecuredWorker]]:
    group = f"secured-{uuid4().hex[:8]}"
    folder = tmp_path_factory.mktemp("secured")
    _write_credentials(folder)
    running = [_wait_until_up(_start(_broker, group, folder, number)) for number in range(2)]
    yield running
    _stop(running)


def ask(worker: SecuredWorker, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Repeats a request as long as the group rebalances."""
    answers: list[tuple[int, Any]] = []
    with ConnectClient(worker.server.url) as client:

        def is_answered() -> bool:
            answers.append(client.send(method, path, body, headers=headers))
            return answers[-1][0] != 409

        wait_until(is_answered, WAIT_S)
    return answers[-1]


def follower_and_leader(cluster: list[SecuredWorker]) -> tuple[SecuredWorker, SecuredWorker]:
    first, second = cluster
    is_first_leading = first.herder._parts.group.current.is_leader
    return (second, first) if is_first_leading else (first, second)


def has_tasks(status: Callable[[], tuple[int, Any]]) -> bool:
    return bool(status()[1].get("tasks"))


def entries(worker: SecuredWorker) -> list[dict[str, Any]]:
    return [json.loads(line) for line in worker.audit.read_text().splitlines()]


def test_connector_created_at_a_follower_runs_and_both_workers_know_the_caller(cluster: list[SecuredWorker]) -> None:
    follower, leader = follower_and_leader(cluster)
    headers = {"Authorization": "Bearer root", "X-Request-ID": "create-1"}
    assert ask(follower, "POST", "/connectors", {"name": "shop-1", "config": SOURCE}, **headers)[0] == 201
    # Task configs reach the leader in signed requests: without them, nothing would run.
    for worker in cluster:
        status = partial(ask, worker, "GET", "/connectors/shop-1/status", **headers)
        assert wait_until(partial(has_tasks, status), WAIT_S), status()
    [there] = [one for one in entries(leader) if one["request_id"] == "create-1"]
    assert (there["subject"], there["connector"], there["client"], there["via"]) == ("root", "shop-1", "127.0.0.1", "127.0.0.1")
    [here] = [one for one in entries(follower) if one["request_id"] == "create-1"]
    assert (here["subject"], here["via"], here["status"]) == ("root", None, 201)


def test_session_cookie_is_enough_for_a_forwarded_request(cluster: list[SecuredWorker]) -> None:
    follower, _ = follower_and_leader(cluster)
    # A cookie is valid at the worker that issued it; the other one accepts its word.
    settings = follower.server._rest_settings
    assert settings is not None
    security = settings.security
    assert security is not None

    def cookie_of(user: str) -> str:
        return security.start_session(Identity(user, "bearer"), f"Bearer {user}", is_secure=False).partition(";")[0]

    headers = {"Cookie": cookie_of("root"), "X-Requested-With": "sluice-ui"}
    assert ask(follower, "PUT", "/connectors/shop-2/config", SOURCE, **headers)[0] == 201
    operator = {"Cookie": cookie_of("operator")}
    # The follower sees what the leader has written once it has read the config topic.
    assert wait_until(lambda: ask(follower, "GET", "/connectors/shop-2", **operator)[0] == 200, WAIT_S)
    shown = ask(follower, "GET", "/connectors/shop-2", **operator)[1]
    assert shown["config"]["db.password"] == "[hidden]"
    assert "s3cret-value" not in json.dumps(ask(follower, "GET", "/connectors/shop-2/tasks", **operator)[1])


def test_forged_identity_is_refused(cluster: list[SecuredWorker]) -> None:
    members: dict[str, Any] = {"subject": "root", "method": "bearer", "groups": [], "claims": {}, "expires": None, "client": None}
    forged = base64.b64encode(json.dumps({**members, "at": time.time()}).encode()).decode()
    headers = {
        "X-Sluice-Identity": forged,
        "X-Sluice-Identity-Signature": base64.b64encode(b"x" * 32).decode(),
        "X-Sluice-Identity-Signature-Algorithm": "HmacSHA256",
    }
    with ConnectClient(cluster[0].server.url) as client:
        assert client.send("GET", "/connectors", headers=headers)[0] == 409
        assert client.send("DELETE", "/connectors/shop-1", headers={**headers, "Authorization": "Bearer root"})[0] == 409
        status, answer = client.send("POST", "/connectors/shop-1/tasks", [{}], headers={"Authorization": "Bearer root"})
        assert (status, answer["message"]) == (400, "Internal request missing required signature")
        assert client.send("PUT", "/connectors/shop-1/fence")[0] == 400


def test_follower_refuses_what_roles_do_not_allow_before_it_forwards(cluster: list[SecuredWorker]) -> None:
    follower, leader = follower_and_leader(cluster)
    headers = {"Authorization": "Bearer operator", "X-Request-ID": "refused-1"}
    assert ask(follower, "DELETE", "/connectors/shop-1", **headers)[0] == 403
    assert [one for one in entries(leader) if one["request_id"] == "refused-1"] == []
    assert ask(follower, "PUT", "/connectors/shop-1/pause", **headers)[0] == 202


def test_hidden_value_sent_back_keeps_the_secret(cluster: list[SecuredWorker]) -> None:
    follower, leader = follower_and_leader(cluster)
    root = {"Authorization": "Bearer root"}
    assert ask(leader, "PUT", "/connectors/shop-3/config", SOURCE, **root)[0] == 201
    changed = {**SOURCE, "db.password": "[hidden]", "topic": "other"}
    assert ask(follower, "PUT", "/connectors/shop-3/config", changed, **root)[0] == 200
    stored = ask(leader, "GET", "/connectors/shop-3/config", **root)[1]
    assert (stored["db.password"], stored["topic"]) == ("s3cret-value", "other")


def test_signing_out_reaches_workers_that_no_status_names_and_those_that_start_later(
    broker: EmbeddedBroker, tmp_path: Path
) -> None:
    _write_credentials(tmp_path)
    group = f"sign-out-{uuid4().hex[:8]}"
    secret = {"rest.authentication.session.secret": "0123456789abcdef0123456789abcdef"}
    workers = [_start(broker, group, tmp_path, number, **secret) for number in range(3)]
    try:
        for one in workers:
            _wait_until_up(one)
        followers = [one for one in workers if not one.herder._parts.group.current.is_leader]
        assert len(followers) == 2
        ended, kept = (_sign_in(followers[0]) for _ in range(2))
        assert [_read(one, ended) for one in workers] == [200] * 3
        answer = ask(followers[0], "DELETE", "/sluice/auth/session", **ended, **{"X-Requested-With": "sluice"})
        assert answer[0] == 204
        assert wait_until(lambda: [_read(one, ended) for one in workers] == [401] * 3, WAIT_S), "all workers refuse the copy"
        assert [_read(one, kept) for one in workers] == [200] * 3
        # It refuses session cookies until it has read which ones have ended.
        workers.append(_start(broker, group, tmp_path, 3, **secret))
        answers: set[int] = set()

        def is_read() -> bool:
            answers.add(_read(workers[3], ended))
            return 401 in answers

        assert wait_until(is_read, WAIT_S)
        assert answers <= {401, 503}
        assert _read(workers[3], kept) == 200
    finally:
        _stop(workers)


def _sign_in(worker: SecuredWorker) -> dict[str, str]:
    """Returns the cookie of a session."""
    request = Request(f"{worker.server.url}sluice/auth/session", method="POST", headers={"Authorization": "Bearer root"})
    with urlopen(request, timeout=WAIT_S) as response:
        return {"Cookie": response.headers["Set-Cookie"].partition(";")[0]}


def _read(worker: SecuredWorker, headers: dict[str, str]) -> int:
    return ask(worker, "GET", "/connectors", **headers)[0]
