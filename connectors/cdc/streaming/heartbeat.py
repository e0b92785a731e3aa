"""Heartbeat records, which show that the source is alive and carry its position."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from connect.data.struct import Struct
from connect.errors import ConnectError
from connect.record import SourceRecord
from connectors.cdc.errors import ConnectionLostError
from connectors.cdc.offsets import source_partition
from connectors.cdc.schema import envelope as env

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """``interval_s`` is 0 for no heartbeats. ``query`` is SQL to run with each."""

    interval_s: float
    topic: str
    query: str | None


class Heartbeat:
    """Plans heartbeats every ``heartbeat.interval.ms``; none if that is 0. ``clock`` returns seconds."""

    def __init__(
        self,
        settings: HeartbeatSettings,
        topic_prefix: str,
        run_query: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``run_query`` runs heartbeat.action.query."""
        self._settings = settings
        self._topic_prefix = topic_prefix
        self._run_query = run_query
        self._clock = clock
        self._next = clock() + settings.interval_s

    def limit_wait_s(self, seconds: float) -> float:
        """The time to wait for changes, at most until the next heartbeat."""
        return min(seconds, max(0.0, self._next - self._clock())) if self._settings.interval_s else seconds

    @property
    def is_due(self) -> bool:
        return self._settings.interval_s > 0 and self._clock() >= self._next

    def beat(self, offset: Mapping[str, Any]) -> SourceRecord:
        """Runs heartbeat.action.query and returns the record. Raises ConnectionLostError."""
        settings = self._settings
        self._next = self._clock() + settings.interval_s
        if settings.query:
            try:
                self._run_query(settings.query)
            except ConnectionLostError:
                raise
            except ConnectError as e:
                log.warning("heartbeat.action.query failed: %s", e.message)
        return SourceRecord(
            source_partition(self._topic_prefix),
            offset,
            settings.topic,
            0,
            env.HEARTBEAT_KEY,
            Struct(env.HEARTBEAT_KEY, [self._topic_prefix]),
            env.HEARTBEAT_VALUE,
            Struct(env.HEARTBEAT_VALUE, [time.time_ns() // 1_000_000]),
        )
