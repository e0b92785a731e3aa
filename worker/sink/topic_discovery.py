"""The topics that a sink task subscribes to."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from connect.errors import ConfigError
from connect.java.regex import RegexError, compile_java_regex
from worker.kafka.sink_consumer import INTERNAL_TOPICS, SinkConsumer
from worker.model import TaskId

log = logging.getLogger(__name__)

_MISSING_TOPICS_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics of a sink: names, or a pattern whose matches are looked up periodically."""

    topics: frozenset[str]
    pattern: re.Pattern[str] | None
    refresh_s: float
    """How often to look for topics that match the pattern."""

    def has(self, topic: str) -> bool:
        """Whether it names this topic. A pattern matches none of Kafka's internal ones."""
        if self.pattern is None:
            return topic in self.topics
        return topic not in INTERNAL_TOPICS and self.pattern.fullmatch(topic) is not None


def parse_subscription(config: Mapping[str, str], refresh_s: float) -> Subscription:
    """Reads a sink's ``topics`` or ``topics.regex``. Raises ConfigError."""
    topics = frozenset(part.strip() for part in config.get("topics", "").split(",") if part.strip())
    regex = config.get("topics.regex", "").strip()
    if bool(topics) == bool(regex):
        raise ConfigError("Must configure one of topics or topics.regex", key="topics")
    try:
        return Subscription(topics, compile_java_regex(regex) if regex else None, refresh_s)
    except RegexError as e:
        raise ConfigError.invalid("topics.regex", regex, f"not a regular expression: {e}") from e


class TopicDiscovery:
    """Subscribes the consumer, and looks for topics that match the pattern or did not exist. Used on the task's thread."""

    def __init__(self, task_id: TaskId, consumer: SinkConsumer, subscription: Subscription) -> None:
        self._task_id = task_id
        self._consumer = consumer
        self._subscription = subscription
        self._subscribed: set[str] = set()
        self._next_look = 0.0

    def start(self) -> None:
        """Subscribes to the named topics. Those that match a pattern follow with :meth:`look_for_topics`."""
        if self._subscription.pattern is None:
            self._subscribe(set(self._subscription.topics))

    @property
    def next_look(self) -> float | None:
        """``time.monotonic()`` when topics must be looked for again; None if they need not."""
        return self._next_look if self._subscription.pattern is not None or self._consumer.missing else None

    def look_for_topics(self) -> None:
        """Asks for topics if it is time: new ones that match the pattern, and, more often, missing ones. (The client by itself
        would ask again after ``metadata.max.age.ms``.)"""
        subscription = self._subscription
        if time.monotonic() < self._next_look or (subscription.pattern is None and not self._consumer.missing):
            return
        existing = self._consumer.existing_topics()
        if existing and subscription.pattern is not None:
            found = {name for name in existing if subscription.has(name)}
            if found and found != self._subscribed:
                log.info("Task %s subscribes to topics %s", self._task_id, ", ".join(sorted(found)))
                self._subscribe(found)
        is_waiting = not self._subscribed or self._consumer.missing
        interval_s = min(subscription.refresh_s, _MISSING_TOPICS_INTERVAL_S) if is_waiting else subscription.refresh_s
        self._next_look = time.monotonic() + interval_s

    def _subscribe(self, topics: set[str]) -> None:
        self._subscribed = topics
        self._consumer.subscribe(topics)
