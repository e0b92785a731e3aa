"""The Kafka cluster of a worker: whether it is available, and its ID."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

from connect.errors import ConnectError
from worker.kafka.settings import client_settings_of

log = logging.getLogger(__name__)

# The client keeps connecting between two requests, so short ones lose nothing and a stop need not wait long.
_ASK_TIMEOUT_S = 1.0
_RETRY_S = 1.0
_NOTICE_EVERY = 45


class Cluster:
    """Requests the cluster ID in the background: meanwhile REST responds, and a worker that started before its broker waits."""

    def __init__(self, bootstrap_servers: Sequence[str], originals: Mapping[str, str]) -> None:
        """``originals`` are the worker's properties."""
        self._bootstrap_servers = bootstrap_servers
        self._originals = originals
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
        """Waits at most this long; returns whether a broker has answered."""
        return self._answered.wait(timeout_s)

    def close(self) -> None:
        """Stops the background thread quickly."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(_ASK_TIMEOUT_S + 1)

    def _ask(self) -> None:
        from confluent_kafka import KafkaException

        from worker.kafka.clients import LastReport, kafka_error, make_admin

        address = ",".join(self._bootstrap_servers)
        # The worker's own settings: those with the prefix admin. are for connectors, whose principals may differ.
        java = {**client_settings_of(self._originals), "bootstrap.servers": address, "client.id": "connect-worker"}
        report = LastReport()
        try:
            admin = make_admin(java, log_level="0", error_cb=report)
        except ConnectError as e:
            log.error("Cannot create a Kafka client from the worker's configuration: %s", e.message)
            return
        attempts = 0
        while not self._stop.is_set():
            try:
                self._id = admin.list_topics(timeout=_ASK_TIMEOUT_S).cluster_id
            except KafkaException as e:
                if attempts % _NOTICE_EVERY == 0:
                    admin.poll(0)  # runs the client's callbacks
                    error = kafka_error(e.args[0], "Asking for the cluster's id", address, report.error)
                    log.warning("%s; trying again until it works", error.message)
                attempts += 1
                self._stop.wait(_RETRY_S)
                continue
            log.info("Kafka cluster ID: %s", self._id)
            self._answered.set()
            return
