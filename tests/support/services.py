"""The servers that all processes of a test run share: a broker, a schema registry, and Spark's JVM.

The process in which pytest was started owns them (with pytest-xdist, its controller). It starts each when a test first asks, and
ends them all, however it ends itself. The test processes ask over a socket, then use their own handles for the same directories.
Databases are not shared: their logs, settings, and counters are what tests of change capture are about.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
import threading
from pathlib import Path

from connect.worker_lifetime import VARIABLE, WorkerLifetime
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.server import EmbeddedServer
from tests.support.registry import EmbeddedRegistry

_STOP_S = 60.0
_START_S = 240.0


class SharedBroker(EmbeddedBroker):
    """A handle of the shared broker, for tests."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "broker", dies_with_parent=True, short_lived=True)

    def stop(self, grace_s: float = 0.0) -> bool:
        raise AssertionError(_SHARED)

    def kill(self) -> bool:
        raise AssertionError(_SHARED)


_SHARED = "other tests use this broker, too: mark the test with @pytest.mark.harms_broker to get another one"


def shared_registry(folder: Path) -> EmbeddedRegistry:
    """A handle of the shared registry, without a port until it runs."""
    return EmbeddedRegistry(folder / "registry", dies_with_parent=True)


class ServiceOwner:
    """Starts and ends the shared servers. One thread serves the requests, because the kernel kills a server when the thread that
    started it ends."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sluice-tests-"))
        # The unprivileged users of database servers have to reach their directories.
        self.folder.chmod(0o755)
        self._servers: dict[str, EmbeddedServer] = {
            "broker": EmbeddedBroker(self.folder / "broker", dies_with_parent=True, short_lived=True),
            "registry": shared_registry(self.folder),
        }
        self._spark = WorkerLifetime()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(_socket_in(self.folder)))
        self._listener.listen(64)
        threading.Thread(target=self._serve, name="test-services", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            with client:
                self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        asked = client.recv(100).decode()
        if asked == "spark":
            socket.send_fds(client, [json.dumps({"id": self._spark.scope.id}).encode()], [self._spark.scope.descriptor])
            return
        try:
            self._servers[asked].start(_START_S)
            answer = {"error": ""}
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}
        client.sendall(json.dumps(answer).encode())

    def close(self) -> None:
        """Ends all servers and removes their directories."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._spark.end(_STOP_S)
        for server in self._servers.values():
            server.remove()
        shutil.rmtree(self.folder, ignore_errors=True)


def ensure_started(folder: Path, server: str) -> None:
    """Has the owner of the servers in ``folder`` start one, unless it runs."""
    error = json.loads(_ask(folder, server)[0])["error"]
    assert not error, error


def share_spark(folder: Path) -> None:
    """Lets this process's sessions of Spark use the JVM that all test processes share."""
    if VARIABLE not in os.environ:
        answer, descriptor = _ask(folder, "spark")
        # As if a worker had started this process as an executor.
        os.environ[VARIABLE] = f"{os.getppid()}:{descriptor}:{json.loads(answer)['id']}"


def _ask(folder: Path, what: str) -> tuple[bytes, int]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(_socket_in(folder)))
        connection.sendall(what.encode())
        answer, descriptors, _, _ = socket.recv_fds(connection, 100_000, 1)
    return answer, descriptors[0] if descriptors else -1


def _socket_in(folder: Path) -> Path:
    return folder / "services.sock"
