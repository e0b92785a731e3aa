"""Requests of a worker to its cluster's leader: the interface of :mod:`rest.forwarding.leader_client`."""

from __future__ import annotations

from typing import Protocol

from worker.distributed.session_keys import SignedHeaders


class LeaderClient(Protocol):
    """Sends requests to the leader. The methods block until the response arrives, and raise ConnectError: NotReadyError,
    IllegalStateError, or ForbiddenError for a refusal that may pass, UnreachableError without a response."""

    def put_task_configs(self, leader_url: str, connector: str, body: bytes, headers: SignedHeaders | None) -> None:
        """``POST <leader>/connectors/<connector>/tasks`` with this body, a JSON list of configurations."""

    def fence_zombies(self, leader_url: str, connector: str, headers: SignedHeaders | None) -> None:
        """``PUT <leader>/connectors/<connector>/fence``."""

    def take_reload_turn(self, leader_url: str, connector: str, body: bytes, headers: SignedHeaders | None) -> None:
        """``PUT <leader>/sluice/connectors/<connector>/reload-turn`` with this body, ``{"worker": ..., "done": ...}``. Raises
        NotFoundError for a leader without it, such as Apache's."""
