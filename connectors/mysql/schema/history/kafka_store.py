"""History records in a topic, as Debezium's KafkaSchemaHistory keeps them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.source import OwnedTopic, OwnedTopicSettings
from connectors.mysql.history_keys import PREFIX, HistorySettings

log = logging.getLogger(__name__)

_CONFIGS: Final = {"cleanup.policy": "delete", "retention.ms": str(2**63 - 1), "retention.bytes": "-1"}


_DELIVERY_TIMEOUT: Final = "delivery.timeout.ms"
_APPEND_TIMEOUT_MS: Final = "30000"


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


def open_kafka_store(history: HistorySettings, open_topic: Callable[[str, OwnedTopicSettings], OwnedTopic]) -> KafkaHistoryStore:
    """Opens the topic of the history. Raises ConfigError for settings that cannot work."""
    common = {"client.id": history.client_name, "bootstrap.servers": history.bootstrap_servers}
    client = {name: value for name, value in common.items() if value is not None}
    group = {} if history.client_name is None else {"group.id": history.client_name}
    settings = OwnedTopicSettings(
        {**client, **group, **history.consumer},
        {**client, **history.producer},
        history.query_timeout_s,
        history.create_timeout_s,
        max(1, history.recovery_attempts) * history.recovery_poll_s,
        _append_timeout_s(history),
    )
    return KafkaHistoryStore(open_topic(history.topic, settings), history.topic, history.batch_size)


def _append_timeout_s(history: HistorySettings) -> float:
    text = history.producer.get(_DELIVERY_TIMEOUT, _APPEND_TIMEOUT_MS)
    return int(parse_value(f"{PREFIX}producer.{_DELIVERY_TIMEOUT}", text, ConfigType.INT)) / 1000
