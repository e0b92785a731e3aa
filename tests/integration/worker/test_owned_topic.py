"""A topic that a task keeps, on a real broker: created, written, read again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakSet

import pytest
from confluent_kafka.admin import AdminClient

from connect.errors import ConnectError
from connect.source import OwnedTopicSettings
from connectors.mysql.history_keys import HistorySettings
from connectors.mysql.schema.ddl import DdlContext, apply
from connectors.mysql.schema.history.history import SchemaHistory, open_store
from connectors.mysql.schema.model import TableId
from sluice.embedded.broker import EmbeddedBroker
from tests.support.waiting import WAIT_S, eventually
from worker.kafka import clients, internal_topics, topic_creator
from worker.kafka.admin import KafkaAdmin
from worker.kafka.internal_topics import InternalTopics
from worker.kafka.owned_topic import KafkaOwnedTopic


def opened(bootstrap: str, topic: str) -> KafkaOwnedTopic:
    client = {"bootstrap.servers": bootstrap}
    return KafkaOwnedTopic(topic, OwnedTopicSettings(client, client, query_timeout_s=WAIT_S))


def test_topic_is_created_once_with_one_partition_and_the_configs(
    broker: EmbeddedBroker, unique_name: Callable[[str], str]
) -> None:
    name = unique_name("owned")
    topic = opened(broker.bootstrap, name)
    try:
        assert (topic.exists(), topic.is_empty(), list(topic.read())) == (False, True, [])
        topic.create({"retention.ms": "9223372036854775807", "cleanup.policy": "delete"})
        topic.create({})
        assert (topic.exists(), topic.is_empty()) == (True, True)
        found = KafkaAdmin({"bootstrap.servers": broker.bootstrap}).describe_topic(name)
        assert len(found.partitions) == 1
        assert found.configs["retention.ms"] == "9223372036854775807"
        topic.append([b"1", b"2"])
        topic.append([b"3"])
        assert [(r.offset, r.key, r.value) for r in topic.read()] == [(0, None, b"1"), (1, None, b"2"), (2, None, b"3")]
        assert not topic.is_empty()
    finally:
        topic.close()


def test_topic_with_more_partitions_is_refused(broker: EmbeddedBroker, unique_name: Callable[[str], str]) -> None:
    name = unique_name("wide")
    KafkaAdmin({"bootstrap.servers": broker.bootstrap}).create_topic(name, 2, 1, {})
    admin = InternalTopics({"bootstrap.servers": broker.bootstrap})
    eventually(lambda: admin.count_partitions(name) is not None, "the topic: brokers show it a little later")
    topic = opened(broker.bootstrap, name)
    try:
        with pytest.raises(ConnectError, match=f"topic {name} has 2 partitions; expected one"):
            list(topic.read())
    finally:
        topic.close()


def test_one_client_looks_up_and_creates_the_topic_until_the_task_has_started(
    broker: EmbeddedBroker, unique_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    admins: WeakSet[AdminClient] = WeakSet()
    made = list[None]()

    def make_admin(java: Mapping[str, str], **more: Any) -> AdminClient:
        made.append(None)
        admins.add(client := clients.make_admin(java, **more))
        return client

    for module in (internal_topics, topic_creator):
        monkeypatch.setattr(module, "make_admin", make_admin)
    topic = opened(broker.bootstrap, unique_name("owned"))
    try:
        assert not topic.exists()
        topic.create({})
        assert (topic.exists(), topic.is_empty(), list(topic.read())) == (True, True, [])
        assert len(made) == 1
        topic.append([b"1"])
        topic.serve()
        assert not admins
        assert not topic.is_empty()
        assert len(made) == 2
    finally:
        topic.close()
    assert not admins


def test_schema_history_is_recovered_from_its_topic(broker: EmbeddedBroker, unique_name: Callable[[str], str]) -> None:
    settings = HistorySettings(topic=unique_name("history"), bootstrap_servers=broker.bootstrap, query_timeout_s=WAIT_S)

    def history() -> SchemaHistory:
        return SchemaHistory(open_store(settings, KafkaOwnedTopic), {"server": "shop"}, settings)

    first = history()
    first.initialize_storage()
    assert not first.exists()
    ddl = "CREATE TABLE t (a INT)"
    first.record({"file": "b.000001", "pos": 4}, "d", ddl, apply({}, ddl, "d"), ts_ms=1)
    first.close()
    second = history()
    assert second.exists()
    recovered = second.recover({"file": "b.000001", "pos": 4}, DdlContext(is_mariadb=True))
    assert list(recovered.tables) == [TableId("d", "t")]
    second.close()
