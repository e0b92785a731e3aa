"""An S3 server for tests: moto, in its own process; and a proxy that disturbs commits."""

from __future__ import annotations

import contextlib
import http.client
import os
import subprocess
import sys
import threading
import urllib.request
import uuid
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from pyarrow import fs

from tests.support.waiting import WAIT_S

_PROGRAM = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""

_HOP_BY_HOP = ("connection", "expect", "transfer-encoding")


class EmbeddedS3:
    """A server without data; it ends with this process."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        assert self._child.stdout is not None
        self.endpoint = f"http://127.0.0.1:{int(self._child.stdout.readline())}"

    @property
    def environment(self) -> Mapping[str, str]:
        """The standard variables with which clients find the server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def create_bucket(self) -> str:
        """Creates an empty bucket and returns its name."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        self.open_files().create_dir(name)
        return name

    def open_files(self) -> fs.S3FileSystem:
        return fs.S3FileSystem(
            access_key="test",
            secret_key="test",
            region="us-east-1",
            scheme="http",
            endpoint_override=self.endpoint.removeprefix("http://"),
            allow_bucket_creation=True,
        )

    def check_credentials(self) -> None:
        """Rejects all requests from now on: the server knows no credentials."""
        self._set_requests_without_check("0")

    def accept_credentials(self) -> None:
        self._set_requests_without_check("inf")

    def _set_requests_without_check(self, number: str) -> None:
        headers = {"Content-Type": "text/plain"}
        request = urllib.request.Request(f"{self.endpoint}/moto-api/reset-auth", number.encode(), headers)
        with urllib.request.urlopen(request, timeout=WAIT_S):
            pass

    def stop(self) -> None:
        """Stops the server and waits for its end."""
        self._child.communicate()

    @property
    def storage_options(self) -> dict[str, str]:
        """delta-rs' settings of the server."""
        return {**self.environment, "AWS_ALLOW_HTTP": "true"}


class DisturbedS3:
    """A proxy of an S3 server that disturbs conditional PUTs."""

    def __init__(self, s3: EmbeddedS3) -> None:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                proxy._forward(self)

            do_PUT = do_POST = do_HEAD = do_DELETE = do_GET

            def log_message(self, format: str, *args: Any) -> None: ...

        self._host = urlsplit(s3.endpoint).netloc
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="s3-proxy", daemon=True)
        self._thread.start()
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        self.ignores_condition = False
        """Whether it hides the condition from the server."""
        self._held = threading.Event()
        self._released = threading.Event()
        self._released.set()
        self._answers_to_lose = 0
        self.is_down = False
        """Whether it closes connections without an answer."""

    def hold_next_put(self) -> None:
        self._held.clear()
        self._released.clear()

    def wait_until_held(self) -> None:
        assert self._held.wait(WAIT_S)

    def release(self) -> None:
        self._released.set()

    def lose_next_answer(self) -> None:
        """The server executes the next conditional PUT, and the client does not get its answer."""
        self._answers_to_lose = 1

    def _forward(self, request: BaseHTTPRequestHandler) -> None:
        body = _read_body(request)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        if self.is_down:
            request.close_connection = True
            return
        is_conditional = request.command == "PUT" and "If-None-Match" in request.headers
        if is_conditional and not self._released.is_set():
            self._held.set()
            self._released.wait(WAIT_S)
        if self.ignores_condition:
            headers = {name: value for name, value in headers.items() if name.lower() != "if-none-match"}
        with contextlib.closing(http.client.HTTPConnection(self._host, timeout=WAIT_S)) as connection:
            connection.request(request.command, request.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        if is_conditional and self._answers_to_lose:
            self._answers_to_lose -= 1
            request.close_connection = True
            return
        request.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in (*_HOP_BY_HOP, "content-length"):
                request.send_header(name, value)
        length = answer.getheader("Content-Length") if request.command == "HEAD" else str(len(content))
        request.send_header("Content-Length", length or "0")
        request.end_headers()
        request.wfile.write(content)

    def stop(self) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _read_body(request: BaseHTTPRequestHandler) -> bytes:
    if request.headers.get("Transfer-Encoding") != "chunked":
        return request.rfile.read(int(request.headers.get("Content-Length", 0)))
    body = b""
    while size := int(request.rfile.readline(), 16):
        body += request.rfile.read(size)
        request.rfile.readline()
    request.rfile.readline()
    return body
