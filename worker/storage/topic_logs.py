"""The logs of a worker's internal topics: their names, and the settings of their clients.

Client ID prefixes, fixed settings, and the leader's transactional id are those of Apache's workers (reference 3.5).
"""

from __future__ import annotations

from collections.abc import Mapping

from connect.errors import IllegalStateError
from worker.config.distributed_config import DistributedSettings, ExactlyOnce, StorageTopic
from worker.config.worker_config import WorkerConfig
from worker.kafka.internal_topics import InternalTopic
from worker.kafka.settings import client_settings_of
from worker.kafka.topic_log import TopicLogSettings

READ_COMMITTED = {"isolation.level": "read_committed"}

# Further keys without a prefix that a worker's properties may set for these clients, besides connection and security.
_TAKEN_OVER = ("request.timeout.ms", "max.request.size", "compression.type", "linger.ms")

_DEFAULTS = {"reconnect.backoff.ms": "50", "reconnect.backoff.max.ms": "1000", "retry.backoff.ms": "100"}

# The time after which a record that no broker accepted is given up. A record that was reported as failed must not be written much
# later, when the worker's connectors may have continued.
_DELIVERY_TIMEOUT = {"delivery.timeout.ms": "30000"}


def config_log(worker: WorkerConfig) -> TopicLogSettings:
    """Returns the settings for ``config.storage.topic``: one partition; read committed with exactly-once; with a leader's
    writer unless exactly-once is off."""
    own = _settings(worker)
    topic = _internal_topic(own.config_topic, "config.storage.topic", "connector configurations", single_partition=True)
    leader = None
    if own.exactly_once is not ExactlyOnce.DISABLED:
        leader = {
            **_client(worker, "configs-leader"),
            **_DELIVERY_TIMEOUT,
            "transactional.id": transactional_id(own.group_id),
            "transaction.timeout.ms": "60000",
        }
    return _log(worker, topic, "configs", committed=own.exactly_once is ExactlyOnce.ENABLED, leader=leader)


def status_log(worker: WorkerConfig) -> TopicLogSettings:
    """Returns the settings for ``status.storage.topic``."""
    own = _settings(worker)
    topic = _internal_topic(own.status_topic, "status.storage.topic", "connector and task statuses")
    return _log(worker, topic, "statuses", committed=False)


def offset_log(worker: WorkerConfig) -> TopicLogSettings:
    """Returns the settings for ``offset.storage.topic``: read committed with exactly-once."""
    own = _settings(worker)
    topic = _internal_topic(own.offset_topic, "offset.storage.topic", "source connector offsets")
    return _log(worker, topic, "offsets", committed=own.exactly_once is ExactlyOnce.ENABLED)


def own_offset_log(
    worker: WorkerConfig,
    topic: str,
    consumer: Mapping[str, str],
    producer: Mapping[str, str],
    admin: Mapping[str, str],
) -> TopicLogSettings:
    """Returns the settings for a connector's own ``offsets.storage.topic``, with the settings of the connector's clients
    (overrides included). Read committed with exactly-once, or unless the connector's consumer is configured otherwise."""
    own = _settings(worker)
    made = InternalTopic(
        topic, own.offset_topic.partitions, own.offset_topic.replication_factor, {}, setting="offsets.storage.topic"
    )  # fmt: skip
    isolation = READ_COMMITTED if own.exactly_once is ExactlyOnce.ENABLED else {}
    group = {"group.id": own.group_id}
    return TopicLogSettings(
        made,
        consumer={**READ_COMMITTED, **consumer, **group, **isolation},
        producer={**producer, **_DELIVERY_TIMEOUT},
        admin=admin,
    )


def transactional_id(group_id: str) -> str:
    """Returns the transactional id of the leader's config writer."""
    return f"connect-cluster-{group_id}"


def client_id_base(worker: WorkerConfig) -> str:
    """Returns the prefix of the worker's own client IDs: ``<group.id>-``, then ``<client.id>-`` if there is one."""
    own = _settings(worker)
    return f"{own.group_id}-{own.client_id}-" if own.client_id else f"{own.group_id}-"


def _settings(worker: WorkerConfig) -> DistributedSettings:
    if worker.distributed is None:
        raise IllegalStateError("a standalone worker has no internal topics")
    return worker.distributed


def _internal_topic(
    topic: StorageTopic, setting: str, contents: str, *, single_partition: bool = False
) -> InternalTopic:  # fmt: skip
    partitions = 1 if single_partition else topic.partitions
    return InternalTopic(
        topic.name, partitions, topic.replication_factor, topic.configs, setting, contents, single_partition
    )  # fmt: skip


def _client(worker: WorkerConfig, name: str) -> dict[str, str]:
    given = worker.originals
    return {
        **_DEFAULTS,
        **client_settings_of(given),
        **{key: given[key] for key in _TAKEN_OVER if key in given},
        "bootstrap.servers": ",".join(worker.bootstrap_servers),
        "client.id": client_id_base(worker) + name,
    }


def _log(
    worker: WorkerConfig, topic: InternalTopic, name: str, *, committed: bool, leader: Mapping[str, str] | None = None
) -> TopicLogSettings:
    client = _client(worker, name)
    # No group is joined: the client requires a name, and this is one that the worker may use.
    consumer = {**client, "group.id": _settings(worker).group_id, **(READ_COMMITTED if committed else {})}
    producer = {**client, **_DELIVERY_TIMEOUT}
    return TopicLogSettings(topic, consumer, producer, _client(worker, "shared-admin"), leader)
