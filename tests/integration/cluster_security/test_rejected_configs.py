"""Rejections by the broker are reported with cause and remedy, by the worker or in the task status, without secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConnectError, IllegalStateError, NotFoundError, NotReadyError
from rest.forwarding.leader_client import RestLeaderClient
from tests.integration.cluster_security.secured_cluster import SECRETS, TASK_ACLS, WORKER_ACLS, SecuredCluster
from tests.integration.rest.certificates import Authority
from tests.support.cases import first_fast
from tests.support.waiting import eventually
from worker.config.worker_config import WorkerConfig
from worker.distributed.bootstrap import assemble
from worker.distributed.herder import DistributedHerder

Properties = Mapping[str, str]


@contextmanager
def running_worker(properties: Properties, failures: list[ConnectError]) -> Iterator[DistributedHerder]:
    """Runs a worker in this process, without REST. Adds the error that ends it to ``failures``."""
    config = WorkerConfig.for_cluster({**properties, "task.executors": "0", "task.shutdown.graceful.timeout.ms": "1000"})
    parts = assemble(config, worker_id="w:1", url="http://w:1/", leader_client=RestLeaderClient(), on_fatal=failures.append)
    herder = DistributedHerder(parts)
    herder.start()
    try:
        yield herder
    finally:
        herder.close(2.0)


Change = Callable[[SecuredCluster], Properties]

REJECTED: list[tuple[str, Change, str]] = [
    (
        "wrong password",
        lambda secured: secured.credentials("worker", "SCRAM-SHA-512", "wr0ng-s3cret"),
        r"looking for topic \S+-(?:config|offset|status): the broker at 127.0.0.1:\d+ rejects authentication: .*SCRAM-SHA-512\. "
        r"Check sasl\.mechanism and sasl\.jaas\.config",
    ),
    (
        "wrong authority",
        lambda secured: {"ssl.truststore.certificates": Authority("another").pem()},
        r"no TLS connection with the broker at 127.0.0.1:\d+: .*certificate verify failed.*\. Check ssl\.truststore\.\*",
    ),
    (
        "no certificate",
        lambda secured: {"security.protocol": "SSL", "bootstrap.servers": secured.broker.bootstrap_of("MUTUAL")},
        r"no TLS connection with the broker at 127.0.0.1:\d+: .*alert.*\. Check ssl\.truststore\.\*, ssl\.keystore\.\*",
    ),
    (
        "no permission for topics",
        lambda secured: secured.credentials("stranger", "SCRAM-SHA-256"),
        r"looking for topic \S+-(?:config|offset|status): not authorized by the broker at 127.0.0.1:\d+: "
        r".*TOPIC_AUTHORIZATION_FAILED\)\. "
        r"The client's principal needs READ on the topic",
    ),
]


@pytest.mark.parametrize(
    ("change", "message"), first_fast([(case[1], case[2]) for case in REJECTED]), ids=[case[0] for case in REJECTED]
)
def test_rejected_worker_ends_and_reports_the_cause(
    secured: SecuredCluster, cluster: str, caplog: pytest.LogCaptureFixture, change: Change, message: str
) -> None:
    properties = {**secured.worker(cluster, secured.credentials("worker", "SCRAM-SHA-512")), **change(secured)}
    failures: list[ConnectError] = []
    with running_worker(properties, failures):
        eventually(lambda: bool(failures), "the rejection", lambda: caplog.text)
    (failure,) = failures
    assert re.search(message, failure.message), failure.message
    _assert_no_secret(failure.message + caplog.text)


@pytest.mark.long
def test_worker_without_permission_for_its_group_reports_it(
    secured: SecuredCluster, cluster: str, caplog: pytest.LogCaptureFixture
) -> None:
    (_, topics) = WORKER_ACLS
    secured.allow("stranger", cluster, [topics])
    failures: list[ConnectError] = []
    with running_worker(secured.worker(cluster, secured.credentials("stranger", "PLAIN")), failures):
        eventually(lambda: bool(failures), "the rejection", lambda: caplog.text)
    assert f"not authorized for group {cluster}; the worker's principal needs READ on it" in failures[0].message
    _assert_no_secret(failures[0].message + caplog.text)


def test_rejected_connector_clients_fail_only_their_tasks(
    secured: SecuredCluster, cluster: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secured.allow("worker", cluster, WORKER_ACLS)
    secured.allow("tasks", cluster, TASK_ACLS)
    credentials = secured.credentials("tasks", "PLAIN")
    client_settings = {f"{kind}.{key}": value for kind in ("producer", "consumer", "admin") for key, value in credentials.items()}
    properties = {**secured.worker(cluster, secured.credentials("worker", "SCRAM-SHA-256")), **client_settings}
    (tmp_path / "in.txt").write_text("line\n")
    topic = f"data-{cluster}"
    source = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": topic}
    sink = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out.txt"), "topics": topic}
    wrong = secured.credentials("tasks", "PLAIN", "wr0ng-s3cret")["sasl.jaas.config"]
    creation = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
    expected = {
        f"{cluster}-good": ({**source, **creation}, None),
        f"{cluster}-password": ({**source, "producer.override.sasl.jaas.config": wrong}, "rejects authentication: .* Check sasl"),
        f"{cluster}-sink-password": (
            {**sink, "consumer.override.sasl.jaas.config": wrong},
            "rejects authentication: .* Check sasl",
        ),
        f"{cluster}-topic": ({**source, "topic": "elsewhere"}, "topic elsewhere .*not authorized .*WRITE to write it"),
        f"{cluster}-creation": (
            {**source, **creation, "topic": "elsewhere"},
            r"creating topic elsewhere as topic\.creation\.\* says: not authorized .*CREATE to create it",
        ),
        f"{cluster}-sink-topic": ({**sink, "topics": "elsewhere"}, "elsewhere: .*not authorized|not authorized .*elsewhere"),
        f"elsewhere-{cluster}": (sink, "GROUP_AUTHORIZATION_FAILED.* needs READ on the group"),
    }
    failures: list[ConnectError] = []
    with ExitStack() as stack:
        herder = stack.enter_context(running_worker(properties, failures))
        for name, (config, _) in expected.items():
            _create(herder, name, config)
        states: dict[str, Any] = {}

        def settled() -> bool:
            for name in expected:
                try:
                    states[name] = [(task.state.name, task.trace) for _, task in herder.connector_status(name).tasks]
                except NotFoundError:
                    states[name] = []
            return all(
                [state for state, _ in states[name]] == ["RUNNING" if message is None else "FAILED"]
                for name, (_, message) in expected.items()
            )

        eventually(settled, "the tasks' states", lambda: states)
        for name, (_, message) in expected.items():
            if message is not None:
                first_line = str(states[name][0][1]).partition("\n")[0]
                assert re.search(message, first_line), first_line
        assert failures == []
        _assert_no_secret(str(states))
    _assert_no_secret(caplog.text)


def _create(herder: DistributedHerder, name: str, config: dict[str, str]) -> None:
    def created() -> bool:
        try:
            herder.put_connector(name, {"name": name, **config}, replace=True)
        except (NotReadyError, IllegalStateError):
            return False  # the worker is joining
        return True

    eventually(created, name)


def _assert_no_secret(text: str) -> None:
    assert [secret for secret in SECRETS if secret in text] == []
