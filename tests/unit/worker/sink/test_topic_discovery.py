"""The topics of a sink task."""

from __future__ import annotations

import pytest

from connect import ConfigError
from worker.executors.task_factory import subscription_of


def test_subscriptions() -> None:
    assert subscription_of({"topics": "a, b"}, 1).topics == {"a", "b"}
    pattern = subscription_of({"topics.regex": "a|b.*"}, 1).pattern
    assert pattern is not None
    assert pattern.fullmatch("bcd")
    for config in ({}, {"topics": "a", "topics.regex": "b"}, {"topics.regex": "("}):
        with pytest.raises(ConfigError):
            subscription_of(config, 1)
