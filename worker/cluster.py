"""The Kafka cluster that a worker works with: whether it answers, what its id is, what its groups have committed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from connect.errors import ConnectError
from worker.client_overrides import client_properties, sink_group
from worker.config import WorkerConfig
from worker.herder import OffsetEntry
from worker.kafka.settings import ClientKind

log = logging.getLogger(__name__)

_ASK_TIMEOUT_S = 5.0
_RETRY_S = 1.0
_NOTICE_EVERY = 15


class Cluster:
    """Asks the broker for its id in the background: REST answers meanwhile, and a worker that came first waits."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._stop = threading.Event()
        self._id: str | None = None
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="cluster-id", daemon=True)

    @property
    def cluster_id(self) -> str | None:
        """None until a broker has answered."""
        return self._id

    def start(self) -> None:
        self._thread.start()

    def wait_until_answered(self, timeout_s: float) -> bool:
        """Whether a broker has answered, within this time."""
        return self._answered.wait(timeout_s)

    def close(self) -> None:
        """Ends the background thread, within moments."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(_ASK_TIMEOUT_S + 1)

    def _ask(self) -> None:
        from confluent_kafka import KafkaException

        from worker.kafka.clients import make_admin

        address = ",".join(self._config.bootstrap_servers)
        try:
            java = client_properties(ClientKind.ADMIN, self._config, "worker", 0, {})
            admin = make_admin({**java, "client.id": "connect-worker"}, log_level="0")
        except ConnectError as e:
            log.error("No client for Kafka can be made from the worker's configuration: %s", e.message)
            return
        attempts = 0
        while not self._stop.is_set():
            try:
                self._id = admin.list_topics(timeout=_ASK_TIMEOUT_S if attempts else 1.0).cluster_id
            except KafkaException as e:
                if attempts % _NOTICE_EVERY == 0:
                    log.warning("No Kafka broker answers at %s (%s); waiting for one", address, e.args[0].name())
                attempts += 1
                self._stop.wait(_RETRY_S)
                continue
            log.info("Kafka cluster ID: %s", self._id)
            self._answered.set()
            return

    def sink_offsets(self, connector: str, config: Mapping[str, str]) -> list[OffsetEntry]:
        """What the connector's consumer group has committed. Raises ConnectError when no broker answers."""
        from worker.kafka.admin import KafkaAdmin
        from worker.kafka.settings import librdkafka_settings

        java = client_properties(ClientKind.ADMIN, self._config, connector, 0, config)
        java["client.id"] = f"connector-worker-adminclient-{connector}"
        group = config.get("consumer.override.group.id") or sink_group(connector)
        committed = KafkaAdmin(librdkafka_settings(ClientKind.ADMIN, java)).committed(group)
        return [_entry(topic, partition, offset) for (topic, partition), offset in sorted(committed.items())]


def _entry(topic: str, partition: int, offset: int) -> OffsetEntry:
    where: dict[str, Any] = {"kafka_partition": partition, "kafka_topic": topic}
    return OffsetEntry(where, {"kafka_offset": offset})
