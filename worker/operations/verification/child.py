"""The process of one verification: ``sluice verify``, which asks this worker through a socket instead of REST.

So it needs no address, credentials, or certificates of the REST API, and it ends with the worker: by the closed socket, or by the
kernel. It leads a process group, which is killed when it has ended.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from worker.executors.channel import Channel
from worker.executors.deadlines import Deadlines
from worker.executors.serial_queue import SerialQueue

Answer = Callable[[str, Mapping[str, Any]], Any]
"""Answers a call of the process: a method and its arguments. May block."""

COMMAND = (sys.executable, "-P", "-c", "from sluice.cli import main; main()", "verify")
"""The command line is found at run time: this package does not import it."""
_TERMINATE_S = 2.0
_TAIL_BYTES = 8192


class VerificationChild:
    """Created, asked, and closed by one thread, which must live as long as the process: the kernel ends both together."""

    def __init__(self, connector: str, words: Sequence[str], answer: Answer, command: Sequence[str] = COMMAND) -> None:
        """Starts the process with these words after the command. Raises OSError."""
        ours, theirs = socket.socketpair()
        self._errors = os.memfd_create("sluice-verify")
        try:
            self._process = subprocess.Popen(
                [*command, *words, f"--worker-link={theirs.fileno()}:{os.getpid()}", "--", connector],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            os.close(self._errors)
            raise
        finally:
            theirs.close()
        self._channel = Channel(ours, _Requests(connector, answer), f"verify-{connector}")
        self._channel.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def has_ended(self) -> bool:
        """Whether the process has ended. It is not waited for yet, so that nothing else gets its number."""
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def close(self) -> str | None:
        """Ends the process with all that it has started, within seconds. Returns why it failed; None if it has compared all."""
        if not self.has_ended():
            self._signal(signal.SIGTERM)
            deadline = time.monotonic() + _TERMINATE_S
            while not self.has_ended() and time.monotonic() < deadline:
                threading.Event().wait(0.05)
        self._signal(signal.SIGKILL)
        code = self._process.wait()
        self._channel.close()
        self._channel.join(1.0)
        size = os.fstat(self._errors).st_size
        text = os.pread(self._errors, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode("utf-8", "replace")
        os.close(self._errors)
        return None if code == 0 else _reason(code, text)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


class _Requests:
    """Answers the calls of a process one after another, on a thread that exists while there are any."""

    def __init__(self, connector: str, answer: Answer) -> None:
        self._answer = answer
        self._queue = SerialQueue(f"verify-{connector}-calls", connector, Deadlines())

    def on_call(self, method: str, arguments: Mapping[str, Any]) -> Future[Any]:
        return self._queue.submit(lambda: self._answer(method, arguments))

    def on_notification(self, method: str, arguments: Mapping[str, Any]) -> None:
        """Ignores notifications: there are none."""

    def on_closed(self, reason: str) -> None:
        """Does nothing: the end of the process is noticed by itself."""


def _reason(code: int, errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    if code >= 0:
        return lines[-1].removeprefix("error: ") if lines else f"sluice verify ended with exit code {code} and no message"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    advice = ": the kernel does so when memory is short (see dmesg)" if -code == signal.SIGKILL else ""
    return f"sluice verify was ended by {name}{advice}"
