"""Requests from one worker to another."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.responses import Response

from connect.errors import ConnectError, UnreachableError
from rest.server.tls import ReloadingContext, TlsSettings, client_context
from worker.config.worker_config import WorkerConfig

TIMEOUT_S = 95.0
"""Slightly longer than a worker's own request timeout."""
_CHECK_TLS = (
    "Check listeners.https.ssl.* (or ssl.*, if unset) on both workers: each must trust the issuer of the other's certificate, "
    "which must match the advertised host"
)
USER_AGENT = "kafka-connect"
"""As sent by Apache's workers."""


@dataclass(frozen=True, slots=True)
class WorkerResponse:
    """The response of another worker."""

    status: int
    headers: Sequence[tuple[str, str]]
    """With lower-case names. A name may occur several times."""
    body: bytes

    def passed_on(self, names: Collection[str]) -> Response:
        """Returns the response to a client, with the headers of these names."""
        response = Response(self.body, self.status)
        for name, value in self.headers:
            if name in names:
                response.headers.append(name, value)
        return response

    @property
    def message(self) -> str:
        """The message of an error response, or the status if there is none."""
        try:
            parsed = json.loads(self.body)
        except ValueError:
            parsed = None
        if isinstance(parsed, dict) and isinstance(parsed.get("message"), str):
            return str(parsed["message"])
        return f"HTTP {self.status}"


class Abort:
    """Ends one request of a :class:`WorkerClient`, which then raises UnreachableError. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_aborted = False

    def abort(self) -> None:
        """Closes the connection, if there is one. Does not block."""
        with self._lock:
            self._is_aborted = True
            if self._socket is not None:
                with suppress(OSError):  # closed already
                    # Not the method of TLS sockets, which another thread reads.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    @contextmanager
    def ending(self, connection: socket.socket) -> Iterator[None]:
        """Lets :meth:`abort` close the connection during the block."""
        with self._lock:
            if self._is_aborted:
                raise ConnectionAbortedError("the client has disconnected")
            self._socket = connection
        try:
            yield
        finally:
            with self._lock:
                self._socket = None


class WorkerClient:
    """Sends requests to other workers, each on a new connection, since they are rare. Thread-safe."""

    def __init__(self, tls: ReloadingContext | None = None) -> None:
        """``tls`` is for workers with https URLs; the default is Python's trust store."""
        self._tls = tls
        self._tls_lock = threading.Lock()

    @classmethod
    def from_config(cls, config: WorkerConfig) -> WorkerClient:
        """Uses the TLS settings of the worker's https listeners, if any. Raises ConfigError for invalid ones."""
        https = any(listener.lower().startswith("https:") for listener in config.listeners)
        return cls(ReloadingContext(TlsSettings.from_properties(config.originals), client_context) if https else None)

    def send(
        self,
        method: str,
        url: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
        timeout_s: float = TIMEOUT_S,
        abort: Abort | None = None,
    ) -> WorkerResponse:
        """Sends one request; ``path`` is encoded and includes the query. Raises UnreachableError when no worker responds,
        ConnectError for an invalid response."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        target = parts.path.rstrip("/") + path
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(host, parts.port or 443, timeout=timeout_s, context=self._context())
        else:
            connection = http.client.HTTPConnection(host, parts.port or 80, timeout=timeout_s)
        try:
            connection.connect()
            with nullcontext() if abort is None else abort.ending(connection.sock):
                connection.request(method, target, body, {"User-Agent": USER_AGENT, **headers})
                response = connection.getresponse()
                received = [(name.lower(), value) for name, value in response.getheaders()]
                return WorkerResponse(response.status, received, response.read())
        except OSError as e:
            message = f"IO Error trying to forward REST request: {e} ({method} {parts.netloc}{path})"
            raise UnreachableError(f"{message}. {_CHECK_TLS}" if isinstance(e, ssl.SSLError) else message) from e
        except http.client.HTTPException as e:
            raise ConnectError(f"Error trying to forward REST request: {type(e).__name__} ({method} {parts.netloc}{path})") from e
        finally:
            connection.close()

    def _context(self) -> ssl.SSLContext | None:
        """Returns the TLS context, reloaded if its files have changed."""
        if self._tls is None:
            return None
        with self._tls_lock:
            self._tls.reload_if_changed()
            return self._tls.context
