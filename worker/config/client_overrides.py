"""Builds the settings of a connector's Kafka clients: worker defaults, then worker prefixes, then connector overrides.

``connector.client.config.override.policy`` decides what a connector may override (KIP-458, KIP-1188): All, Principal, None, or
Allowlist with ``connector.client.config.override.allowlist``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from connect.errors import ConfigError
from worker.config.worker_config import WorkerConfig
from worker.kafka.settings import ClientKind, client_settings_of

log = logging.getLogger(__name__)

DEFAULT_BATCH_SIZE: Final = 262_144
"""The producers' ``batch.size``, in bytes."""
_TRANSACTION_TIMEOUT_MS: Final = 60000
"""The default of ``transaction.timeout.ms`` in Java and in librdkafka."""
_PRINCIPAL_KEYS: Final = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})
JAVA_POLICIES: Final = {
    "org.apache.kafka.connect.connector.policy.AllConnectorClientConfigOverridePolicy": "All",
    "org.apache.kafka.connect.connector.policy.PrincipalConnectorClientConfigOverridePolicy": "Principal",
    "org.apache.kafka.connect.connector.policy.NoneConnectorClientConfigOverridePolicy": "None",
    "org.apache.kafka.connect.connector.policy.AllowlistConnectorClientConfigOverridePolicy": "Allowlist",
}

_PRODUCER_DEFAULTS: Final = {
    "acks": "all",
    # As in Apache's worker; see also worker.kafka.idempotence. Faster than 5 when measured, because batches are fuller.
    "max.in.flight.requests.per.connection": "1",
    "delivery.timeout.ms": "2147483647",
    "partitioner": "murmur2_random",
    "max.request.size": "1048576",
    "buffer.memory": "33554432",
    # Unlike Java, librdkafka does not split a batch that is too large for a topic, so batches stay well below the usual limits.
    # Not slower than librdkafka's default of 1,000,000.
    "batch.size": str(DEFAULT_BATCH_SIZE),
}

_CONSUMER_DEFAULTS: Final = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    # Java's default; librdkafka's is read_committed.
    "isolation.level": "read_uncommitted",
    # With librdkafka's default of 1 second, a full queue stalls the fetcher: 220,000 records/s instead of 1,800,000.
    # The queue is bounded by bytes.
    "fetch.queue.backoff.ms": "5",
    "queued.min.messages": "20000",
    "queued.max.messages.kbytes": "16384",
    # A put may take long (a table merge); leaving the group during it would repeat it endlessly. A dead worker is detected by
    # its session timeout of 45 seconds, not by this.
    "max.poll.interval.ms": "3600000",
    # New topics that match topics.regex are found within this time.
    "metadata.max.age.ms": "30000",
}


def canonical_policy(policy: str) -> str:
    """Returns ``All``, ``Principal``, ``None``, or ``Allowlist`` for any name of a policy. Raises ConfigError for other names."""
    name = JAVA_POLICIES.get(policy, policy).lower()
    for java, known in JAVA_POLICIES.items():
        if name in (known.lower(), java.rpartition(".")[2].lower()):
            return known
    raise ConfigError.invalid(
        "connector.client.config.override.policy",
        policy,
        "expected All, Principal, None or Allowlist, or Apache's class names for them",
    )


def allows_override(worker: WorkerConfig, key: str) -> bool:
    """Returns whether the worker's policy lets a connector override this client setting (without its prefix)."""
    match canonical_policy(worker.override_policy):
        case "All":
            return True
        case "Principal":
            return key in _PRINCIPAL_KEYS
        case "Allowlist":
            return key in worker.override_allowlist
        case _:
            return False


def client_properties(
    kind: ClientKind,
    worker: WorkerConfig,
    connector: str,
    task: int,
    config: Mapping[str, str | None],
    *,
    client_id: str | None = None,
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Returns the Java settings of one client of a task; :func:`worker.kafka.settings.librdkafka_settings` translates them.

    ``client_id`` replaces the default ID, for additional clients of a kind; ``defaults`` are the connector's. Raises ConfigError
    for an override that the policy forbids.
    """
    result = {**client_settings_of(worker.originals), "bootstrap.servers": ",".join(worker.bootstrap_servers)}
    match kind:
        case ClientKind.PRODUCER:
            result.update(_PRODUCER_DEFAULTS)
            result["client.id"] = f"connector-producer-{connector}-{task}"
        case ClientKind.CONSUMER:
            result.update(_CONSUMER_DEFAULTS)
            result["group.id"] = sink_group(connector)
            result["client.id"] = f"connector-consumer-{connector}-{task}"
        case ClientKind.ADMIN:
            result["client.id"] = f"connector-adminclient-{connector}-{task}"
    if client_id is not None:
        result["client.id"] = client_id
    result.update(defaults)
    result.update(worker.with_prefix(f"{kind.value}."))
    prefix = f"{kind.value}.override."
    for key, value in config.items():
        if key.startswith(prefix) and value is not None:
            name = key.removeprefix(prefix)
            if not allows_override(worker, name):
                raise ConfigError(
                    f"The '{canonical_policy(worker.override_policy)}' policy does not allow '{name}' to be overridden in the "
                    "connector configuration.",
                    key=key,
                )
            result[name] = value
    return result


def with_transactions(java: Mapping[str, str], transactional_id: str) -> dict[str, str]:
    """Returns producer settings with transactions added. Logs a warning for each setting that this replaces."""
    result = dict(java)
    for key, value in (("enable.idempotence", "true"), ("transactional.id", transactional_id)):
        given = result.get(key, value)
        if given != value and not (key == "enable.idempotence" and given.lower() == value):
            log.warning(
                "The value '%s' for the '%s' property will be ignored as it cannot be overridden for connectors when "
                "exactly-once source support is enabled. The value '%s' will be used instead.",
                given,
                key,
                value,
            )
        result[key] = value
    # The client requires it: a record that is unwritten when its transaction expires can no longer be written.
    for key in ("delivery.timeout.ms", "request.timeout.ms"):
        if key in result:
            result[key] = str(min(int(result[key]), int(result.get("transaction.timeout.ms", _TRANSACTION_TIMEOUT_MS))))
    return result


def sink_group(connector: str) -> str:
    """Returns the consumer group of a sink connector that does not override ``group.id``."""
    return f"connect-{connector}"
