"""What a worker asks of its leader: the client side of :mod:`rest.routes.internal`."""

from __future__ import annotations

from urllib.parse import quote

from connect.errors import ConnectError, ForbiddenError, IllegalStateError, NotFoundError, NotReadyError
from rest.forwarding.worker_client import Outgoing
from rest.responses import JSON_TYPE
from rest.routes.internal import ALGORITHM_HEADER, SIGNATURE_HEADER
from worker.distributed.session_keys import SignedHeaders

_KINDS: dict[int, type[ConnectError]] = {
    403: ForbiddenError,
    404: NotFoundError,
    409: IllegalStateError,
    503: NotReadyError,
}


class RestPeers:
    """Implements :class:`worker.distributed.leader_client.LeaderClient`."""

    def __init__(self, outgoing: Outgoing | None = None) -> None:
        self._outgoing = outgoing or Outgoing()

    def put_task_configs(self, leader_url: str, connector: str, body: bytes, headers: SignedHeaders | None) -> None:
        self._send("POST", leader_url, connector, "tasks", body, headers)

    def fence_zombies(self, leader_url: str, connector: str, headers: SignedHeaders | None) -> None:
        self._send("PUT", leader_url, connector, "fence", None, headers)

    def _send(
        self, method: str, leader_url: str, connector: str, what: str, body: bytes | None, headers: SignedHeaders | None
    ) -> None:
        sent = {"Content-Type": JSON_TYPE} if body is not None else {}
        if headers is not None:
            sent |= {SIGNATURE_HEADER: headers.authorization, ALGORITHM_HEADER: headers.algorithm}
        reply = self._outgoing.send(method, leader_url, f"/connectors/{quote(connector, safe='')}/{what}", sent, body)
        if reply.status >= 400:
            kind = _KINDS.get(reply.status, ConnectError)
            raise kind(f"The leader at {leader_url} answered {reply.status}: {reply.message}")
