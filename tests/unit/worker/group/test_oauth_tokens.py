"""OAuth tokens of a member, from a web server that says what it is asked."""

from __future__ import annotations

import base64
import http.server
import threading
import urllib.parse
from collections.abc import Iterator

import pytest

from connect.errors import ConnectError, UnreachableError
from sluice.embedded.ports import free_ports
from worker.group.oauth_tokens import OAuthTokens, TokenEndpoint


class Server(http.server.HTTPServer):
    """Answers each request with the next answer."""

    answers: list[tuple[int, str]]
    asked: list[tuple[str, dict[str, list[str]]]]


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        login = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        self.server.asked.append((login, form))
        status, body = self.server.answers.pop(0)
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    server.answers, server.asked = [], []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, name="token-server")
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def tokens_of(server: Server, scope: str | None = None) -> OAuthTokens:
    return OAuthTokens(TokenEndpoint(f"http://127.0.0.1:{server.server_port}/token", "me", "s3cret", scope))


def test_token_is_requested_with_the_client_credentials(server: Server) -> None:
    server.answers = [(200, '{"access_token": "t1", "expires_in": 3600}')]
    tokens = tokens_of(server, "kafka")
    with pytest.raises(ConnectError, match="no OAuth token yet"):
        tokens.current()
    tokens.fetch()
    assert tokens.current() == "t1"
    assert server.asked == [("me:s3cret", {"grant_type": ["client_credentials"], "scope": ["kafka"]})]
    tokens.renew_if_due()
    tokens.close()
    assert len(server.asked) == 1


def test_expiring_token_is_renewed_and_retained_when_that_fails(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.answers = [
        (200, '{"access_token": "t1", "expires_in": 0}'),
        (200, '{"access_token": "t2", "expires_in": 0}'),
        (500, ""),
    ]
    tokens = tokens_of(server)
    tokens.fetch()
    tokens.renew_if_due()
    tokens.close()
    assert tokens.current() == "t2"
    tokens.renew_if_due()
    tokens.close()
    assert tokens.current() == "t2"
    assert "could not be renewed" in caplog.text
    assert "s3cret" not in caplog.text
    # Not at once again.
    tokens.renew_if_due()
    tokens.close()
    assert len(server.asked) == 3


@pytest.mark.parametrize(
    "answer", [(401, "{}"), (200, "no json"), (200, "[]"), (200, '{"access_token": "t", "expires_in": "x"}')]
)
def test_refusal_says_what_to_check(server: Server, answer: tuple[int, str]) -> None:
    server.answers = [answer]
    with pytest.raises(
        ConnectError, match=f"returned {answer[0]} to client me. Check clientId, clientSecret and scope"
    ) as caught:
        tokens_of(server).fetch()
    assert "s3cret" not in caught.value.message


def test_unavailable_endpoint_raises() -> None:
    (port,) = free_ports(1)
    with pytest.raises(UnreachableError, match="does not respond"):
        OAuthTokens(TokenEndpoint(f"http://127.0.0.1:{port}/", "me", "s3cret")).fetch()
