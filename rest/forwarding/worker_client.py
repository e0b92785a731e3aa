"""Requests from one worker to another."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from connect.errors import ConnectError, UnreachableError
from rest.server.tls import ReloadingContext, TlsSettings, client_context
from worker.config.worker_config import WorkerConfig

TIMEOUT_S = 95.0
"""A little longer than a worker takes at most to answer."""
_CHECK_TLS = (
    "Check listeners.https.ssl.*, or ssl.* where there are none, of both workers: each must trust who signed the other's "
    "certificate, which must be for the advertised host"
)
USER_AGENT = "kafka-connect"
"""Apache's workers call themselves so."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the other worker answered."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def message(self) -> str:
        """The text of an error body, or what stands for it."""
        try:
            parsed = json.loads(self.body)
        except ValueError:
            parsed = None
        if isinstance(parsed, dict) and isinstance(parsed.get("message"), str):
            return str(parsed["message"])
        return f"HTTP {self.status}"


class Outgoing:
    """Sends requests, each on a connection of its own: they are rare. Safe from any thread."""

    def __init__(self, tls: ReloadingContext | None = None) -> None:
        """``tls`` is for workers whose URL is https; Python's default trust without it."""
        self._tls = tls
        self._tls_lock = threading.Lock()

    @classmethod
    def of_worker(cls, config: WorkerConfig) -> Outgoing:
        """With the TLS settings of the worker's own https listeners, when it has some. Raises ConfigError for wrong ones."""
        https = any(listener.lower().startswith("https:") for listener in config.listeners)
        return cls(ReloadingContext(TlsSettings.of(config.originals), client_context) if https else None)

    def send(self, method: str, url: str, path: str, headers: Mapping[str, str], body: bytes | None) -> Reply:
        """``path`` with its query, encoded. Raises UnreachableError when no worker answers, ConnectError for a broken answer."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        target = parts.path.rstrip("/") + path
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(host, parts.port or 443, timeout=TIMEOUT_S, context=self._context())
        else:
            connection = http.client.HTTPConnection(host, parts.port or 80, timeout=TIMEOUT_S)
        try:
            connection.request(method, target, body, {"User-Agent": USER_AGENT, **headers})
            response = connection.getresponse()
            return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
        except OSError as e:
            told = f"IO Error trying to forward REST request: {e} ({method} {parts.netloc}{path})"
            raise UnreachableError(f"{told}. {_CHECK_TLS}" if isinstance(e, ssl.SSLError) else told) from e
        except http.client.HTTPException as e:
            raise ConnectError(f"Error trying to forward REST request: {type(e).__name__} ({method} {parts.netloc}{path})") from e
        finally:
            connection.close()

    def _context(self) -> ssl.SSLContext | None:
        """As the files are now: a certificate that was renewed is shown from then on."""
        if self._tls is None:
            return None
        with self._tls_lock:
            self._tls.renewed()
            return self._tls.context
