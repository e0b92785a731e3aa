"""Settings of a connector's Kafka clients: defaults, worker prefixes, overrides, and override policies."""

from __future__ import annotations

import pytest

from connect.errors import ConfigError
from worker.config.client_overrides import allows_override, canonical_policy, client_properties
from worker.config.worker_config import WorkerConfig
from worker.kafka.settings import ClientKind

WORKER = {"key.converter": "String", "value.converter": "String", "offset.storage.file.filename": "/nowhere/offsets"}


def test_defaults_then_worker_prefix_then_override() -> None:
    worker = WorkerConfig.standalone({**WORKER, "producer.linger.ms": "7", "producer.acks": "1", "security.protocol": "SSL"})
    props = client_properties(ClientKind.PRODUCER, worker, "c", 2, {"producer.override.acks": "0", "topic": "t"})
    assert props["client.id"] == "connector-producer-c-2"
    assert props["linger.ms"] == "7"
    assert props["acks"] == "0"
    assert props["security.protocol"] == "SSL"
    assert props["max.in.flight.requests.per.connection"] == "1"
    assert "key.converter" not in props


def test_a_client_of_another_name_keeps_it_unless_the_worker_or_the_connector_gives_one() -> None:
    name = "connector-dlq-producer-c-2"
    for config, expected in (({}, name), ({"producer.override.client.id": "mine"}, "mine")):
        worker = WorkerConfig.standalone(WORKER)
        assert client_properties(ClientKind.PRODUCER, worker, "c", 2, config, client_id=name)["client.id"] == expected


def test_a_sink_reads_in_the_group_of_its_connector_from_the_start() -> None:
    props = client_properties(ClientKind.CONSUMER, WorkerConfig.standalone(WORKER), "c", 0, {})
    assert props["group.id"] == "connect-c"
    assert props["auto.offset.reset"] == "earliest"
    assert props["enable.auto.commit"] == "false"


def test_policies() -> None:
    assert canonical_policy("org.apache.kafka.connect.connector.policy.NoneConnectorClientConfigOverridePolicy") == "None"
    assert canonical_policy("AllowlistConnectorClientConfigOverridePolicy") == "Allowlist"


@pytest.mark.parametrize(
    ("policy", "allowlist", "allowed"),
    [
        ("All", "", {"acks", "sasl.jaas.config"}),
        ("Principal", "acks", {"sasl.jaas.config"}),
        ("None", "acks", set()),
        ("Allowlist", "acks, linger.ms", {"acks"}),
        ("Allowlist", "", set()),
    ],
)
def test_policies_let_a_connector_set(policy: str, allowlist: str, allowed: set[str]) -> None:
    prefix = "connector.client.config.override."
    worker = WorkerConfig.standalone({**WORKER, f"{prefix}policy": policy, f"{prefix}allowlist": allowlist})
    assert {key for key in ("acks", "sasl.jaas.config") if allows_override(worker, key)} == allowed
    worker = WorkerConfig.standalone({**WORKER, "connector.client.config.override.policy": "None"})
    with pytest.raises(ConfigError, match="'None' policy does not allow 'acks'"):
        client_properties(ClientKind.PRODUCER, worker, "c", 0, {"producer.override.acks": "0"})
