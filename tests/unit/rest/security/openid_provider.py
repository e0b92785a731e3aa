"""A small OpenID Connect provider: real HTTP, real keys, one user who agrees at once."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

CLIENT_ID, CLIENT_SECRET = "sluice", "client-secret-value"


class OpenIdProvider:
    """Owns its thread; close it. ``claims`` are those of its user."""

    def __init__(self) -> None:
        self.keys: list[RSAKey | ECKey] = [RSAKey.generate_key(2048, {"kid": "key-1", "use": "sig"})]
        self.claims: dict[str, Any] = {"sub": "alice", "groups": ["platform"], "department": "data"}
        self.requests: list[str] = []
        self.id_token_changes: dict[str, Any] = {}
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="openid-provider")
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def token(self, header: Mapping[str, Any] | None = None, key: RSAKey | ECKey | None = None, **claims: Any) -> str:
        """Returns a token of the first key; a claim None is left out."""
        now = int(time.time())
        found = {"iss": self.issuer, "aud": "connect", "iat": now, "exp": now + 300, **self.claims, **claims}
        signer = key or self.keys[0]
        protected = {"alg": "RS256", "kid": signer.kid, **(header or {})}
        return jwt.encode(
            {name: value for name, value in protected.items() if value is not None},
            {name: value for name, value in found.items() if value is not None},
            signer,
            algorithms=[protected["alg"]],
        )

    def authorize(self, location: str) -> str:
        """Does what a browser and its user do at the provider; returns where the browser is sent back to."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert query["client_id"] == CLIENT_ID
        assert "openid" in query["scope"].split()
        code = secrets.token_urlsafe(8)
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], 'iss': self.issuer})}"

    def _exchange(self, form: Mapping[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        query = self._codes.pop(form.get("code", ""), None)
        expected = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
        if authorization != f"Basic {expected}":
            return 401, {"error": "invalid_client"}
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if query is None or challenge != query["code_challenge"] or form.get("redirect_uri") != query["redirect_uri"]:
            return 400, {"error": "invalid_grant", "error_description": "with a secret: hunter2"}
        changes = {"aud": CLIENT_ID, "nonce": query["nonce"], **self.id_token_changes}
        return 200, {"access_token": "opaque", "token_type": "Bearer", "id_token": self.token(**changes)}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.requests.append(self.path)
                if self.path == "/.well-known/openid-configuration":
                    self._answer(
                        200,
                        {
                            "issuer": provider.issuer,
                            "jwks_uri": f"{provider.issuer}/keys",
                            "authorization_endpoint": f"{provider.issuer}/authorize",
                            "token_endpoint": f"{provider.issuer}/token",
                        },
                    )
                elif self.path == "/keys":
                    self._answer(200, {"keys": [key.as_dict(private=False) for key in provider.keys]})
                else:
                    self._answer(404, {})

            def do_POST(self) -> None:
                provider.requests.append(self.path)
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                self._answer(*provider._exchange(form, self.headers.get("Authorization", "")))

            def _answer(self, status: int, content: Any) -> None:
                text = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None: ...

        return Handler
