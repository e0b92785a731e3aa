"""The topics of a sink task."""

from __future__ import annotations

import pytest

from connect import ConfigError
from worker.executors.task_factory import parse_subscription


def test_subscriptions() -> None:
    assert parse_subscription({"topics": "a, b"}, 1).topics == {"a", "b"}
    pattern = parse_subscription({"topics.regex": "a|b.*"}, 1).pattern
    assert pattern is not None
    assert pattern.fullmatch("bcd")
    for config in ({}, {"topics": "a", "topics.regex": "b"}, {"topics.regex": "("}):
        with pytest.raises(ConfigError):
            parse_subscription(config, 1)
