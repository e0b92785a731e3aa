"""Limits of a connection hold however a client cuts what it sends: in one piece, byte by byte, or in trailers."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator

import pytest
from starlette.types import Message, Receive, Scope, Send

from rest.middleware.request_body import RequestBodyLimit
from rest.rest_server import RestServer
from rest.server import connection
from rest.server.listeners import ListenSettings
from rest.settings import RestSettings
from tests.support.waiting import WAIT_S
from tests.unit.rest.fake_herder import FakeHerder

LIMIT = 4096


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = RestServer.bind(
        ListenSettings(("http://127.0.0.1:0",)), RestSettings(max_request_bytes=1000, max_header_bytes=LIMIT)
    )
    server.start(FakeHerder())
    yield server.ports[0]
    server.stop(1)


def exchange(port: int, *pieces: bytes) -> bytes:
    """Sends the pieces, each as one segment, and returns everything up to the end of the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece in pieces:
                sock.sendall(piece)
            return b"".join(iter(lambda: sock.recv(65536), b""))
        except (ConnectionResetError, BrokenPipeError):
            return b""


def get(headers: bytes, path: bytes = b"/connectors") -> bytes:
    return b"GET " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + headers + b"\r\n"


@pytest.mark.parametrize(
    "request_head",
    [
        get(b"X-Long: " + b"x" * LIMIT + b"\r\n"),
        get(b"".join(b"X-%d: y\r\n" % number for number in range(LIMIT // 8))),
        get(b"", b"/connectors?" + b"x" * LIMIT),
        get(b"X" * LIMIT + b": y\r\n"),
    ],
    ids=["value", "many headers", "query", "name"],
)
def test_head_over_the_limit_is_refused_in_one_piece_too(request_head: bytes, port: int) -> None:
    answer = exchange(port, request_head)
    assert answer.startswith(b"HTTP/1.1 431 "), answer[:100]
    assert answer.count(b"HTTP/1.1") == 1
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error_code"] == 431


def test_head_below_the_limit_is_accepted(port: int) -> None:
    assert exchange(port, get(b"X-Long: " + b"x" * (LIMIT - 200) + b"\r\n")).startswith(b"HTTP/1.1 200 ")


CHUNKED = (
    b"PUT /connectors/c/config HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def test_one_huge_chunk_is_refused(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as sock:
        # Kept alive, so that the rest is read and dropped and the client gets the answer.
        sock.sendall(CHUNKED.replace(b"Connection: close\r\n", b""))
        sock.sendall(b"100000\r\n" + b"x" * 0x100000 + b"\r\n0\r\n\r\n")
        assert sock.makefile("rb").readline().startswith(b"HTTP/1.1 413 ")


def test_trailers_are_limited_and_never_become_headers(port: int) -> None:
    body = b'{"connector.class": "x"}'
    chunk = b"%x\r\n%s\r\n" % (len(body), body)
    assert exchange(port, CHUNKED, chunk + b"0\r\nContent-Type: text/plain\r\nX-T: y\r\n\r\n").startswith(b"HTTP/1.1 201 ")
    assert b"HTTP/1.1 20" not in exchange(port, CHUNKED, chunk + b"0\r\nX-T: " + b"y" * 3 * LIMIT + b"\r\n\r\n")


def test_rest_of_a_body_that_nobody_waits_for_cannot_hold_the_connection(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "DRAIN_TIMEOUT_S", 0.2)
    head = b"PUT /connectors/c/config HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
    assert exchange(port, head + b"{").startswith(b"HTTP/1.1 413 "), "closed, although the client keeps it open"


def test_body_that_trickles_in_is_given_up() -> None:
    async def run() -> Message:
        sent: list[Message] = []

        async def trickle() -> Message:
            await asyncio.sleep(0)
            return {"type": "http.request", "body": b"x", "more_body": True}

        async def read_all(scope: Scope, receive: Receive, send: Send) -> None:
            while True:
                await receive()

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "PUT", "path": "/", "headers": []}
        await RequestBodyLimit(read_all, max_bytes=10**9, total_timeout_s=0.05)(scope, trickle, send)
        return sent[0]

    from rest.errors import BodyTooSlowError

    with pytest.raises(BodyTooSlowError, match="has not arrived within"):
        asyncio.run(run())
