"""Checks whether a Kafka broker answers, when somebody asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING

from connect.errors import ConnectError
from worker.kafka.settings import client_settings_of
from worker.model import HealthCheck

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_TIMEOUT_S = 2.0
_VALID_S = 5.0
"""How long an answer is used, so that many probes cost one request."""


class BrokerProbe:
    """Safe from any thread. Its client is created by the first check: a worker that nobody probes has none."""

    def __init__(self, bootstrap_servers: Sequence[str], originals: Mapping[str, str]) -> None:
        """``originals`` are the worker's properties."""
        self._address = ",".join(bootstrap_servers)
        self._originals = originals
        self._lock = threading.Lock()
        self._admin: AdminClient | None = None
        self._known: HealthCheck | None = None
        self._known_at = 0.0
        self._closed = False

    def check(self) -> HealthCheck:
        """Waits two seconds at most. Concurrent checks share one request."""
        with self._lock:
            if self._known is None or time.monotonic() - self._known_at > _VALID_S:
                self._known, self._known_at = self._ask(), time.monotonic()
            return self._known

    def _ask(self) -> HealthCheck:
        from confluent_kafka import KafkaException

        from worker.kafka.clients import kafka_error, make_admin

        what = "Asking for the cluster"
        if self._closed:
            return HealthCheck("broker", False, "the worker is shutting down")
        try:
            if self._admin is None:
                java = {**client_settings_of(self._originals), "bootstrap.servers": self._address, "client.id": "connect-probe"}
                self._admin = make_admin(java, log_level="0")
            self._admin.describe_cluster(request_timeout=_TIMEOUT_S).result(_TIMEOUT_S)
        except KafkaException as e:
            return HealthCheck("broker", False, kafka_error(e.args[0], what, self._address).message)
        except FutureTimeout:
            return HealthCheck("broker", False, f"{what}: no Kafka broker answers at {self._address} within {_TIMEOUT_S:g} s")
        except ConnectError as e:
            return HealthCheck("broker", False, e.message)
        return HealthCheck("broker", True, "answers")

    def close(self) -> None:
        """Ends the client. May be called twice."""
        with self._lock:
            self._closed, self._admin = True, None
