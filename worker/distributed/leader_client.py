"""What a worker asks of its cluster's leader over REST: the seam to the client that does it
(:mod:`rest.forwarding.leader_client`)."""

from __future__ import annotations

from typing import Protocol

from worker.distributed.session_keys import SignedHeaders


class Peers(Protocol):
    """Requests to other workers. Both block until the answer is there and raise ConnectError: NotReadyError, IllegalStateError or
    ForbiddenError for an answer that may be another one soon, UnreachableError when there is none."""

    def put_task_configs(self, leader_url: str, connector: str, body: bytes, headers: SignedHeaders | None) -> None:
        """``POST <leader>/connectors/<connector>/tasks`` with this body, a JSON list of configurations."""

    def fence_zombies(self, leader_url: str, connector: str, headers: SignedHeaders | None) -> None:
        """``PUT <leader>/connectors/<connector>/fence``."""
