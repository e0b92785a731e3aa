"""The topics that a source task keeps, over the task's life."""

from __future__ import annotations

from collections.abc import Callable

from connect.source import OwnedTopic, OwnedTopicSettings
from worker.kafka.owned_topic import KafkaOwnedTopic


class OwnedTopics:
    """Opens a task's topics, handles their clients' reports, and closes those that are left open. For the task's thread."""

    def __init__(self, complete: Callable[[str, OwnedTopicSettings], OwnedTopicSettings]) -> None:
        """``complete`` returns the settings of a topic with ``bootstrap.servers``. It may raise ConfigError."""
        self._complete = complete
        self._topics: list[KafkaOwnedTopic] = []

    def open(self, topic: str, settings: OwnedTopicSettings) -> OwnedTopic:
        opened = KafkaOwnedTopic(topic, self._complete(topic, settings))
        self._topics.append(opened)
        return opened

    def serve(self) -> None:
        """Handles what clients report, without waiting: reports would pile up while nothing is written."""
        for topic in self._topics:
            topic.serve()

    def close(self) -> None:
        topics, self._topics = self._topics, []
        for topic in topics:
            topic.close()
