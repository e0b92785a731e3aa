"""Two worker processes of one cluster with TLS, authentication, and ACLs for every connection."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import keytool
from tests.cluster.worker_process import SLUICE, WorkerProcess
from tests.integration.cluster_security.secured_cluster import (
    PASSWORDS,
    SECRETS,
    TASK_ACLS,
    TASK_ACLS_EXACTLY_ONCE,
    WORKER_ACLS,
    WORKER_ACLS_EXACTLY_ONCE,
    SecuredCluster,
)
from tests.integration.rest.certificates import Authority
from tests.support.waiting import WAIT_S

STORE_PASSWORD = "st0re-s3cret"


def call(worker: WorkerProcess, tls: ssl.SSLContext, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """Sends a request to a worker. Status 0 means no response."""
    url = f"https://{worker.worker_id}{path}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S, context=tls) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as e:
        with e:
            return e.code, json.loads(e.read() or b"null")
    except (OSError, urllib.error.URLError):
        return 0, None


@pytest.mark.long
def test_cluster_works_with_authentication_certificates_and_acls_on_every_connection(
    secured: SecuredCluster, cluster: str, tmp_path: Path
) -> None:
    """The first worker authenticates with SCRAM, the second with a certificate, connectors' clients as another user with PLAIN.

    Each principal has the ACLs that docs/distributed.md lists, including those for exactly-once. REST also requires certificates,
    so the follower presents its own when it forwards a request.
    """
    secured.allow("worker", cluster, (*WORKER_ACLS, *WORKER_ACLS_EXACTLY_ONCE))
    secured.allow("tasks", cluster, (*TASK_ACLS, *TASK_ACLS_EXACTLY_ONCE))
    client_settings = {
        f"{kind}.{key}": value for kind in ("producer", "consumer", "admin") for key, value in _tasks(secured).items()
    }
    # Certificates for REST, from an authority that the broker does not trust.
    company = Authority("company")
    rest = {
        "listeners.https.ssl.client.auth": "required",
        "listeners.https.ssl.truststore.type": "PEM",
        "listeners.https.ssl.truststore.certificates": company.pem().replace("\n", "\\n"),
        "listeners.https.ssl.keystore.password": STORE_PASSWORD,
    }
    # Like key stores of keytool before Java 9.
    key_store = secured.authority.sign("worker").write_pkcs12(tmp_path / "worker.p12", STORE_PASSWORD)
    certificate = {
        "security.protocol": "SSL",
        "ssl.keystore.location": keytool.key_store(tmp_path / "worker.jks", key_store, "JKS", STORE_PASSWORD),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.truststore.type": "JKS",
        "ssl.truststore.location": keytool.trust_store(
            tmp_path / "trust.jks", secured.folder / "authority.pem", "JKS", STORE_PASSWORD
        ),
        "ssl.truststore.password": STORE_PASSWORD,
    }
    passwords = tmp_path / "passwords.properties"
    passwords.write_text(f"worker={PASSWORDS['worker']}\n")
    by_reference = {
        **secured.credentials("worker", "SCRAM-SHA-512", f"${{file:{passwords}:worker}}"),
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    files = {
        "first": secured.worker(cluster, by_reference),
        "second": secured.worker(cluster, certificate, "MUTUAL"),
    }
    workers = []
    for name, properties in files.items():
        store = company.sign(name).write_pkcs12(tmp_path / f"{name}-rest.p12", STORE_PASSWORD)
        own = {
            **properties,
            **client_settings,
            **rest,
            "listeners.https.ssl.keystore.location": store,
            "exactly.once.source.support": "enabled",
        }
        worker = WorkerProcess(SLUICE, tmp_path, name, own)
        worker.properties["listeners"] = f"https://{worker.worker_id}"
        workers.append(worker)
    operator = company.client_context((company.sign("operator"), tmp_path))
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.wait_for(partial(_is_healthy, worker, operator), WAIT_S, "health")
        _assert_lines_are_copied(workers, operator, cluster, tmp_path)
        # Requests without a certificate are rejected.
        assert call(workers[0], company.client_context(), "GET", "/connectors") == (0, None)
        for worker in workers:
            worker.terminate()
        assert [worker.wait_for_exit() for worker in workers] == [0, 0]
    finally:
        for worker in workers:
            worker.end()
    for worker in workers:
        logged = worker.log_tail(1_000_000)
        assert [secret for secret in SECRETS if secret in logged] == []
        assert "[hidden]" not in logged, "names of users are no secrets"
        assert " started (" not in logged.partition("Kafka Connect stopping")[2], "started while it stops"


def _tasks(secured: SecuredCluster) -> dict[str, str]:
    return {**secured.credentials("tasks", "PLAIN"), "bootstrap.servers": secured.broker.bootstrap_of("SECURE")}


def _is_healthy(worker: WorkerProcess, tls: ssl.SSLContext) -> bool:
    return call(worker, tls, "GET", "/health")[0] == 200


def _assert_lines_are_copied(workers: list[WorkerProcess], tls: ssl.SSLContext, cluster: str, folder: Path) -> None:
    """Creates one connector through each worker, so that one request is forwarded to the leader."""
    lines, copy, topic = folder / "in.txt", folder / "out.txt", f"data-{cluster}"
    lines.write_text("one\ntwo\n")
    source = {"connector.class": "FileStreamSource", "file": str(lines), "topic": topic}
    creation = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
    sink = {"connector.class": "FileStreamSink", "file": str(copy), "topics": topic}
    for worker, (name, config) in zip(
        workers, ((f"{cluster}-source", {**source, **creation}), (f"{cluster}-sink", sink)), strict=True
    ):

        def created(worker: WorkerProcess = worker, name: str = name, config: dict[str, str] = config) -> bool:
            status, answer = call(worker, tls, "PUT", f"/connectors/{name}/config", config)
            assert status in (200, 201, 409), answer
            return status != 409  # the group is being rebalanced

        worker.wait_for(created, WAIT_S, name)
    workers[0].wait_for(lambda: copy.exists() and copy.read_text() == "one\ntwo\n", WAIT_S, "the lines")
    worker_ids: dict[str, str] = {}

    def all_run() -> bool:
        """Whether the other worker has read the states, which are written asynchronously."""
        for name in (f"{cluster}-source", f"{cluster}-sink"):
            status, answer = call(workers[1], tls, "GET", f"/connectors/{name}/status")
            assert status == 200, answer
            if [task["state"] for task in answer["tasks"]] != ["RUNNING"]:
                return False
            worker_ids[name] = answer["tasks"][0]["worker_id"]
        return True

    workers[1].wait_for(all_run, WAIT_S, "running tasks")
    assert set(worker_ids.values()) == {worker.worker_id for worker in workers}, "each worker has one of the tasks"

    # These requests use the credentials of the connectors' admin clients.
    def committed() -> bool:
        status, answer = call(workers[0], tls, "GET", f"/connectors/{cluster}-sink/offsets")
        assert status == 200, answer
        return len(answer["offsets"]) == 1

    workers[0].wait_for(committed, WAIT_S, "the sink's first commit")
