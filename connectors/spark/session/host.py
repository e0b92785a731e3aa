"""The host process: owns one Spark JVM and gives its address to the processes of one worker.

It ends, with the JVM: ``spark.linger.ms`` after its last client has left, at once when the worker shuts down or dies, and when
the JVM ends. Its clients then see the end of their connection. A client that crashes only closes its connection.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from connect.errors import ConnectError
from connectors.spark.masters import is_local
from connectors.spark.session.cluster_watch import ClusterWatch
from connectors.spark.session.gateway import close_connection_of_thread
from connectors.spark.session.jvm import SparkJvm
from connectors.spark.session.rendezvous import Rendezvous
from connectors.spark.session.settings import LaunchPlan

_PING_TIMEOUT_S = 30.0
_OUT_OF_MEMORY = 3  # the exit code of -XX:+ExitOnOutOfMemoryError


class SparkHost:
    """Serves clients on one thread; another one starts the JVM."""

    def __init__(self, listener: socket.socket, worker: int, place: Rendezvous, plan: LaunchPlan) -> None:
        self._listener = listener
        self._worker = worker
        self._place = place
        self._plan = plan
        self._selector = selectors.DefaultSelector()
        self._clients: dict[socket.socket, int] = {}
        self._waiting: list[socket.socket] = []
        self._jvm: SparkJvm | None = None
        self._jvm_exit = -1
        self._is_ready = False
        self._wake_up = socket.socketpair()
        self._error: ConnectError | None = None
        self._leave_at: float | None = None
        self._starter = threading.Thread(target=self._start, name="spark-start", daemon=True)
        self._watch: ClusterWatch | None = None

    def run(self) -> None:
        """Returns when the JVM has ended."""
        try:
            self._jvm = SparkJvm(self._plan)
            self._jvm_exit = os.pidfd_open(self._jvm.process.pid)
            self._starter.start()
            for source in (self._listener, self._worker, self._wake_up[1], self._jvm_exit):
                self._selector.register(source, selectors.EVENT_READ)
            reason = self._serve()
        except (ConnectError, OSError) as e:
            reason = str(e)
        except SystemExit:
            reason = "its host was stopped"
        self._close(reason)

    def _start(self) -> None:
        assert self._jvm is not None
        try:
            self._jvm.create_context()
            self._is_ready = True
        except ConnectError as e:
            self._error = e
        self._wake_up[0].send(b"!")
        if self._is_ready and not is_local(self._plan.master):
            self._watch_cluster()

    def _watch_cluster(self) -> None:
        assert self._jvm is not None
        try:
            self._watch = ClusterWatch(self._jvm.context, self._plan.conf, self._plan.executors_timeout_s)
            has_to_end = self._watch.run()
        except Exception:
            return  # the JVM has ended, which its exit code explains
        finally:
            close_connection_of_thread(self._jvm.gateway)
        if has_to_end:
            self._jvm.process.kill()

    def _serve(self) -> str:
        """Returns why the host ends; empty when nobody needs it."""
        while True:
            timeout = None if self._leave_at is None else max(0.0, self._leave_at - time.monotonic())
            events = [key.fileobj for key, _ in self._selector.select(timeout)]
            if self._worker in events:
                return ""
            if self._wake_up[1] in events:
                self._wake_up[1].recv(1)
                if self._error is not None:
                    return self._error.message
                waiting, self._waiting = self._waiting, []
                for client in waiting:
                    self._answer(client)
            if self._jvm_exit in events:
                if not self._is_ready:
                    self._starter.join()  # it notices the exit, too
                return self._error.message if self._error is not None else self._describe_exit()
            if self._listener in events:
                self._accept()
            for source in events:
                if isinstance(source, socket.socket) and source in self._clients:
                    self._hear(source)
            if self._leave_at is not None and time.monotonic() >= self._leave_at and self._withdraw():
                return ""

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        self._clients[client] = 0
        self._leave_at = None
        self._selector.register(client, selectors.EVENT_READ)

    def _hear(self, client: socket.socket) -> None:
        """A client says once, in one line, how long to linger after it; then it can only leave."""
        try:
            data = client.recv(4096)
        except OSError:
            data = b""
        if data:
            self._clients[client] = int(json.loads(data)["linger_ms"])
            if self._is_ready:
                self._answer(client)
            else:
                self._waiting.append(client)
            return
        self._selector.unregister(client)
        linger_ms = self._clients.pop(client)
        if client in self._waiting:
            self._waiting.remove(client)
        client.close()
        if not self._clients:
            self._leave_at = time.monotonic() + linger_ms / 1000

    def _answer(self, client: socket.socket) -> None:
        assert self._jvm is not None
        jvm = self._jvm

        def answer() -> None:
            checked = threading.Thread(target=lambda: pings.append(jvm.ping()), name="spark-ping", daemon=True)
            checked.start()
            checked.join(_PING_TIMEOUT_S)
            if pings == [True]:
                _send(client, {"port": jvm.port, "token": jvm.token, "pid": jvm.process.pid})
            else:
                jvm.process.kill()  # it hangs; all clients see that it ends, and start another

        pings: list[bool] = []
        threading.Thread(target=answer, name="spark-answer", daemon=True).start()

    def _withdraw(self) -> bool:
        """Removes the socket so that nobody connects any more; False if somebody just has."""
        with self._place.locked():
            self._listener.setblocking(False)
            try:
                client, _ = self._listener.accept()
            except BlockingIOError:
                self._place.remove()
                self._listener.close()
                return True
        self._listener.setblocking(True)
        client.setblocking(True)
        self._clients[client] = 0
        self._leave_at = None
        self._selector.register(client, selectors.EVENT_READ)
        return False

    def _describe_exit(self) -> str:
        assert self._jvm is not None
        code = self._jvm.process.wait()
        if self._watch is not None and self._watch.reason_to_end is not None:
            return self._watch.reason_to_end
        if code == _OUT_OF_MEMORY:
            return "it ran out of memory; raise spark.conf.spark.driver.memory, or lower commit.max.records"
        return f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"

    def _close(self, reason: str) -> None:
        if self._watch is not None:
            self._watch.close()
        if self._listener.fileno() != -1:
            with self._place.locked():
                self._place.remove()
                self._listener.close()
        for client in self._clients:
            if reason:
                _send(client, {"error": reason, "was_ready": self._is_ready})
            client.close()
        if self._jvm is not None:
            if not self._is_ready:
                self._jvm.process.kill()  # it does not watch its standard input yet
            self._jvm.stop()


def _send(client: socket.socket, message: dict[str, Any]) -> None:
    try:
        client.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        return  # it has left


def main() -> NoReturn:
    """Arguments: descriptors of the listening socket and of the worker's lifetime, import paths. Standard input has the plan."""
    listener, worker = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    listener.set_inheritable(False)
    os.set_inheritable(worker, False)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    given = json.loads(sys.stdin.buffer.read())
    place = Rendezvous(folder=Path(given["folder"]), name=given["name"])
    SparkHost(listener, worker, place, LaunchPlan(**given["plan"])).run()
    # Not after daemon threads, which may hang with the JVM.
    os._exit(0)
