"""Workers that authenticate with OAuth tokens: the group member, the stores, and the clients of tasks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from connect.errors import ConnectError
from tests.cluster.worker_process import SLUICE, WorkerProcess
from tests.integration.cluster_security.secured_cluster import (
    OAUTH_MODULE,
    PASSWORDS,
    SECRETS,
    TASK_ACLS,
    WORKER_ACLS,
    SecuredCluster,
)
from tests.integration.cluster_security.test_rejected_configs import running_worker
from tests.integration.cluster_security.token_endpoint import TokenEndpoint, token_endpoint
from tests.support.waiting import WAIT_S, eventually


@pytest.mark.long
def test_all_clients_of_a_worker_authenticate_with_tokens(secured: SecuredCluster, cluster: str, tmp_path: Path) -> None:
    """The worker's clients set the client id in the keys added by Kafka 4.1, those of tasks in the JAAS config."""
    secured.allow("worker", cluster, WORKER_ACLS)
    secured.allow("tasks", cluster, TASK_ACLS)
    with token_endpoint() as endpoint:
        credentials = _credentials(endpoint, PASSWORDS["worker"])
        jaas = f'{OAUTH_MODULE} required clientId="tasks" clientSecret="{PASSWORDS["tasks"]}" scope="data";'
        none = dict.fromkeys((key for key in credentials if ".client.credentials." in key), "")
        for_tasks = {**credentials, **none, "sasl.jaas.config": jaas, "bootstrap.servers": secured.broker.bootstrap_of("SECURE")}
        client_settings = {
            f"{kind}.{key}": value for kind in ("producer", "consumer", "admin") for key, value in for_tasks.items()
        }
        worker = WorkerProcess(SLUICE, tmp_path, "worker", {**secured.worker(cluster, credentials), **client_settings})
        try:
            worker.start()
            worker.wait_until_up()
            _assert_line_is_copied(worker, f"data-{cluster}", cluster, tmp_path)
            assert worker.stop() == 0
        finally:
            worker.end()
        assert set(endpoint.granted) == {("worker", None), ("tasks", "data")}
    logged = worker.log_tail(1_000_000)
    assert [secret for secret in SECRETS if secret in logged] == []


def _assert_line_is_copied(worker: WorkerProcess, topic: str, cluster: str, folder: Path) -> None:
    lines, copy = folder / "in.txt", folder / "out.txt"
    lines.write_text("one\n")
    creation = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
    source = {"connector.class": "FileStreamSource", "file": str(lines), "topic": topic, **creation}
    sink = {"connector.class": "FileStreamSink", "file": str(copy), "topics": topic}
    worker.client.put_config(f"{cluster}-source", source)
    worker.client.put_config(f"{cluster}-sink", sink)
    worker.wait_for(lambda: copy.exists() and copy.read_text() == "one\n", WAIT_S, "the line")


@pytest.mark.long
def test_client_unknown_to_the_token_endpoint_ends_the_worker(secured: SecuredCluster, cluster: str) -> None:
    failures: list[ConnectError] = []
    with token_endpoint() as endpoint:
        properties = secured.worker(cluster, _credentials(endpoint, "wr0ng-s3cret"))
        with running_worker(properties, failures):
            eventually(lambda: bool(failures), "the end of the worker")
    assert re.search(
        r"no OAuth token for authentication at the broker at 127\.0\.0\.1:\d+: .*invalid_client.*"
        r"Check sasl\.oauthbearer\.token\.endpoint\.url",
        failures[0].message,
    ), failures[0].message
    assert "wr0ng-s3cret" not in failures[0].message


def _credentials(endpoint: TokenEndpoint, secret: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": endpoint.url,
        "sasl.oauthbearer.client.credentials.client.id": "worker",
        "sasl.oauthbearer.client.credentials.client.secret": secret,
    }
