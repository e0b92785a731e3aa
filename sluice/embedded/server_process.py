"""The process of an embedded server.

Its PID file identifies it, so that another object for the same directory controls the same server.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from connect.errors import IllegalStateError
from sluice.embedded import process


class ServerProcess:
    """``name`` is for messages. The directory gets ``<stem>.log`` and ``<stem>.pid``. Not thread-safe."""

    def __init__(
        self, name: str, data_dir: Path, stem: str, *, death_signal: signal.Signals | None, kill_tree: bool = False
    ) -> None:
        """``death_signal`` is sent when this process ends (Linux); with ``kill_tree`` the server's children are killed too."""
        self.name = name
        self.log_file = data_dir / f"{stem}.log"
        self._data_dir = data_dir
        self._pid_file = process.PidFile(data_dir / f"{stem}.pid")
        self._death_signal = death_signal
        self._kill_tree = kill_tree
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> process.Server | None:
        """The process while it runs. It may still be starting."""
        return self._pid_file.read()

    def wait_if_running(self, requested_port: int | None, answers: Callable[[], bool], timeout_s: float) -> bool:
        """Returns whether the server already runs; waits until it serves requests.

        Raises `IllegalStateError` when it runs on a port other than the requested one, `ConnectError` when it does not respond.
        """
        server = self.running
        if server is None:
            return False
        if requested_port not in (None, server.port):
            raise IllegalStateError(
                f"{self.name} in {self._data_dir} already runs on port {server.port} (pid {server.pid}); stop it first"
            )
        process.wait_answer(self.name, server, answers, self.log_file, timeout_s)
        return self.running is not None

    def launch(
        self,
        command: Sequence[str | Path],
        port: int,
        is_ready: Callable[[], bool],
        timeout_s: float,
        *,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> None:
        """Starts the server and waits until it is ready. Raises `ConnectError` with the end of its log; then nothing runs."""
        log_from = process.log_size(self.log_file)
        with process.interrupts_deferred():
            child = self._child = process.spawn(
                command,
                log=self.log_file,
                cwd=self._data_dir,
                environment=environment,
                user=user,
                death_signal=self._death_signal,
            )
            self._pid_file.write(child.pid, port)
        try:
            process.wait_ready(self.name, child, is_ready, self.log_file, log_from, timeout_s)
        except BaseException:
            self.end(signal.SIGKILL, 10.0)
            raise

    def end(self, first: signal.Signals, grace_s: float) -> bool:
        """Stops the server: ``first``, then SIGKILL after ``grace_s``. Returns, once it has ended, whether it was running."""
        server = self.running
        if server is not None:
            process.end(server, first=first, grace_s=grace_s, kill_tree=self._kill_tree)
        if self._child is not None:
            self._child.wait(10)
            self._child = None
        self._pid_file.remove()
        return server is not None
