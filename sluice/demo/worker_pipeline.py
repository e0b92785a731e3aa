"""The demo with Kafka: a worker's source writes to topics, and its sinks write the tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from connect.errors import ConnectError
from rest.client import ConnectClient
from sluice.demo.environment import CONNECTORS, SINKS, SOURCE, DemoEnvironment
from sluice.demo.pipeline import Pipeline, SnapshotProgress
from sluice.demo.shops.shop import TABLES

Tasks = list[dict[str, Any]]
"""The progress of a connector's tasks."""


class WorkerPipeline(Pipeline):
    """Its progress comes from the worker's REST API."""

    path = "Kafka"

    def __init__(self, environment: DemoEnvironment, client: ConnectClient) -> None:
        self._environment = environment
        self._client = client
        self._started = time.monotonic()

    def check(self) -> None:
        self._environment.check_worker()
        connectors = self._client.connectors_expanded("status")
        for name in CONNECTORS:
            status = connectors[name]["status"]
            failed = [found for found in (status["connector"], *status["tasks"]) if found["state"] == "FAILED"]
            if failed:
                first = str(failed[0].get("trace") or "").strip().splitlines()
                reason = first[0] if first else "no reason given"
                raise ConnectError(f"connector {name} failed: {reason}; log: {self._environment.worker_log}")

    def snapshot_progress(self) -> SnapshotProgress:
        source = _details(self._client.progress(SOURCE))
        sinks = self._sinks()
        delivered = sum(map(_delivered, sinks))
        rate = delivered / (time.monotonic() - self._started)
        note = (
            f"tables {source.get('tables_done', 0)}/{source.get('tables_total', len(TABLES))}, "
            f"{float(source.get('rows', 0)):,.0f} rows read, {delivered:,.0f} in tables, {rate:,.0f}/s"
        )
        is_complete = source.get("phase") == "streaming" and delivered >= self._environment.sizes.rows and _lag(sinks) == 0
        return SnapshotProgress(delivered, note, is_complete)

    def catch_up(self, events: int) -> Callable[[], bool]:
        shop = self._environment.shop
        log_end = shop.log_end()
        quiet = 0

        def is_caught_up() -> bool:
            nonlocal quiet
            # Several times in a row: records can be in flight between source and topic, and between topic and sink.
            is_read = shop.has_read(_details(self._client.progress(SOURCE)), log_end)
            quiet = quiet + 1 if is_read and _lag(self._sinks()) == 0 else 0
            return quiet == 3

        return is_caught_up

    def latency_ms(self) -> dict[str, float | None]:
        found = [_details(tasks).get("latency_ms") or {} for tasks in self._sinks()]
        merged = {q: max((f[q] for f in found if f.get(q) is not None), default=None) for q in ("p50", "p99")}
        return {q: None if v is None else round(v, 1) for q, v in merged.items()}

    def _sinks(self) -> list[Tasks]:
        return [self._client.progress(sink) for sink in SINKS]


def _delivered(tasks: Tasks) -> float:
    return float(sum(table.get("rows", 0) for table in _details(tasks).get("tables", {}).values()))


def _details(tasks: Tasks) -> dict[str, Any]:
    """Returns the progress details of a connector's first task; empty if there are none."""
    return dict(tasks[0]["details"]) if tasks else {}


def _lag(sinks: Sequence[Tasks]) -> int:
    """Returns the number of records in topics that are not in tables yet; 1 while a sink does not know its partitions."""
    lags = [task["lag"] for tasks in sinks for task in tasks]
    return sum(sum(lag.values()) for lag in lags) if all(lags) else 1
