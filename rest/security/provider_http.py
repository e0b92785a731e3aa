"""Small HTTP client for an OpenID Connect provider: JSON only, no redirects, bounded in time and size."""

from __future__ import annotations

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from typing import IO, Any
from urllib.parse import quote, urlencode

from connect.errors import ConfigError, ConnectError, UnreachableError
from worker.config.rest_security_config import OIDC, require_secure_url

_TIMEOUT_S = 10.0
_MAX_BYTES = 1024 * 1024


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


class ProviderHttp:
    """Sends requests to a provider. Blocks. Safe for use from any thread."""

    def __init__(self, ca_file: str | None) -> None:
        """Raises ConfigError for a file without authorities."""
        try:
            context = ssl.create_default_context(cafile=ca_file)
        except (OSError, ssl.SSLError) as e:
            raise ConfigError.invalid(f"{OIDC}ca.file", ca_file, f"the file has no PEM certificates that can be read: {e}") from e
        self._opener = urllib.request.build_opener(_NoRedirects, urllib.request.HTTPSHandler(context=context))

    def get(self, url: str) -> dict[str, Any]:
        """Returns a JSON object. Raises UnreachableError, or ConnectError for an answer that is not one."""
        return self._send(urllib.request.Request(url, headers={"Accept": "application/json"}))

    def post_form(self, url: str, fields: Mapping[str, str], client: tuple[str, str] | None = None) -> dict[str, Any]:
        """Posts a form, with a client's ID and secret as basic authentication (RFC 6749, 2.3.1). Raises like :meth:`get`."""
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        if client is not None:
            pair = ":".join(quote(part, safe="") for part in client)
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return self._send(urllib.request.Request(url, urlencode(fields).encode(), headers, method="POST"))

    def _send(self, request: urllib.request.Request) -> dict[str, Any]:
        url = request.full_url
        require_secure_url(f"{OIDC}issuer", url)  # addresses of the discovery document too
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as response:
                body = response.read(_MAX_BYTES + 1)
        except urllib.error.HTTPError as e:
            with e:
                raise ConnectError(f"The OpenID Connect provider answered {e.code}{_oauth_error(e.read(4096))} at {url}") from e
        except (OSError, ValueError) as e:
            raise UnreachableError(f"The OpenID Connect provider does not answer at {url}: {e}") from e
        if len(body) > _MAX_BYTES:
            raise ConnectError(f"The OpenID Connect provider answered with more than {_MAX_BYTES} bytes at {url}")
        try:
            found = json.loads(body)
        except ValueError as e:
            raise ConnectError(f"The OpenID Connect provider did not answer with JSON at {url}") from e
        if not isinstance(found, dict):
            raise ConnectError(f"The OpenID Connect provider did not answer with a JSON object at {url}")
        return found


def _oauth_error(body: bytes) -> str:
    """Returns the error code of an OAuth error response, such as invalid_grant. Descriptions may contain secrets."""
    try:
        code = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return f" ({code})" if isinstance(code, str) and code.isascii() and len(code) < 60 and code.isprintable() else ""
