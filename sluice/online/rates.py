"""What connectors are doing now: states, records and bytes per second, and lag."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

from connect.errors import ConnectError, UnreachableError
from rest.client import ConnectClient

_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class ConnectorRates:
    """A connector at one moment. Figures are None if no worker tells, such as those of Apache Kafka Connect."""

    name: str
    type: str | None
    state: str
    running: int
    tasks: int
    failed: tuple[str, ...]
    """Numbers of failed tasks; ``connector`` for the connector itself."""
    records_per_s: float | None = None
    """None also at the first look."""
    bytes_per_s: float | None = None
    lag: int | None = None
    """Of sinks: records that wait in Kafka."""


@dataclass(frozen=True, slots=True)
class _Counts:
    at_s: float
    records: int
    bytes: int


def summary_of(name: str, found: Mapping[str, Any]) -> ConnectorRates:
    """Returns the states of ``status`` and ``info`` of a connector, as ``GET /connectors?expand=...`` has them. A worker leaves
    out what it does not know of a connector that is new or was just deleted."""
    status, info = found.get("status", {}), found.get("info", {})
    tasks, connector = status.get("tasks", []), status.get("connector", {})
    failed = ["connector"] if connector.get("state") == "FAILED" else []
    failed += [str(task["id"]) for task in tasks if task["state"] == "FAILED"]
    running = sum(task["state"] == "RUNNING" for task in tasks)
    kind = status.get("type") or info.get("type")
    return ConnectorRates(name, kind, connector.get("state", "UNKNOWN"), running, len(tasks), tuple(failed))


def _parts(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The statuses of a connector and its tasks."""
    return [*([status["connector"]] if "connector" in status else []), *status.get("tasks", [])]


class RateReader:
    """Looks at a cluster again and again. Use as a context manager; not thread-safe."""

    def __init__(self, client: ConnectClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._workers: dict[str, ConnectClient | None] = {}
        """By worker ID, which is its address; None for one that does not answer."""
        self._counts: dict[tuple[str, int], _Counts] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def read(
        self, choose: Callable[[Collection[str]], Collection[str]], limit: int | None = None, first: int = 0
    ) -> list[ConnectorRates]:
        """Returns the connectors that ``choose`` selects by name, failures first; figures only of ``limit`` from ``first`` on,
        or of the last ones if ``first`` is behind them. Raises the client's errors."""
        expanded = self._client.connectors_expanded("status", "info")
        self._workers = {worker: client for worker, client in self._workers.items() if client is not None}
        workers = {part["worker_id"] for one in expanded.values() for part in _parts(one.get("status", {}))}
        if len(workers) == 1:  # however its own address reads
            self._workers[workers.pop()] = self._client
        found = [(summary_of(name, expanded[name]), expanded[name]) for name in choose(expanded)]
        found.sort(key=lambda pair: (not pair[0].failed, pair[0].name))
        if limit is None:
            first, last = 0, len(found)
        else:
            first = max(0, min(first, len(found) - limit))
            last = first + limit
        return [self._with_figures(summary, one) if first <= at < last else summary for at, (summary, one) in enumerate(found)]

    def _with_figures(self, summary: ConnectorRates, found: Mapping[str, Any]) -> ConnectorRates:
        tasks = found.get("status", {}).get("tasks", [])
        figures = [
            one for worker in dict.fromkeys(task["worker_id"] for task in tasks) for one in self._progress(worker, summary)
        ]
        if not figures:
            return summary
        now = self._clock()
        records = size = 0.0
        knows_rate = False
        for one in figures:
            key, counts = (summary.name, int(one["id"])), _Counts(now, int(one["records"]), int(one["bytes"]))
            before, self._counts[key] = self._counts.get(key), counts
            # Counts start again with the task.
            if before is not None and counts.records >= before.records and now > before.at_s:
                knows_rate = True
                records += (counts.records - before.records) / (now - before.at_s)
                size += (counts.bytes - before.bytes) / (now - before.at_s)
        lags = [sum(one["lag"].values()) for one in figures if one.get("lag") is not None]
        return ConnectorRates(
            summary.name,
            summary.type,
            summary.state,
            summary.running,
            summary.tasks,
            summary.failed,
            records if knows_rate else None,
            size if knows_rate else None,
            sum(lags) if lags else None,
        )

    def _progress(self, worker_id: str, summary: ConnectorRates) -> list[dict[str, Any]]:
        """The figures of the tasks that run on one worker; none if it does not tell."""
        client = self._worker(worker_id)
        if client is None:
            return []
        try:
            return client.progress(summary.name)
        except UnreachableError:
            self._workers[worker_id] = None
            return []
        except ConnectError:  # Apache's workers have no such resource, and a connector may be gone
            return []

    def _worker(self, worker_id: str) -> ConnectClient | None:
        if worker_id not in self._workers:
            scheme, _, address = self._client.url.partition("://")
            is_own = address == worker_id
            try:
                client = self._client if is_own else self._client.at(f"{scheme}://{worker_id}", timeout_s=_TIMEOUT_S)
            except ConnectError:
                self._workers[worker_id] = None
                return None
            if not is_own:
                self._stack.callback(client.close)
            self._workers[worker_id] = client
        return self._workers[worker_id]
