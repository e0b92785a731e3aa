"""Java client settings become librdkafka's."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from connect.errors import ConfigError
from tests.integration.rest.certificates import Authority
from worker.kafka.clients import make_consumer, make_producer
from worker.kafka.security import jaas_options
from worker.kafka.settings import ClientKind, client_settings_of, librdkafka_settings


@pytest.mark.parametrize(
    ("java", "expected"),
    [
        ({"acks": "all"}, {"acks": "all"}),
        ({"linger.ms": "5"}, {"linger.ms": "5"}),
        ({"batch.size": "0"}, {"batch.size": "1"}),
        ({"buffer.memory": "33554432"}, {"queue.buffering.max.kbytes": "32768"}),
        ({"max.request.size": "5242880"}, {"message.max.bytes": "5242880"}),
        ({"compression.type": "ZSTD"}, {"compression.type": "zstd"}),
        ({"delivery.timeout.ms": "2147483647"}, {"delivery.timeout.ms": "2147483647"}),
        ({"max.in.flight.requests.per.connection": "1"}, {"max.in.flight.requests.per.connection": "1"}),
        ({"retry.backoff.ms": "0"}, {"retry.backoff.ms": "1"}),
        (
            {"partitioner.class": "org.apache.kafka.clients.producer.internals.DefaultPartitioner"},
            {"partitioner": "murmur2_random"},
        ),
        ({"partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"}, {"partitioner": "random"}),
        ({"partitioner.ignore.keys": "true"}, {"partitioner": "random"}),
        ({"send.buffer.bytes": "-1", "receive.buffer.bytes": "65536"}, {"socket.receive.buffer.bytes": "65536"}),
        ({"key.serializer": "x.y.Z", "max.block.ms": "60000", "interceptor.classes": "a.B", "metric.reporters": ""}, {}),
        ({"fetch.min.bytes": "1"}, {}),
        ({"statistics.interval.ms": "1000"}, {"statistics.interval.ms": "1000"}),
    ],
)
def test_producer_settings(java: dict[str, str], expected: dict[str, str]) -> None:
    assert librdkafka_settings(ClientKind.PRODUCER, java) == expected


@pytest.mark.parametrize(
    ("java", "expected"),
    [
        ({"fetch.max.wait.ms": "100"}, {"fetch.wait.max.ms": "100"}),
        ({"request.timeout.ms": "30000"}, {"socket.timeout.ms": "30000"}),
        ({"isolation.level": "READ_COMMITTED"}, {"isolation.level": "read_committed"}),
        ({"max.poll.records": "10"}, {}),
        ({"metadata.max.age.ms": "5000"}, {"metadata.max.age.ms": "5000", "topic.metadata.refresh.interval.ms": "5000"}),
        (
            {
                "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor,"
                "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
            },
            {"partition.assignment.strategy": "range"},
        ),
        (
            {"partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"},
            {"partition.assignment.strategy": "cooperative-sticky"},
        ),
        ({"acks": "1"}, {}),
    ],
)
def test_consumer_settings(java: dict[str, str], expected: dict[str, str]) -> None:
    assert librdkafka_settings(ClientKind.CONSUMER, java) == expected


def test_an_invalid_number_is_rejected_with_its_java_name() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value lots for configuration buffer\.memory"):
        librdkafka_settings(ClientKind.PRODUCER, {"buffer.memory": "lots"})


def test_a_java_partitioner_class_is_rejected_with_alternatives() -> None:
    with pytest.raises(ConfigError, match="murmur2_random"):
        librdkafka_settings(ClientKind.PRODUCER, {"partitioner.class": "com.example.MyPartitioner"})


@pytest.mark.parametrize(
    ("module", "mechanism"),
    [
        ("org.apache.kafka.common.security.plain.PlainLoginModule", "PLAIN"),
        ("org.apache.kafka.common.security.scram.ScramLoginModule", "SCRAM-SHA-512"),
    ],
)
def test_a_jaas_line_becomes_user_and_password(module: str, mechanism: str) -> None:
    java = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="al\\"ice" password="it\'s; a = secret";',
    }
    assert librdkafka_settings(ClientKind.PRODUCER, java) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": 'al"ice',
        "sasl.password": "it's; a = secret",
    }


def test_an_invalid_jaas_line_is_rejected_without_being_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        jaas_options("hunter2")
    assert "hunter2" not in str(caught.value)


def test_oauth_with_a_token_endpoint_is_translated() -> None:
    java = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
        "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="me" clientSecret="s3cret" scope="kafka";',
    }
    settings = librdkafka_settings(ClientKind.PRODUCER, java)
    assert settings["sasl.oauthbearer.method"] == "oidc"
    assert settings["sasl.oauthbearer.client.secret"] == "s3cret"
    assert settings["sasl.oauthbearer.scope"] == "kafka"


def test_an_oauth_java_handler_is_rejected_with_an_alternative() -> None:
    java = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.login.callback.handler.class": "x.Y"}
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.token\.endpoint\.url"):
        librdkafka_settings(ClientKind.PRODUCER, java)


def test_pem_files_are_passed_on_and_other_stores_become_pem(tmp_path: Path) -> None:
    authority = Authority()
    pem, p12 = tmp_path / "ca.pem", authority.write_pkcs12(tmp_path / "ca.p12", "changeit")
    pem.write_text(authority.pem())
    trust = {"ssl.truststore.location": str(pem), "ssl.truststore.type": "PEM"}
    assert librdkafka_settings(ClientKind.ADMIN, trust) == {"ssl.ca.location": str(pem)}
    trust = {"ssl.truststore.location": p12, "ssl.truststore.password": "changeit"}
    assert librdkafka_settings(ClientKind.ADMIN, trust) == {"ssl.ca.pem": authority.pem()}
    worker = authority.sign("worker")
    store = worker.write_pkcs12(tmp_path / "worker.p12", "changeit")
    made = librdkafka_settings(ClientKind.ADMIN, {"ssl.keystore.location": store, "ssl.keystore.password": "changeit"})
    assert made == {"ssl.key.pem": worker.key_pem(), "ssl.certificate.pem": worker.chain_pem()}
    with pytest.raises(ConfigError, match="cannot be read"):
        librdkafka_settings(ClientKind.ADMIN, {"ssl.truststore.location": str(tmp_path / "none")})


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
         "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_AES_256_GCM_SHA384,TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_AES_256_GCM_SHA384", None),
    ],
)  # fmt: skip
def test_cipher_suites_have_openssls_names(java: str, openssl: str | None) -> None:
    assert librdkafka_settings(ClientKind.ADMIN, {"ssl.cipher.suites": java}).get("ssl.cipher.suites") == openssl


def test_an_empty_endpoint_identification_means_none() -> None:
    assert librdkafka_settings(ClientKind.ADMIN, {"ssl.endpoint.identification.algorithm": ""}) == {
        "ssl.endpoint.identification.algorithm": "none"
    }


def test_an_unknown_key_is_ignored_with_a_warning_that_names_the_nearest(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        make_producer({"bootstrap.servers": "127.0.0.1:1", "linger.sm": "3"}).close()
    assert "linger.sm" in caplog.text
    assert "did you mean linger.ms?" in caplog.text


def test_a_bad_value_is_an_error_that_does_not_show_secrets() -> None:
    with pytest.raises(ConfigError, match=r"auto\.offset\.reset"):
        make_consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "auto.offset.reset": "sometimes"})


def test_contradicting_settings_are_named() -> None:
    with pytest.raises(ConfigError, match=r"`acks` must be set to `all` when `enable\.idempotence` is true"):
        make_producer({"bootstrap.servers": "127.0.0.1:1", "enable.idempotence": "true", "acks": "1"})


def test_only_connection_settings_of_the_worker_go_to_its_clients() -> None:
    props = {"bootstrap.servers": "b:1", "offset.flush.interval.ms": "1", "sasl.mechanism": "PLAIN", "producer.acks": "1"}
    assert client_settings_of(props) == {"bootstrap.servers": "b:1", "sasl.mechanism": "PLAIN"}
