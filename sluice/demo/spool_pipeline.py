"""The demo without Kafka: a Spark query reads the connector through a spool and writes the tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sluice.demo.environment import DemoEnvironment
from sluice.demo.pipeline import Pipeline, SnapshotProgress


class SpoolPipeline(Pipeline):
    """Its progress is in a file that the query's process writes."""

    path = "a spool"

    def __init__(self, environment: DemoEnvironment) -> None:
        self._environment = environment

    def check(self) -> None:
        self._environment.check_worker()

    def snapshot_progress(self) -> SnapshotProgress:
        found = self._progress()
        rows = float(sum(table["rows"] for table in found.get("tables", {}).values()))
        return SnapshotProgress(rows, f"{rows:,.0f} rows in tables", rows >= self._environment.sizes.rows)

    def catch_up(self, events: int) -> Callable[[], bool]:
        return lambda: bool(self._progress().get("events", 0) >= events)

    def latency_ms(self) -> dict[str, float | None]:
        found = self._progress().get("latency_ms") or {}
        return {q: None if found.get(q) is None else round(found[q], 1) for q in ("p50", "p99")}

    def _progress(self) -> dict[str, Any]:
        """Returns the last progress; empty before the query runs."""
        try:
            progress: dict[str, Any] = json.loads(self._environment.query_progress.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return progress
