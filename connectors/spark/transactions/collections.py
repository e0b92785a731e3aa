"""Which topics have the events of a collection (a table of the source), as END events name it."""

from __future__ import annotations

import re

from connect.record import TopicPartition
from connectors.spark.transactions.events import MESSAGES

_OTHER = re.compile(r"[^A-Za-z0-9_.-]")


class CollectionTopics:
    """Learns collections from events; before the first one, a topic's name says which one it has."""

    def __init__(self, transaction_topic: str) -> None:
        self._prefix = transaction_topic[: transaction_topic.rfind(".") + 1]
        """What all topics of the source begin with: ``shop.`` of ``shop.transaction``."""
        self._partitions: dict[str, list[TopicPartition]] = {}
        self._known: dict[str, set[str]] = {}
        self._renamed: set[str] = set()
        """Topics with events of collections that their names do not say."""
        self._absent: set[str] = set()
        self._found: dict[str, list[TopicPartition]] = {}

    def assign(self, partition: TopicPartition) -> None:
        """The task reads this partition."""
        listed = self._partitions.setdefault(partition.topic, [])
        if partition not in listed:
            listed.append(partition)
        self._found.clear()

    def remove(self, partition: TopicPartition) -> None:
        """The partition has another owner."""
        self._partitions[partition.topic].remove(partition)
        if not self._partitions[partition.topic]:
            del self._partitions[partition.topic]
        self._found.clear()

    def learn(self, topic: str, collections: tuple[str, ...]) -> None:
        """An event of this topic belongs to the collection with these names."""
        known = self._known.setdefault(topic, set())
        if not known.issuperset(collections):
            known.update(collections)
            if not any(self._is_named_after(topic, collection) for collection in collections):
                self._renamed.add(topic)
            self._absent.difference_update(collections)
            self._found.clear()

    def has_no(self, collection: str) -> None:
        """No events of a collection came where they could have come; they are not waited for again, until one comes."""
        if not any(collection in known for known in self._known.values()):
            self._absent.add(collection)
            self._found.clear()

    def partitions_of(self, collection: str) -> list[TopicPartition]:
        """The partitions that may have events of the collection; none if its topic is not read."""
        if collection not in self._found:
            topics = {topic for topic in self._partitions if collection in self._known.get(topic, ())}
            topics |= {topic for topic in self._partitions if self._is_named_after(topic, collection)}
            if not topics and collection not in self._absent:
                topics = {topic for topic in self._partitions if self._may_have_any(topic)}
            self._found[collection] = [tp for topic in sorted(topics) for tp in self._partitions[topic]]
        return self._found[collection]

    def _is_named_after(self, topic: str, collection: str) -> bool:
        return topic == self._prefix + ("message" if collection == MESSAGES else _OTHER.sub("_", collection))

    def _may_have_any(self, topic: str) -> bool:
        """Whether a transformation of the source has, or may have, renamed the topic."""
        return topic in self._renamed or (topic not in self._known and not topic.startswith(self._prefix))
