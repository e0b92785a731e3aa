"""The last results of ``sluice verify`` in the status topic: they outlive workers, and every worker has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worker.observability.verifications import StoredVerification, new_verification, read_verification
from worker.storage.status_store import StatusStore

_WRITE_S = 10.0


class VerificationTopic:
    """Implements :class:`worker.observability.verifications.VerificationResults`."""

    def __init__(self, store: StatusStore) -> None:
        self._store = store
        self._read: dict[str, tuple[Mapping[str, Any], StoredVerification | None]] = {}
        """Stored documents with what was read of them: they are asked for much more often than they change."""

    def store(self, connector: str, document: Mapping[str, Any]) -> StoredVerification:
        stored = new_verification(document)
        self._store.await_read([self._store.put_verification(connector, stored.as_json())], _WRITE_S)
        return stored

    def get(self, connector: str) -> StoredVerification | None:
        return self.all().get(connector)

    def all(self) -> dict[str, StoredVerification]:
        before = self._read
        self._read = read = {name: _read(document, before.get(name)) for name, document in self._store.verifications().items()}
        return {name: one for name, (_, one) in read.items() if one is not None}


def _read(
    document: Mapping[str, Any], known: tuple[Mapping[str, Any], StoredVerification | None] | None
) -> tuple[Mapping[str, Any], StoredVerification | None]:
    return known if known is not None and known[0] is document else (document, read_verification(document))
