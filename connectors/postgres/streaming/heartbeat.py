"""Heartbeat records, which show that the source is alive and carry its position."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from connect.data.struct import Struct
from connect.errors import ConnectError
from connect.record import SourceRecord
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection
from connectors.postgres.errors import ConnectionLostError
from connectors.postgres.offsets import source_partition
from connectors.postgres.schema import envelope as env

log = logging.getLogger(__name__)


class Heartbeat:
    """Plans heartbeats every ``heartbeat.interval.ms``; none if that is 0. ``clock`` returns seconds."""

    def __init__(
        self, settings: PostgresConfig, connect: Callable[[], Connection], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._connect = connect
        self._clock = clock
        self._next = clock() + settings.heartbeat_interval_s

    def limit_wait_s(self, seconds: float) -> float:
        """The time to wait for changes, at most until the next heartbeat."""
        return min(seconds, max(0.0, self._next - self._clock())) if self._settings.heartbeat_interval_s else seconds

    @property
    def is_due(self) -> bool:
        return self._settings.heartbeat_interval_s > 0 and self._clock() >= self._next

    def beat(self, offset: Mapping[str, Any]) -> SourceRecord:
        """Runs heartbeat.action.query and returns the record. Raises ConnectionLostError."""
        settings = self._settings
        self._next = self._clock() + settings.heartbeat_interval_s
        if settings.heartbeat_query:
            try:
                self._connect().execute(settings.heartbeat_query)
            except ConnectionLostError:
                raise
            except ConnectError as e:
                log.warning("heartbeat.action.query failed: %s", e.message)
        return SourceRecord(
            source_partition(settings.topic_prefix),
            offset,
            settings.heartbeat_topic,
            0,
            env.HEARTBEAT_KEY,
            Struct(env.HEARTBEAT_KEY, [settings.topic_prefix]),
            env.HEARTBEAT_VALUE,
            Struct(env.HEARTBEAT_VALUE, [time.time_ns() // 1_000_000]),
        )
