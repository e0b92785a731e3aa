"""Asks a broker for the identities of topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from confluent_kafka import KafkaError, KafkaException, TopicCollection

from connect.errors import UnreachableError
from connect.sink import TopicIdentity
from worker.kafka.clients import LastReport, kafka_error, make_admin
from worker.kafka.settings import client_settings_of

_TIMEOUT_S = 10.0
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""The zero UUID, which brokers without topic IDs (before 2.8) send."""
_UNKNOWN = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.TOPIC_EXCEPTION})


def describe_topic_identities(java: Mapping[str, str], topics: Collection[str]) -> dict[str, TopicIdentity]:
    """Returns the identities of the topics that exist. ``java`` are the settings of any client of the cluster.

    Opens its own client, and waits at most ten seconds for each of two answers. Raises ConnectError.
    """
    if not topics:
        return {}
    bootstrap = java["bootstrap.servers"]
    report = LastReport()
    admin = make_admin({**client_settings_of(java), "bootstrap.servers": bootstrap}, error_cb=report)
    doing = "asking for the topic IDs"
    try:
        # Unlike a request for the metadata of topics, this one creates no topic.
        cluster = admin.describe_cluster(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S + 1)
        described = admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=_TIMEOUT_S)
        found = {}
        for topic, future in described.items():
            try:
                description = future.result(_TIMEOUT_S + 1)
                topic_id = str(description.topic_id)
            except KafkaException as e:
                if e.args[0].code() in _UNKNOWN:
                    continue
                raise
            found[topic] = TopicIdentity(
                cluster.cluster_id or "-", "-" if topic_id == _NO_ID else topic_id, len(description.partitions)
            )
    except KafkaException as e:
        admin.poll(0)  # runs the client's callbacks
        raise kafka_error(e.args[0], doing, bootstrap, report.error) from e
    except TimeoutError as e:
        raise UnreachableError(f"{doing}: no Kafka broker answers at {bootstrap}") from e
    return found
