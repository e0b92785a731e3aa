"""JSON documents by name that outlive a worker: results of verifications, and ended sessions of the web page."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson

from connect.errors import ConnectError
from connect.spool.files import replace_file
from worker.storage.record_codec import DocumentKind
from worker.storage.status_store import StatusStore

log = logging.getLogger(__name__)

_WRITE_S = 10.0
_MOST_RESULTS = 1000

NamedDocuments = Mapping[str, Mapping[str, Any]]


class Documents(Protocol):
    """The documents of one kind. Safe from any thread."""

    @property
    def is_read(self) -> bool:
        """Whether everything that was stored before is known. False while a worker starts."""

    def all(self) -> NamedDocuments:
        """Returns the documents as of now, oldest first. A document that has not changed is the same object as before."""

    def put(self, name: str, document: Mapping[str, Any]) -> None:
        """Adds or replaces a document, and returns once it is durable. Raises ConnectError."""

    def discard(self, names: Collection[str]) -> None:
        """Deletes documents, soon. An error is logged."""


class DocumentTopic:
    """Implements :class:`Documents` in the status topic, so that every worker of a cluster has them."""

    def __init__(self, store: StatusStore, kind: DocumentKind) -> None:
        self._store = store
        self._kind = kind

    @property
    def is_read(self) -> bool:
        return self._store.is_read

    def all(self) -> NamedDocuments:
        return self._store.documents(self._kind)

    def put(self, name: str, document: Mapping[str, Any]) -> None:
        self._store.await_read([self._store.put_document(self._kind, name, document)], _WRITE_S)

    def discard(self, names: Collection[str]) -> None:
        for name in names:
            self._store.put_document(self._kind, name, None)


def documents_beside(offset_file: Path, kind: DocumentKind) -> DocumentFile:
    """Returns the documents of a standalone worker, in a file beside its offset file."""
    if kind is DocumentKind.VERIFICATION:
        return DocumentFile(Path(f"{offset_file}.verifications"), "results of verifications", _MOST_RESULTS)
    return DocumentFile(Path(f"{offset_file}.sessions"), "ended sessions")


class DocumentFile:
    """Implements :class:`Documents` for a standalone worker: in a file of JSON, which is read at first use."""

    is_read = True

    def __init__(self, path: Path, content: str, limit: int | None = None) -> None:
        """``content`` names the documents in errors. Of more than ``limit``, the oldest are dropped."""
        self._path = path
        self._content = content
        self._limit = limit
        self._lock = threading.Lock()
        self._documents: dict[str, Mapping[str, Any]] | None = None

    def all(self) -> NamedDocuments:
        """Raises ConnectError if the file cannot be read."""
        with self._lock:
            return self._known()

    def put(self, name: str, document: Mapping[str, Any]) -> None:
        with self._lock:
            documents = {key: one for key, one in self._known().items() if key != name}
            documents[name] = document
            while self._limit is not None and len(documents) > self._limit:
                del documents[next(iter(documents))]
            self._write(documents)

    def discard(self, names: Collection[str]) -> None:
        with self._lock:
            known = self._known()
            documents = {key: one for key, one in known.items() if key not in names}
            if len(documents) == len(known):
                return
            self._documents = documents
            try:
                self._write(documents)
            except ConnectError as e:
                log.warning("%s; the next change deletes what should be deleted", e.message)

    def _known(self) -> dict[str, Mapping[str, Any]]:
        if self._documents is None:
            try:
                found = orjson.loads(self._path.read_bytes())
            except FileNotFoundError:
                found = {}
            except OSError as e:  # documents that are there must not be replaced
                raise ConnectError(f"the {self._content} cannot be read from {self._path}: {e.strerror}") from e
            except orjson.JSONDecodeError:
                found = {}  # the next document writes the file again
            documents = found.items() if isinstance(found, dict) else ()
            self._documents = {name: one for name, one in documents if isinstance(one, dict)}
        return self._documents

    def _write(self, documents: dict[str, Mapping[str, Any]]) -> None:
        try:
            replace_file(self._path, orjson.dumps(documents))
        except OSError as e:
            raise ConnectError(f"the {self._content} cannot be written to {self._path}: {e.strerror}") from e
        self._documents = documents
