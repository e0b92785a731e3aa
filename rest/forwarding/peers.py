"""Asks the other workers of a cluster for their part of an answer."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from functools import partial
from typing import Any

from starlette.requests import Request

from connect.errors import ConnectError, NotFoundError
from rest.forwarding.forwarder import Forwarder
from rest.forwarding.worker_client import WorkerClient, WorkerResponse
from rest.server.thread_pools import RequestKind, ThreadPools

PEER_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class PeerAnswers:
    """The JSON answers, and the errors of the workers that did not answer, by worker ID."""

    found: Mapping[str, Any]
    errors: Mapping[str, str]

    @property
    def missing(self) -> list[str]:
        """The workers that did not answer, sorted."""
        return sorted(self.errors)


class Peers:
    """Sends requests for the caller of a request. Safe from any thread."""

    def __init__(self, worker_client: WorkerClient, scheme: str, pools: ThreadPools, forwarder: Forwarder) -> None:
        """``scheme`` is that of the addresses in worker IDs."""
        self._worker_client = worker_client
        self._scheme = scheme
        self._pools = pools
        self._forwarder = forwarder

    async def ask(self, request: Request, worker_id: str, path: str, timeout_s: float = PEER_TIMEOUT_S) -> Any:
        """Returns the JSON answer of one worker. ``path`` is encoded and includes the query. Raises NotFoundError (404),
        UnreachableError if it does not respond in time, else ConnectError."""
        return _json_of(worker_id, await asyncio.wrap_future(self._send(request, worker_id, path, timeout_s)))

    def get(self, request: Request, worker_ids: Collection[str], path: str, timeout_s: float = PEER_TIMEOUT_S) -> PeerAnswers:
        """Asks several workers at once, and blocks until all have answered, ``timeout_s`` at most. An empty answer is None."""
        asked = {one: self._send(request, one, path, timeout_s) for one in sorted(set(worker_ids))}
        deadline = time.monotonic() + timeout_s
        found: dict[str, Any] = {}
        errors: dict[str, str] = {}
        for worker_id, future in asked.items():
            try:
                found[worker_id] = _json_of(worker_id, future.result(max(0.0, deadline - time.monotonic())))
            except FutureTimeout:
                future.cancel()  # one that is still queued must not run for nobody
                errors[worker_id] = f"no answer within {timeout_s:g} s"
            except ConnectError as e:
                errors[worker_id] = e.message
        return PeerAnswers(found, errors)

    def _send(self, request: Request, worker_id: str, path: str, timeout_s: float) -> Future[WorkerResponse]:
        sent = self._forwarder.caller_headers(request, path, method="GET")
        url = f"{self._scheme}://{worker_id}"
        return self._pools.submit(
            RequestKind.FORWARD, partial(self._worker_client.send, "GET", url, path, sent, None, timeout_s=timeout_s)
        )


def peers_of(request: Request) -> Peers:
    """Returns what asks the other workers for a request."""
    peers: Peers = request.app.state.peers
    return peers


def _json_of(worker_id: str, response: WorkerResponse) -> Any:
    if response.status >= 400:
        raise (NotFoundError if response.status == 404 else ConnectError)(response.message)
    if not response.body:
        return None
    try:
        return json.loads(response.body)
    except ValueError as e:
        raise ConnectError(f"Worker {worker_id} did not answer with JSON") from e
