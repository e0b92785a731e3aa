"""A worker's keys as settings of a group member."""

from __future__ import annotations

import socket

import pytest

from connect.errors import ConfigError
from worker.group.config import GroupSettings
from worker.group.oauth_tokens import TokenEndpoint
from worker.group.protocol import Protocol

BASE = {"group.id": "g", "bootstrap.servers": "a:1, b:2"}
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="s3cret";'


def test_defaults_are_those_of_a_distributed_worker() -> None:
    settings = GroupSettings.of(BASE)
    assert (settings.group_id, settings.client_id, settings.protocol) == ("g", "connect-g", Protocol.SESSIONED)
    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms, settings.rebalance_timeout_ms) == (10_000, 3_000, 60_000)
    assert settings.client["bootstrap_servers"] == ["a:1", "b:2"]
    assert settings.client["security_protocol"] == "PLAINTEXT"
    numbers = {key: value for key, value in settings.client.items() if isinstance(value, int)}
    assert numbers == {
        "connections_max_idle_ms": 540_000,
        "metadata_max_age_ms": 300_000,
        "reconnect_backoff_max_ms": 1_000,
        "reconnect_backoff_ms": 50,
        "request_timeout_ms": 40_000,
        "retry_backoff_ms": 100,
        "socket_connection_setup_timeout_max_ms": 30_000,
        "socket_connection_setup_timeout_ms": 10_000,
    }


def test_worker_properties_override_the_defaults() -> None:
    settings = GroupSettings.of(
        {
            **BASE,
            "session.timeout.ms": "20000",
            "heartbeat.interval.ms": " 5000 ",
            "rebalance.timeout.ms": "30000",
            "retry.backoff.ms": "7",
            "request.timeout.ms": "9000",
            "connect.protocol": "Eager",
            "client.id": "mine",
            "receive.buffer.bytes": "4096",
            "send.buffer.bytes": "-1",
        },
        client_id="other",
    )
    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms, settings.rebalance_timeout_ms) == (20_000, 5_000, 30_000)
    assert (settings.retry_backoff_ms, settings.request_timeout_ms) == (7, 9_000)
    assert (settings.client_id, settings.protocol) == ("mine", Protocol.EAGER)
    assert (socket.SOL_SOCKET, socket.SO_RCVBUF, 4096) in settings.client["socket_options"]
    assert not any(option == socket.SO_SNDBUF for _, option, _ in settings.client["socket_options"])
    assert GroupSettings.of(BASE, client_id="other").client_id == "other"


@pytest.mark.parametrize(
    ("props", "said"),
    [
        ({"group.id": ""}, 'Missing required configuration "group.id"'),
        ({"session.timeout.ms": "x"}, "Invalid value x for configuration session.timeout.ms: Not a number"),
        ({"retry.backoff.ms": "-1"}, "Invalid value -1 for configuration retry.backoff.ms: Value must be at least 0"),
        ({"heartbeat.interval.ms": "10000"}, "must be less than session.timeout.ms=10000"),
        ({"connect.protocol": "lazy"}, "expected one of eager, compatible, sessioned"),
        ({"security.protocol": "TLS"}, "Invalid value TLS for configuration security.protocol"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "sasl.mechanism=PLAIN needs sasl.jaas.config"),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "CRAM"}, "expected one of PLAIN, SCRAM-SHA-256"),
    ],
)
def test_invalid_values_are_rejected(props: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        GroupSettings.of({**BASE, **props})
    assert said in caught.value.message


@pytest.mark.parametrize("mechanism", ["PLAIN", "scram-sha-256", "SCRAM-SHA-512"])
def test_password_authentication(mechanism: str) -> None:
    props = {"security.protocol": "sasl_plaintext", "sasl.mechanism": mechanism, "sasl.jaas.config": LOGIN}
    settings = GroupSettings.of({**BASE, **props})
    client = settings.client
    assert (client["security_protocol"], client["sasl_mechanism"]) == ("SASL_PLAINTEXT", mechanism.upper())
    assert (client["sasl_plain_username"], client["sasl_plain_password"]) == ("me", "s3cret")
    assert "s3cret" not in repr(settings)


def test_token_authentication() -> None:
    jaas = 'org.apache.OAuthBearerLoginModule required clientId="c" clientSecret="s3cret" scope="kafka";'
    settings = GroupSettings.of(
        {
            **BASE,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "http://tokens/",
            "sasl.jaas.config": jaas,
        }
    )
    assert settings.token_endpoint == TokenEndpoint("http://tokens/", "c", "s3cret", "kafka")
    assert "s3cret" not in repr(settings)


def test_kerberos_requires_gssapi(monkeypatch: pytest.MonkeyPatch) -> None:
    props = {**BASE, "security.protocol": "SASL_PLAINTEXT", "sasl.kerberos.service.name": "kfk"}
    monkeypatch.setattr("worker.group.config.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install gssapi"):
        GroupSettings.of(props)
    monkeypatch.setattr("worker.group.config.find_spec", lambda name: object())
    client = GroupSettings.of(props).client
    assert (client["sasl_mechanism"], client["sasl_kerberos_service_name"]) == ("GSSAPI", "kfk")
