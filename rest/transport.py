"""HTTP requests to one worker, over a connection that is kept.

It uses ``http.client``: importing httpx takes longer than a request, and requests to a worker must not go through a proxy.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode, urlsplit

from connect.errors import ConfigError, UnreachableError
from rest.credentials import ClientCredentials

_NOT_REPEATABLE = ("POST", "PATCH")
"""Sent on a new connection each, since a request on a closed idle connection would have to be repeated."""


class HttpTransport:
    """Sends requests, and opens a new connection where that is needed. Not thread-safe."""

    def __init__(self, url: str, timeout_s: float, credentials: ClientCredentials | None) -> None:
        """``credentials`` are read at the first request. Raises ConfigError for a malformed address or unusable TLS files."""
        parts = urlsplit(url if "//" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"Invalid worker address {url}: expected http://host:port")
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._credentials = credentials
        self._authorization: str | None = None
        self._connection: http.client.HTTPConnection
        if parts.scheme == "https":
            tls = None if credentials is None else credentials.tls_context()
            self._connection = http.client.HTTPSConnection(parts.hostname, parts.port or 443, timeout=timeout_s, context=tls)
        else:
            self._connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=timeout_s)

    @property
    def has_credentials(self) -> bool:
        """Whether requests have carried an Authorization header."""
        return self._authorization is not None

    def close(self) -> None:
        """Closes the connection; the next request opens a new one."""
        self._connection.close()

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Sequence[tuple[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Sends one request. Returns status and body: parsed if it is JSON, None if empty. Raises only UnreachableError."""
        target = f"{path}?{urlencode(query)}" if query else path
        if self._credentials is not None and self._authorization is None:
            self._authorization = self._credentials.authorization()
        authorization = {} if self._authorization is None else {"Authorization": self._authorization}
        sent = {"Accept": "application/json", **authorization, **(headers or {})}
        payload = None
        if body is not None:
            payload = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        answer, text = self._exchange(method, target, payload, sent)
        if not text:
            return answer.status, None
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text.decode(errors="replace")

    def _exchange(
        self, method: str, target: str, payload: bytes | None, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        if method in _NOT_REPEATABLE:
            self._connection.close()
        reused = self._connection.sock is not None
        try:
            self._connection.request(method, target, payload, dict(headers))
            answer = self._connection.getresponse()
            return answer, answer.read()
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError) as e:
            self._connection.close()
            # Most likely the worker closed an idle connection: repeat the request on a new one.
            if reused:
                return self._exchange(method, target, payload, headers)
            raise UnreachableError(f"The worker at {self.url} closed the connection") from e
        except TimeoutError as e:
            self._connection.close()
            raise UnreachableError(f"The worker at {self.url} did not answer within {self._connection.timeout:g} s") from e
        except (OSError, http.client.HTTPException) as e:
            self._connection.close()
            raise UnreachableError(
                f"No worker responds at {self.url}: {e}. Check that it is running and that the address is correct"
            ) from e
