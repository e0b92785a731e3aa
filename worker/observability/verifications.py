"""The last results of ``sluice verify``, which stores them over REST, for statuses and metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import orjson

from connect.errors import ConnectError
from connect.spool.files import replace_file

_MOST_RESULTS = 1000
_STORED_MS = "stored_ms"


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
        {name: value for name, value in document.items() if name != _STORED_MS},
    )


def new_verification(document: Mapping[str, Any]) -> StoredVerification:
    """A result that is stored now."""
    return stored_verification(document, time.time_ns() // 1_000_000)


def read_verification(document: Any) -> StoredVerification | None:
    """Reads a stored result; None for what is none, such as that of a later release."""
    try:
        return stored_verification(document)
    except (KeyError, TypeError, ValueError):
        return None


class VerificationResults(Protocol):
    """The last result of each connector. Thread-safe."""

    def store(self, connector: str, document: Mapping[str, Any]) -> StoredVerification:
        """Replaces the result of a connector, and returns once it is durable. Raises ConnectError."""

    def get(self, connector: str) -> StoredVerification | None: ...

    def all(self) -> dict[str, StoredVerification]:
        """Returns the results by connector, as of now."""


class VerificationFile:
    """Implements :class:`VerificationResults` for a standalone worker: in a file of JSON, which is read at first use."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._results: dict[str, StoredVerification] | None = None

    def store(self, connector: str, document: Mapping[str, Any]) -> StoredVerification:
        stored = new_verification(document)
        with self._lock:
            results = {name: one for name, one in self._known().items() if name != connector}
            results[connector] = stored
            while len(results) > _MOST_RESULTS:
                del results[next(iter(results))]
            self._write(results)
            self._results = results
        return stored

    def get(self, connector: str) -> StoredVerification | None:
        with self._lock:
            return self._known().get(connector)

    def all(self) -> dict[str, StoredVerification]:
        with self._lock:
            return dict(self._known())

    def _known(self) -> dict[str, StoredVerification]:
        if self._results is None:
            try:
                found = orjson.loads(self._path.read_bytes())
            except FileNotFoundError:
                found = {}
            except OSError as e:  # results that are there must not be replaced
                raise ConnectError(f"the results of verifications cannot be read from {self._path}: {e.strerror}") from e
            except orjson.JSONDecodeError:
                found = {}  # the next verification writes the file again
            documents = found if isinstance(found, dict) else {}
            read = {name: read_verification(document) for name, document in documents.items()}
            self._results = {name: one for name, one in read.items() if one is not None}
        return self._results

    def _write(self, results: Mapping[str, StoredVerification]) -> None:
        try:
            replace_file(self._path, orjson.dumps({name: one.as_json() for name, one in results.items()}))
        except OSError as e:
            raise ConnectError(f"the results of verifications cannot be written to {self._path}: {e.strerror}") from e
