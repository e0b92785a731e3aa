"""The settings of a sink task's consumer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.worker.kafka.fake_clients import FakeConsumerClient
from worker.kafka import sink_consumer
from worker.kafka.sink_consumer import SinkConsumer
from worker.sink.rebalance import RebalanceCallbacks

JAVA = {"bootstrap.servers": "nowhere:1", "group.id": "connect-sink"}
STRATEGY = "partition.assignment.strategy"
EVEN = {STRATEGY: "roundrobin"}


@pytest.mark.parametrize(
    ("defaults", "configured", "strategy"),
    [
        ({}, {}, "range,roundrobin"),
        (EVEN, {}, "roundrobin"),
        (EVEN, {STRATEGY: "range"}, "range"),
        (EVEN, {"group.protocol": "consumer"}, None),
        ({}, {"group.protocol": "CONSUMER"}, None),
        ({"group.protocol": "consumer", **EVEN}, {}, None),
    ],
)
def test_the_assignment_strategy_is_the_users_or_the_connectors_unless_the_broker_assigns(
    monkeypatch: pytest.MonkeyPatch, defaults: dict[str, str], configured: dict[str, str], strategy: str | None
) -> None:
    given: list[Mapping[str, str]] = []

    def make_consumer(java: Mapping[str, str], **callbacks: Any) -> FakeConsumerClient:
        given.append(java)
        return FakeConsumerClient(java, **callbacks)

    monkeypatch.setattr(sink_consumer, "make_consumer", make_consumer)
    SinkConsumer({**JAVA, **configured}, RebalanceCallbacks(lambda: False), defaults)
    assert given[0].get(STRATEGY) == strategy
    assert given[0]["group.id"] == "connect-sink"
