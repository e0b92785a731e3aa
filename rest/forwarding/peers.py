"""Asks the other workers of a cluster for their part of an answer."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request

from connect.errors import ConnectError
from rest.forwarding.worker_client import WorkerClient, WorkerResponse
from rest.server.thread_pools import RequestKind, ThreadPools

log = logging.getLogger(__name__)

PEER_TIMEOUT_S = 5.0
_HEADERS = ("authorization",)
"""Workers of a cluster have the same users."""


@dataclass(frozen=True, slots=True)
class PeerAnswers:
    """The JSON answers by worker ID, and the workers that did not answer."""

    found: Mapping[str, Any]
    missing: list[str]


class Peers:
    """Sends one GET to several workers at once. Safe from any thread."""

    def __init__(self, worker_client: WorkerClient, scheme: str, pools: ThreadPools) -> None:
        """``scheme`` is that of the addresses in worker IDs."""
        self._worker_client = worker_client
        self._scheme = scheme
        self._pools = pools

    def get(self, request: Request, worker_ids: Collection[str], path: str, timeout_s: float = PEER_TIMEOUT_S) -> PeerAnswers:
        """Blocks until all have answered, ``timeout_s`` at most. ``path`` is encoded and includes the query. A worker that is
        unreachable, slow, or answers with an error is missing from the answers."""
        headers = {name: value for name in _HEADERS if (value := request.headers.get(name)) is not None}
        asked: dict[str, Future[WorkerResponse]] = {}
        for worker_id in sorted(set(worker_ids)):
            send = partial(
                self._worker_client.send, "GET", f"{self._scheme}://{worker_id}", path, headers, None, timeout_s=timeout_s
            )
            asked[worker_id] = self._pools.submit(RequestKind.FORWARD, send)
        deadline = time.monotonic() + timeout_s
        found: dict[str, Any] = {}
        for worker_id, future in asked.items():
            try:
                answer = future.result(max(0.0, deadline - time.monotonic()))
                if answer.status == 200:
                    found[worker_id] = json.loads(answer.body)
                else:
                    log.debug("Worker %s answered %s: %s", worker_id, path, answer.message)
            except (ConnectError, FutureTimeout, ValueError) as e:
                log.debug("Worker %s did not answer %s: %s", worker_id, path, e)
        return PeerAnswers(found, [worker_id for worker_id in asked if worker_id not in found])
