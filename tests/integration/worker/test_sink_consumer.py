"""What a sink task's consumer learns from a real broker about topics, and how members share them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewTopic

from connect.errors import UnreachableError
from connect.record import TopicPartition
from connectors.spark.connector import SparkSink
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.worker.conftest import Worker
from tests.support.waiting import WAIT_S, eventually
from worker.kafka.sink_consumer import PartitionStarts, SinkConsumer
from worker.kafka.topic_identities import describe_topic_identities

Name = Callable[[str], str]


class Assignment:
    """A rebalance listener that remembers the assigned partitions."""

    def __init__(self) -> None:
        self.partitions: set[TopicPartition] = set()

    def on_assigned(self, partitions: list[TopicPartition]) -> PartitionStarts:
        self.partitions |= set(partitions)
        return PartitionStarts({}, [])

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self.partitions -= set(partitions)

    on_lost = on_revoked

    def on_committed(self, offsets: object, error: object) -> None: ...


@pytest.fixture
def join(broker: EmbeddedBroker, unique_name: Name) -> Iterator[Callable[[], tuple[SinkConsumer, Assignment]]]:
    """Creates members of one group."""
    group = unique_name("group")
    members: list[SinkConsumer] = []

    def create() -> tuple[SinkConsumer, Assignment]:
        listener = Assignment()
        java = {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        members.append(SinkConsumer(java, listener, SparkSink.consumer_defaults))
        return members[-1], listener

    yield create
    for member in members:
        member.close()


def test_a_recreated_topic_has_another_identity(
    broker: EmbeddedBroker, unique_name: Name, join: Callable[[], tuple[SinkConsumer, Assignment]]
) -> None:
    topic, consumer = unique_name("topic"), join()[0]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    found = []
    for _ in range(2):
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(WAIT_S)
        eventually(lambda: topic in consumer.topic_identities([topic]), "the topic")
        found.append(consumer.topic_identities([topic, unique_name("missing")]))
        admin.delete_topics([topic])[topic].result(WAIT_S)
        eventually(lambda: consumer.topic_identities([topic]) == {}, "the topic's deletion")
    first, second = (one[topic] for one in found)
    assert [list(one) for one in found] == [[topic], [topic]]
    assert first.cluster_id == second.cluster_id == admin.list_topics(timeout=WAIT_S).cluster_id
    assert "-" not in (first.cluster_id, first.topic_id, second.topic_id)
    assert first.topic_id != second.topic_id
    assert consumer.topic_identities([]) == {}


def test_a_broker_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.kafka.topic_identities._TIMEOUT_S", 0.2)
    with pytest.raises(UnreachableError, match=r"no Kafka broker answers at 127\.0\.0\.1:1 "):
        describe_topic_identities({"bootstrap.servers": "127.0.0.1:1"}, ["t"])


def test_the_beginning_of_a_partition_is_its_first_remaining_record(
    worker: Worker, unique_name: Name, join: Callable[[], tuple[SinkConsumer, Assignment]]
) -> None:
    topic, consumer = unique_name("topic"), join()[0]
    worker.produce(topic, [str(i) for i in range(10)])
    partition = TopicPartition(topic, 0)
    assert consumer.beginning_offset(partition) == 0
    admin = AdminClient({"bootstrap.servers": worker.bootstrap})
    for deleted in admin.delete_records([ClientPartition(topic, 0, 4)]).values():
        deleted.result(WAIT_S)
    assert consumer.beginning_offset(partition) == 4
    assert consumer.end_offset(partition, cached=False) == 10
    assert consumer.beginning_offset(TopicPartition(unique_name("missing"), 0), timeout_s=1) is None


def test_tasks_of_the_spark_sink_share_topics_with_one_partition(
    broker: EmbeddedBroker, unique_name: Name, join: Callable[[], tuple[SinkConsumer, Assignment]]
) -> None:
    topics = sorted(unique_name("topic") for _ in range(4))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for created in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        created.result(WAIT_S)
    members = [join() for _ in range(2)]
    for consumer, _ in members:
        consumer.subscribe(topics)

    def is_shared() -> bool:
        for consumer, _ in members:
            consumer.take(10, 0.05)
        return [len(listener.partitions) for _, listener in members] == [2, 2]

    eventually(is_shared, "two topics for each task")
