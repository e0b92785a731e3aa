"""History records in a topic, as Debezium's KafkaSchemaHistory keeps them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from connect.errors import ConfigError
from connect.source import OwnedTopic, OwnedTopicSettings
from connectors.mysql.schema.history.settings import PREFIX

log = logging.getLogger(__name__)

_TOPIC: Final = PREFIX + "kafka.topic"
_BOOTSTRAP: Final = PREFIX + "kafka.bootstrap.servers"
_CONFIGS: Final = {"cleanup.policy": "delete", "retention.ms": str(2**63 - 1), "retention.bytes": "-1"}
_CLIENTS_ONLY: Final = ("key.serializer", "value.serializer", "key.deserializer", "value.deserializer")


class KafkaHistoryStore:
    """A topic with one partition and infinite retention. A record has no key; its value is one JSON document."""

    def __init__(self, topic: OwnedTopic, name: str, batch_size: int) -> None:
        self._topic = topic
        self._name = name
        self._batch_size = batch_size

    def storage_exists(self) -> bool:
        return self._topic.exists()

    def exists(self) -> bool:
        return not self._topic.is_empty()

    def initialize(self) -> None:
        self._topic.create(_CONFIGS)

    def append(self, records: Sequence[bytes]) -> None:
        for start in range(0, len(records), self._batch_size):
            self._topic.append(records[start : start + self._batch_size])

    def read(self) -> Iterator[bytes]:
        for record in self._topic.read():
            if record.value is None:
                log.warning("skipping record %d of schema history topic %s, which has no value", record.offset, self._name)
            else:
                yield record.value

    def close(self) -> None:
        self._topic.close()


def open_kafka_store(config: Mapping[str, str], open_topic: Callable[[str, OwnedTopicSettings], OwnedTopic]) -> KafkaHistoryStore:
    """Opens the topic of a connector's configuration. Raises ConfigError."""
    topic, bootstrap = config.get(_TOPIC, "").strip(), config.get(_BOOTSTRAP, "").strip()
    for key, value in ((_TOPIC, topic), (_BOOTSTRAP, bootstrap)):
        if not value:
            raise ConfigError.invalid(key, None, "A value is required")
    name = {"client.id": config[PREFIX + "name"]} if config.get(PREFIX + "name") else {}
    common = {"bootstrap.servers": bootstrap, **name}
    group = {"group.id": name["client.id"]} if name else {}
    attempts = _positive(config, PREFIX + "kafka.recovery.attempts", 100)
    interval_ms = _positive(config, PREFIX + "kafka.recovery.poll.interval.ms", 100)
    settings = OwnedTopicSettings(
        {**common, **group, **_client(config, PREFIX + "consumer.")},
        {**common, **_client(config, PREFIX + "producer.")},
        _positive(config, PREFIX + "kafka.query.timeout.ms", 3000) / 1000,
        _positive(config, PREFIX + "kafka.create.timeout.ms", 30_000) / 1000,
        attempts * interval_ms / 1000,
    )
    return KafkaHistoryStore(open_topic(topic, settings), topic, _positive(config, PREFIX + "kafka.buffer.batch.size", 1024))


def _client(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Returns a client's settings. Java's (de)serializers are left out: records are bytes here."""
    found = {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
    return {key: value for key, value in found.items() if key not in _CLIENTS_ONLY}


def _positive(config: Mapping[str, str], key: str, default: int) -> int:
    text = config.get(key, str(default)).strip()
    if not text.isdecimal() or int(text) == 0:
        raise ConfigError.invalid(key, text, "A positive integer is expected")
    return int(text)
