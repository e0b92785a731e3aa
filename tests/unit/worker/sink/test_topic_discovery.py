"""The topics of a sink task."""

from __future__ import annotations

import re
from typing import cast

import pytest

from connect import ConfigError
from tests.unit.worker.kafka.fake_clients import FakeConsumerClient
from tests.unit.worker.sink.sink_rig import CONSUMER, TASK_ID
from worker.kafka import sink_consumer
from worker.kafka.sink_consumer import SinkConsumer
from worker.sink.rebalance import RebalanceCallbacks
from worker.sink.topic_discovery import Subscription, TopicDiscovery, parse_subscription


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> SinkConsumer:
    monkeypatch.setattr(sink_consumer, "make_consumer", FakeConsumerClient)
    return SinkConsumer(CONSUMER, RebalanceCallbacks(lambda: False))


def client_of(consumer: SinkConsumer) -> FakeConsumerClient:
    return cast(FakeConsumerClient, consumer._consumer)


def test_a_subscription_is_parsed_from_topics_or_a_pattern() -> None:
    assert parse_subscription({"topics": "a, b"}, 1).topics == {"a", "b"}
    pattern = parse_subscription({"topics.regex": "a|b.*"}, 1).pattern
    assert pattern is not None
    assert pattern.fullmatch("bcd")
    for config in ({}, {"topics": "a", "topics.regex": "b"}, {"topics.regex": "("}):
        with pytest.raises(ConfigError):
            parse_subscription(config, 1)


def test_named_topics_are_subscribed_at_once_and_not_looked_for(consumer: SinkConsumer) -> None:
    discovery = TopicDiscovery(TASK_ID, consumer, Subscription(frozenset({"b", "a"}), None, 60))
    discovery.start()
    discovery.look_for_topics()
    assert client_of(consumer).events == [("subscribe", "a", "b")]
    assert discovery.next_look is None


def test_missing_topics_are_looked_for_until_they_exist(consumer: SinkConsumer) -> None:
    discovery = TopicDiscovery(TASK_ID, consumer, Subscription(frozenset({"a"}), None, 60))
    discovery.start()
    consumer.missing = {"a"}
    assert discovery.next_look == 0.0
    discovery.look_for_topics()
    assert discovery.next_look is not None
    assert discovery.next_look > 0
    client_of(consumer).topics = {"a": None}
    consumer.existing_topics()
    assert discovery.next_look is None


def test_topics_that_match_the_pattern_are_subscribed_when_they_appear(consumer: SinkConsumer) -> None:
    discovery = TopicDiscovery(TASK_ID, consumer, Subscription(frozenset(), re.compile("a.*"), 0))
    discovery.start()
    client = client_of(consumer)
    discovery.look_for_topics()
    assert client.events == []  # no topic matches
    client.topics = {"a1": None, "b": None, "__consumer_offsets": None}
    discovery.look_for_topics()
    discovery.look_for_topics()
    client.topics = {"a1": None, "a2": None}
    discovery.look_for_topics()
    assert client.events == [("subscribe", "a1"), ("subscribe", "a1", "a2")]


def test_the_pattern_is_looked_up_once_per_interval(consumer: SinkConsumer) -> None:
    discovery = TopicDiscovery(TASK_ID, consumer, Subscription(frozenset(), re.compile("a.*"), 60))
    client_of(consumer).topics = {"a1": None}
    discovery.look_for_topics()
    client_of(consumer).topics = {"a1": None, "a2": None}
    discovery.look_for_topics()
    assert client_of(consumer).events == [("subscribe", "a1")]
