"""``/sluice/connectors/{connector}/logs``: recent log lines of a connector, from all workers. Not in Apache's worker."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from connect.errors import BadRequestError, ConnectError, NotFoundError
from rest.forwarding.peers import peers_of
from rest.requests import query_number
from rest.responses import json_response
from worker.herder import LogOperations
from worker.observability.log_lines import LogLine, line_json, matches
from worker.observability.loggers import LEVELS
from worker.observability.recent_logs import RecentLogs, recent_logs

MAX_LINES, MAX_WAIT_MS = 1000, 30_000
_MAX_WAITING = 100
"""Requests that wait at a time; others are answered at once."""
_ASK_EVERY_S = 1.0
"""How often other workers are asked while a request waits: they cannot notify this one."""
_UNAVAILABLE_FOR_S = 15.0
"""How long a worker that did not respond is not asked again."""

After = Annotated[str, Query(description="`next` of an earlier response; empty for the newest lines")]
Level = Annotated[str, Query(description="Lowest level: TRACE, DEBUG, INFO, WARN, ERROR, or FATAL")]
Scope = Annotated[str, Query(description="`cluster` or `worker`: lines of all workers, or of this one")]
Number = Annotated[str, Query(description="A whole number; empty for the default")]


@dataclass(frozen=True, slots=True)
class _LogQuery:
    """What a request asks for. The cursor has a position per worker: the start of its process, and the number of a line."""

    positions: Mapping[str, tuple[int, int]]
    limit: int
    level: str
    task: int | None
    since_ms: int

    @classmethod
    def parse(cls, after: str, limit: str, level: str, task: str, since_ms: str) -> _LogQuery:
        """Raises BadRequestError."""
        name = level.strip().upper() or "ALL"
        if name not in LEVELS:
            raise BadRequestError(f"The query parameter level is '{level}'; expected one of {', '.join(LEVELS)}")
        number = query_number("task", task, None)
        lines = query_number("limit", limit, 100, MAX_LINES)
        since = query_number("since_ms", since_ms, 0, 2**63)
        return cls(_parse_cursor(after), lines, name, number, since)

    def is_wanted(self, line: LogLine) -> bool:
        return matches(line, min_level=LEVELS[self.level], task=self.task, since_ms=self.since_ms)

    def for_worker(self, worker_id: str) -> dict[str, str]:
        """Returns the query for one other worker."""
        position = self.positions.get(worker_id)
        return {
            "scope": "worker",
            "after": "" if position is None else _cursor({worker_id: position}),
            "limit": str(self.limit),
            "level": self.level,
            "task": "" if self.task is None else str(self.task),
            "since_ms": str(self.since_ms),
        }


class _ClusterLogs:
    """Answers one server's requests. Used on its event loop only."""

    def __init__(self, herder: LogOperations, logs: RecentLogs) -> None:
        self._herder = herder
        self._logs = logs
        self._waiting = 0
        self._unavailable_until: dict[str, float] = {}

    async def read(self, request: Request, connector: str, query: _LogQuery, wait_s: float, *, cluster: bool) -> dict[str, Any]:
        """Returns the lines of this worker or of all; waits for the first one, up to the time."""
        others = self._herder.other_workers() if cluster else []
        answers = await self._read_all(request, connector, query, others)
        if (
            not any(answer["lines"] for answer in answers.values())
            and not self._logs.knows(connector)
            and connector not in self._herder.connectors()
            and not query.positions
        ):
            raise NotFoundError(f"Connector {connector} not found")
        if wait_s > 0 and self._waiting < _MAX_WAITING:
            self._waiting += 1
            try:
                answers = await self._wait(request, connector, query, wait_s, others, answers)
            finally:
                self._waiting -= 1
        lines = sorted((line for answer in answers.values() for line in answer["lines"]), key=lambda one: one["at_ms"])
        positions = {**query.positions}
        for answer in answers.values():
            positions |= _parse_cursor(answer["next"])
        return {
            "worker_id": self._herder.worker_id,
            "lines": lines,
            "next": _cursor(positions),
            "has_gap": any(answer["has_gap"] for answer in answers.values()),
            "unavailable": sorted(set(others) - set(answers)),
        }

    async def _wait(
        self,
        request: Request,
        connector: str,
        query: _LogQuery,
        wait_s: float,
        others: Sequence[str],
        answers: dict[str, dict[str, Any]],
    ) -> dict[str, dict[str, Any]]:
        deadline = time.monotonic() + wait_s
        changed, loop = asyncio.Event(), asyncio.get_running_loop()

        def notify() -> None:
            with suppress(RuntimeError):  # the server is shutting down
                loop.call_soon_threadsafe(changed.set)

        with self._logs.watch(connector, notify):
            while not any(answer["lines"] for answer in answers.values()):
                left_s = deadline - time.monotonic()
                # The first reading was before the watch began.
                answers = answers | {self._herder.worker_id: self._read_own(connector, query)}
                if left_s <= 0 or any(answer["lines"] for answer in answers.values()):
                    break
                try:
                    await asyncio.wait_for(changed.wait(), min(left_s, _ASK_EVERY_S) if others else left_s)
                except TimeoutError:
                    answers = await self._read_all(request, connector, query, others)
                changed.clear()
        return answers

    def _read_own(self, connector: str, query: _LogQuery) -> dict[str, Any]:
        started_ms, after = query.positions.get(self._herder.worker_id, (0, 0))
        is_same = started_ms == self._logs.started_ms
        # The numbers of another process of this worker say nothing here: all of its successor's lines are new.
        first = 0 if not started_ms else after if is_same and after else -1
        found = self._logs.read(connector, first, query.limit, query.is_wanted)
        own_id = self._herder.worker_id
        return {
            "lines": [line_json(seq, line, own_id) for seq, line in found.lines],
            "next": _cursor({own_id: (self._logs.started_ms, found.next_seq)}),
            "has_gap": found.has_gap or (not is_same and started_ms > 0),
        }

    async def _read_all(
        self, request: Request, connector: str, query: _LogQuery, others: Sequence[str]
    ) -> dict[str, dict[str, Any]]:
        asked = [self._ask(request, connector, worker_id, query) for worker_id in others]
        answers = dict(zip(others, await asyncio.gather(*asked), strict=True)) if asked else {}
        found = {worker_id: answer for worker_id, answer in answers.items() if answer is not None}
        return {self._herder.worker_id: self._read_own(connector, query), **found}

    async def _ask(self, request: Request, connector: str, worker_id: str, query: _LogQuery) -> dict[str, Any] | None:
        """Returns another worker's response; None if it does not respond: statuses also name workers that are gone."""
        if time.monotonic() < self._unavailable_until.get(worker_id, 0.0):
            return None
        try:
            path = f"/sluice/connectors/{quote(connector, safe='')}/logs?{urlencode(query.for_worker(worker_id))}"
            answer = await peers_of(request).ask(request, worker_id, path)
            _parse_cursor(answer["next"])
            return {"lines": list(answer["lines"]), "next": str(answer["next"]), "has_gap": bool(answer["has_gap"])}
        except NotFoundError:
            return {"lines": [], "next": "", "has_gap": False}
        except (ConnectError, KeyError, TypeError):
            self._unavailable_until[worker_id] = time.monotonic() + _UNAVAILABLE_FOR_S
            return None


def add_logs_routes(router: APIRouter, herder: LogOperations) -> None:
    """Adds the recent log lines of a connector."""
    logs = _ClusterLogs(herder, recent_logs())

    @router.get("/sluice/connectors/{connector}/logs", tags=["sluice"], summary="Recent log lines of a connector")
    async def read_logs(
        request: Request,
        connector: str,
        after: After = "",
        limit: Number = "",
        level: Level = "",
        task: Number = "",
        since_ms: Number = "",
        wait_ms: Number = "",
        scope: Scope = "cluster",
    ) -> Response:
        # On the event loop, not on a thread of a pool: such requests wait for long.
        if scope not in ("cluster", "worker"):
            raise BadRequestError(f"The query parameter scope is '{scope}'; expected cluster or worker")
        query = _LogQuery.parse(after, limit, level, task, since_ms)
        wait_s = query_number("wait_ms", wait_ms, 0, MAX_WAIT_MS) / 1000
        return json_response(await logs.read(request, connector, query, wait_s, cluster=scope == "cluster"))


def _cursor(positions: Mapping[str, tuple[int, int]]) -> str:
    return ",".join(f"{worker_id}@{started_ms}.{seq}" for worker_id, (started_ms, seq) in sorted(positions.items()))


_POSITION = re.compile(r"[0-9]{1,20}\.[0-9]{1,20}")


def _parse_cursor(text: str) -> dict[str, tuple[int, int]]:
    positions = {}
    for part in text.split(",") if text else ():
        worker_id, _, position = part.rpartition("@")
        started_ms, _, seq = position.partition(".")
        if not (worker_id and _POSITION.fullmatch(position)):
            raise BadRequestError(f"The query parameter after is '{text}'; expected next of an earlier response")
        positions[worker_id] = int(started_ms), int(seq)
    return positions
