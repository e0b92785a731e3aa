"""The last results of ``sluice verify`` in the status topic: they outlive workers, and every worker has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worker.observability.verifications import StoredVerification, new_verification, read_verifications
from worker.storage.status_store import StatusStore

_WRITE_S = 10.0


class VerificationTopic:
    """Implements :class:`worker.observability.verifications.VerificationResults`."""

    def __init__(self, store: StatusStore) -> None:
        self._store = store

    def store(self, connector: str, document: Mapping[str, Any]) -> StoredVerification:
        stored = new_verification(document)
        self._store.await_read([self._store.put_verification(connector, stored.as_json())], _WRITE_S)
        return stored

    def get(self, connector: str) -> StoredVerification | None:
        return self.all().get(connector)

    def all(self) -> dict[str, StoredVerification]:
        return read_verifications(self._store.verifications())
