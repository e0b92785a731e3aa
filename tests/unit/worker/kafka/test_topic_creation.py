"""The rules by which a source connector creates topics."""

from __future__ import annotations

import re

import pytest

from connect import ConfigError
from worker.kafka.topic_creation import topic_creation_rules


def test_no_topic_creation_keys_leave_topics_to_the_broker() -> None:
    assert topic_creation_rules({"topic": "x"}) is None


def test_the_first_group_that_matches_counts_and_inherits_from_default() -> None:
    rules = topic_creation_rules(
        {
            "topic.creation.groups": "big, logs",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "3",
            "topic.creation.default.retention.ms": "5",
            "topic.creation.big.include": "orders.*, .*big",
            "topic.creation.big.exclude": "orders_small",
            "topic.creation.big.partitions": "12",
            "topic.creation.logs.include": ".*",
            "topic.creation.logs.replication.factor": "-1",
            "topic.creation.logs.cleanup.policy": "compact",
        }
    )
    assert rules is not None
    big, small = rules.spec_for("orders_2"), rules.spec_for("orders_small")
    assert (big.partitions, big.replication_factor, big.configs) == (12, 3, {})
    assert (small.partitions, small.replication_factor, small.configs) == (1, -1, {"cleanup.policy": "compact"})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"topic.creation.default.partitions": "1"},
            'Missing required configuration "topic.creation.default.replication.factor"',
        ),
        (
            {"topic.creation.default.partitions": "0", "topic.creation.default.replication.factor": "1"},
            "Number of partitions must be positive, or -1",
        ),
    ],
)
def test_incomplete_or_wrong_topic_rules(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        topic_creation_rules(config)
