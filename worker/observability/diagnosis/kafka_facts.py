"""Asks Kafka for what a diagnosis needs to know: topics, their records, and members of consumer groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from connect.errors import ConnectError
from worker.observability.diagnosis.snapshot import ConnectorSnapshot, KafkaFacts, TopicFacts

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_TIMEOUT_S = 4.0
_MAX_PARTITIONS = 1000
"""The number of partitions whose records are counted; more are left out."""


def read_kafka_facts(java: Mapping[str, str], connectors: Sequence[ConnectorSnapshot]) -> KafkaFacts:
    """Reads the facts for these connectors. ``java`` are the settings of a client, with Java's names. Blocks a few seconds at
    most for each request; an error is a fact too."""
    from confluent_kafka import KafkaException

    from worker.kafka.clients import LastReport, kafka_error, make_admin

    address, report = java["bootstrap.servers"], LastReport()
    try:
        admin = make_admin(dict(java), log_level="0", error_cb=report)
        try:
            topics = admin.list_topics(timeout=_TIMEOUT_S).topics
            sinks = [one for one in connectors if one.type == "sink" and not one.reads_other_cluster]
            partitions = {name: len(found.partitions) for name, found in topics.items()}
            records = _count_records(admin, _topics_of(sinks, partitions), partitions)
            found = {name: TopicFacts(count, records.get(name)) for name, count in partitions.items()}
            return KafkaFacts(found, _foreign_members(admin, [one for one in sinks if one.state == "RUNNING"]))
        except KafkaException as e:
            admin.poll(0)  # runs the client's callbacks
            raise kafka_error(e.args[0], "asking for topics and groups", address, report.error) from e
    except ConnectError as e:
        return KafkaFacts(error=e.message)
    except TimeoutError:
        return KafkaFacts(error=f"the brokers at {address} did not answer in time")


def _topics_of(sinks: Sequence[ConnectorSnapshot], known: Mapping[str, int]) -> list[str]:
    wanted: dict[str, None] = {}
    for one in sinks:
        wanted |= dict.fromkeys([*(one.topics_in(known) or ()), one.text("errors.deadletterqueue.topic.name")])
    return [name for name in wanted if name in known]


def _count_records(admin: AdminClient, topics: Sequence[str], partitions: Mapping[str, int]) -> dict[str, int]:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import OffsetSpec

    wanted: list[Any] = []
    counted = []
    for topic in topics:
        if len(wanted) + partitions[topic] <= _MAX_PARTITIONS:
            counted.append(topic)
            wanted += [TopicPartition(topic, number) for number in range(partitions[topic])]
    if not wanted:
        return {}
    requests = [
        (sign, admin.list_offsets(dict.fromkeys(wanted, spec), request_timeout=_TIMEOUT_S))
        for sign, spec in ((-1, OffsetSpec.earliest()), (1, OffsetSpec.latest()))
    ]
    records = dict.fromkeys(counted, 0)
    for sign, request in requests:
        for partition, future in request.items():
            records[partition.topic] += sign * future.result(_TIMEOUT_S + 1).offset
    return records


def _foreign_members(admin: AdminClient, sinks: Sequence[ConnectorSnapshot]) -> dict[str, list[str]]:
    """Looks at the groups with the default name; clients of tasks have known IDs unless the connector sets its own."""
    names = {
        f"connect-{one.name}": one.name
        for one in sinks
        if not one.config.get("consumer.override.group.id") and not one.config.get("consumer.override.client.id")
    }
    if not names:
        return {}
    # A group whose coordinator does not exist yet must not be described.
    known = {group.group_id for group in admin.list_consumer_groups(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S + 1).valid}
    wanted = [group for group in names if group in known]
    if not wanted:
        return {}
    foreign = {}
    for group, future in admin.describe_consumer_groups(wanted, request_timeout=_TIMEOUT_S).items():
        ids = [str(member.client_id) for member in future.result(_TIMEOUT_S + 1).members]
        if others := [one for one in ids if not one.startswith(f"connector-consumer-{names[group]}-")]:
            foreign[names[group]] = others
    return foreign
