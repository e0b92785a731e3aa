"""Signing requests to the leader, and renewing the group's session key as leader (KIP-507)."""

from __future__ import annotations

import time

from worker.config.distributed_config import DistributedSettings
from worker.distributed.group_session import GroupSession
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.leader import Leader
from worker.distributed.session_keys import SignedHeaders, expires_in_ms, is_due, new_session_key, sign
from worker.group.protocol import Protocol
from worker.storage.config_store import ConfigStore


class SessionKeyManager:
    """:meth:`sign` may be called by any thread, the others by the herder's."""

    def __init__(
        self, settings: DistributedSettings, loop: HerderLoop, store: ConfigStore, group: GroupSession, leader: Leader
    ) -> None:
        self._settings = settings
        self._loop = loop
        self._store = store
        self._group = group
        self._leader = leader

    def sign(self, body: bytes) -> SignedHeaders | None:
        """Returns the signature of a request to the leader; None if the group does not sign."""
        key = self._store.snapshot().session_key
        if key is None or self._group.current.protocol is not Protocol.SESSIONED:
            return None
        return sign(body, key, self._settings.signature_algorithm)

    def renew_if_due(self) -> None:
        """Creates a new key if this worker leads the group and a new key is due. Raises ConnectError."""
        current = self._group.current
        if not current.is_leader or self._group.is_rebalancing or current.protocol is not Protocol.SESSIONED:
            return
        now_ms = _now_ms()
        if is_due(self._store.snapshot().session_key, self._settings, now_ms):
            self._leader.write(lambda: self._store.put_session_key(new_session_key(self._settings, now_ms)))

    def schedule_renewal(self) -> None:
        """Schedules the renewal of the current key if this worker leads the group."""
        after_ms = expires_in_ms(self._store.snapshot().session_key, self._settings, _now_ms())
        if self._group.current.is_leader and after_ms is not None:
            self._loop.post(self.renew_if_due, after_ms / 1000 + 0.01)


def _now_ms() -> int:
    return int(time.time() * 1000)
