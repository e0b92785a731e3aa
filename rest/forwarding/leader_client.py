"""Requests from a worker to its leader: the client of :mod:`rest.routes.internal`."""

from __future__ import annotations

from urllib.parse import quote

from connect.errors import ConnectError, ForbiddenError, IllegalStateError, NotFoundError, NotReadyError
from rest.forwarding.worker_client import WorkerClient
from rest.responses import JSON_TYPE
from worker.distributed.session_keys import SignedHeaders

SIGNATURE_HEADER = "X-Connect-Authorization"
ALGORITHM_HEADER = "X-Connect-Request-Signature-Algorithm"
_ERRORS: dict[int, type[ConnectError]] = {
    403: ForbiddenError,
    404: NotFoundError,
    409: IllegalStateError,
    503: NotReadyError,
}


class RestLeaderClient:
    """Implements :class:`worker.distributed.leader_client.LeaderClient`."""

    def __init__(self, worker_client: WorkerClient | None = None) -> None:
        self._worker_client = worker_client or WorkerClient()

    def put_task_configs(self, leader_url: str, connector: str, body: bytes, headers: SignedHeaders | None) -> None:
        self._send("POST", leader_url, f"/connectors/{quote(connector, safe='')}/tasks", body, headers)

    def fence_zombies(self, leader_url: str, connector: str, headers: SignedHeaders | None) -> None:
        self._send("PUT", leader_url, f"/connectors/{quote(connector, safe='')}/fence", None, headers)

    def take_reload_turn(self, leader_url: str, connector: str, body: bytes, headers: SignedHeaders | None) -> None:
        self._send("PUT", leader_url, f"/sluice/connectors/{quote(connector, safe='')}/reload-turn", body, headers)

    def _send(self, method: str, leader_url: str, path: str, body: bytes | None, headers: SignedHeaders | None) -> None:
        sent = {"Content-Type": JSON_TYPE} if body is not None else {}
        if headers is not None:
            sent |= {SIGNATURE_HEADER: headers.authorization, ALGORITHM_HEADER: headers.algorithm}
        response = self._worker_client.send(method, leader_url, path, sent, body)
        if response.status >= 400:
            error = _ERRORS.get(response.status, ConnectError)
            raise error(f"The leader at {leader_url} answered {response.status}: {response.message}")
