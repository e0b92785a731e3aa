"""The last results of ``sluice verify``, which stores them over REST or is run by the worker's schedule, for REST and metrics."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from connect.errors import ConnectError
from worker.storage.documents import Documents

log = logging.getLogger(__name__)

_STORED_MS, _ATTEMPT = "stored_ms", "attempt"
ABSENT_TABLE = "absent"
"""The version of a table that the target does not have."""


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


def missing_tables(result: StoredVerification) -> list[str]:
    """Returns the tables that the target did not have although the source has rows for them."""
    tables = result.document.get("tables")
    return [
        str(one.get("target"))
        for one in (tables if isinstance(tables, list) else ())
        if isinstance(one, dict) and one.get("version") == ABSENT_TABLE and one.get("differences")
    ]


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
    worker_id: str | None = None
    """The worker that ran it; None if unknown."""
    failing_since_ms: int | None = None
    """When the first of the runs ended that have failed one after another, up to this one; None if it has a result."""

    @classmethod
    def after(cls, last: VerificationAttempt | None, ended_ms: int, error: str | None, worker_id: str) -> VerificationAttempt:
        """Returns the run after the ``last`` one."""
        since_ms = None
        if error is not None:
            since_ms = ended_ms if last is None or last.failing_since_ms is None else min(last.failing_since_ms, ended_ms)
        return cls(ended_ms, error, worker_id, since_ms)


def _read_attempt(document: Mapping[str, Any]) -> VerificationAttempt | None:
    match document.get(_ATTEMPT):
        case {"ended_ms": int(ended_ms), "error": str() | None as error, **others}:
            worker_id, since_ms = others.get("worker_id"), others.get("failing_since_ms")
            return VerificationAttempt(
                ended_ms,
                error,
                worker_id if isinstance(worker_id, str) else None,
                since_ms if isinstance(since_ms, int) else None,
            )
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

    def store(self, connector: str, document: Mapping[str, Any]) -> StoredVerification:
        """Replaces the result of a connector, and returns once it is durable. Raises ConnectError."""
        stored = stored_verification(document, self._epoch_ms())
        self._put(connector, stored, self.attempt(connector))
        return stored

    def store_attempt(self, connector: str, attempt: VerificationAttempt) -> None:
        """Stores that a run of the schedule has ended; the last result stays. Raises ConnectError."""
        self._put(connector, self.get(connector), attempt)

    def discard(self, connector: str) -> None:
        """Deletes what is stored for a connector that was deleted. An error is logged."""
        try:
            if connector in self._documents.all():
                self._documents.discard((connector,))
        except ConnectError as e:
            log.warning("The verification of the deleted connector %s stays stored: %s", connector, e.message)

    def _put(self, connector: str, result: StoredVerification | None, attempt: VerificationAttempt | None) -> None:
        document = {} if result is None else result.as_json()
        if attempt is not None:
            document[_ATTEMPT] = asdict(attempt)
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
