"""Requests between workers over HTTPS: trusted and renewed certificates, and errors for untrusted ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connect.errors import UnreachableError
from rest.forwarding.worker_client import WorkerClient
from rest.rest_server import RestServer
from tests.integration.rest.certificates import Authority
from tests.unit.rest.fake_herder import FakeHerder
from worker.config.worker_config import WorkerConfig

COMPANY, STRANGERS = Authority("company"), Authority("strangers")


def worker_config(store: Path, **more: str) -> WorkerConfig:
    return WorkerConfig.standalone(
        {
            "bootstrap.servers": "localhost:1",
            "key.converter": "String",
            "value.converter": "String",
            "offset.storage.file.filename": "offsets",
            "listeners": "https://127.0.0.1:0",
            "listeners.https.ssl.keystore.location": str(store),
            "listeners.https.ssl.truststore.type": "PEM",
            "listeners.https.ssl.truststore.certificates": COMPANY.pem(),
            "listeners.https.ssl.client.auth": "required",
            **more,
        }
    )


@pytest.fixture
def leader(tmp_path: Path) -> Iterator[str]:
    """The URL of a worker that requires client certificates."""
    store = tmp_path / "leader.pem"
    COMPANY.sign("leader").write_pem(store)
    server = RestServer.from_config(worker_config(store))
    server.start(FakeHerder())
    yield server.url
    server.stop(1)


def test_worker_presents_its_listener_certificate_and_applies_a_renewed_one_at_once(leader: str, tmp_path: Path) -> None:
    store = tmp_path / "follower.pem"
    COMPANY.sign("follower").write_pem(store)
    outgoing = WorkerClient.from_config(worker_config(store))
    assert outgoing.send("GET", leader, "/connectors", {}, None).status == 200
    STRANGERS.sign("follower").write_pem(store)
    with pytest.raises(UnreachableError, match="IO Error trying to forward REST request"):
        outgoing.send("GET", leader, "/connectors", {}, None)
    COMPANY.sign("follower, renewed").write_pem(store)
    assert outgoing.send("GET", leader, "/connectors", {}, None).status == 200


def test_request_to_an_untrusted_leader_fails_and_names_the_keys_to_check(leader: str, tmp_path: Path) -> None:
    store = tmp_path / "follower.pem"
    COMPANY.sign("follower").write_pem(store)
    other = {"listeners.https.ssl.truststore.certificates": STRANGERS.pem()}
    outgoing = WorkerClient.from_config(worker_config(store, **other))
    with pytest.raises(UnreachableError, match=r"CERTIFICATE_VERIFY_FAILED.*GET 127\.0\.0\.1.*Check listeners\.https\.ssl\.\*"):
        outgoing.send("GET", leader, "/connectors", {}, None)
