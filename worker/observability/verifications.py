"""The last results of ``sluice verify``, which stores them over REST or is run by the worker's schedule, for REST and metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from worker.storage.documents import Documents

_STORED_MS, _ATTEMPT = "stored_ms", "attempt"


@dataclass(frozen=True, slots=True)
class StoredVerification:
    """A result as it was stored. ``stored_ms`` is in ms since 1970 UTC."""

    stored_ms: int
    equal: bool
    rows: int
    differences: int
    unsettled: int
    seconds: float
    document: Mapping[str, Any]
    """The whole result, without values of rows."""

    def as_json(self) -> dict[str, Any]:
        return {**self.document, _STORED_MS: self.stored_ms}


def stored_verification(document: Mapping[str, Any], stored_ms: int | None = None) -> StoredVerification:
    """Reads a result, which has the members of :class:`StoredVerification`. ``stored_ms`` is its own by default. Raises KeyError,
    TypeError, and ValueError for other documents."""
    return StoredVerification(
        int(document[_STORED_MS]) if stored_ms is None else stored_ms,
        bool(document["equal"]),
        int(document["rows"]),
        int(document["differences"]),
        int(document["unsettled"]),
        float(document["seconds"]),
        {name: value for name, value in document.items() if name not in (_STORED_MS, _ATTEMPT)},
    )


def read_verification(document: Any) -> StoredVerification | None:
    """Reads a stored result; None for what is none, such as that of a later release."""
    try:
        return stored_verification(document)
    except (KeyError, TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class VerificationAttempt:
    """The last run of a connector's schedule."""

    ended_ms: int
    """Since 1970 UTC."""
    error: str | None
    """Why it has no result; None if it has one."""


def _read_attempt(document: Mapping[str, Any]) -> VerificationAttempt | None:
    match document.get(_ATTEMPT):
        case {"ended_ms": int(ended_ms), "error": str() | None as error}:
            return VerificationAttempt(ended_ms, error)
    return None


@dataclass(frozen=True, slots=True)
class _ReadDocument:
    document: Mapping[str, Any]
    result: StoredVerification | None
    attempt: VerificationAttempt | None


class VerificationResults:
    """The last result of each connector, and the last run of its schedule. Thread-safe."""

    def __init__(self, documents: Documents, epoch_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._documents = documents
        self._epoch_ms = epoch_ms
        self._read: dict[str, _ReadDocument] = {}
        """Documents with what was read of them: they are asked for much more often than they change."""

    @property
    def is_read(self) -> bool:
        """Whether all stored results are known. False while a worker starts."""
        return self._documents.is_read

    def store(self, connector: str, document: Mapping[str, Any], *, is_scheduled: bool = False) -> StoredVerification:
        """Replaces the result of a connector, and returns once it is durable. Raises ConnectError."""
        now_ms = self._epoch_ms()
        stored = stored_verification(document, now_ms)
        attempt = VerificationAttempt(now_ms, None) if is_scheduled else self.attempt(connector)
        self._put(connector, stored, attempt)
        return stored

    def store_failure(self, connector: str, error: str) -> None:
        """Notes a run of the schedule that has no result; the last result stays. Raises ConnectError."""
        self._put(connector, self.get(connector), VerificationAttempt(self._epoch_ms(), error))

    def _put(self, connector: str, result: StoredVerification | None, attempt: VerificationAttempt | None) -> None:
        document = {} if result is None else result.as_json()
        if attempt is not None:
            document[_ATTEMPT] = {"ended_ms": attempt.ended_ms, "error": attempt.error}
        self._documents.put(connector, document)

    def get(self, connector: str) -> StoredVerification | None:
        found = self._all().get(connector)
        return None if found is None else found.result

    def all(self) -> dict[str, StoredVerification]:
        """Returns the results by connector, as of now."""
        return {name: one.result for name, one in self._all().items() if one.result is not None}

    def attempt(self, connector: str) -> VerificationAttempt | None:
        """Returns the last run of a connector's schedule, by any worker."""
        found = self._all().get(connector)
        return None if found is None else found.attempt

    def _all(self) -> Mapping[str, _ReadDocument]:
        before = self._read
        read = {name: _read(document, before.get(name)) for name, document in self._documents.all().items()}
        self._read = read
        return read


def _read(document: Mapping[str, Any], known: _ReadDocument | None) -> _ReadDocument:
    if known is not None and known.document is document:
        return known
    return _ReadDocument(document, read_verification(document), _read_attempt(document))
