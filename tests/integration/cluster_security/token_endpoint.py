"""An OAuth server for the users of the secured broker that issues unsigned tokens (RFC 7519, 6)."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from sluice.embedded.ports import LOOPBACK
from tests.integration.cluster_security.secured_cluster import PASSWORDS


class TokenEndpoint(ThreadingHTTPServer):
    """Supports the client credentials grant (RFC 6749, 4.4)."""

    daemon_threads = True

    def __init__(self, lifetime_s: float) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.lifetime_s = lifetime_s
        self.granted: list[tuple[str, str | None]] = []
        """Client and scope of each issued token."""

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/token"


class _Handler(BaseHTTPRequestHandler):
    server: TokenEndpoint

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        kind, _, credentials = self.headers.get("Authorization", "").partition(" ")
        client, _, secret = base64.b64decode(credentials).decode().partition(":")
        if kind != "Basic" or form.get("grant_type") != ["client_credentials"] or PASSWORDS.get(client) != secret:
            self._answer(401, {"error": "invalid_client"})
            return
        self.server.granted.append((client, form.get("scope", [None])[0]))
        now = time.time()
        claims = {"sub": client, "iat": now, "exp": now + self.server.lifetime_s}
        token = f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."
        self._answer(200, {"access_token": token, "token_type": "bearer", "expires_in": self.server.lifetime_s})

    def _answer(self, status: int, body: dict[str, object]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None: ...


def _encoded(part: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


@contextmanager
def token_endpoint(lifetime_s: float = 300.0) -> Iterator[TokenEndpoint]:
    with TokenEndpoint(lifetime_s) as endpoint:
        thread = threading.Thread(target=endpoint.serve_forever, daemon=True)
        thread.start()
        try:
            yield endpoint
        finally:
            endpoint.shutdown()
