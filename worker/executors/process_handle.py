"""The control process's handle of one executor process, from its start to its exit."""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from connect.errors import ConnectError
from connect.worker_lifetime import WorkerLifetime
from worker.executors.channel import Channel, ChannelClosedError, Handler
from worker.executors.futures import fail
from worker.executors.launch import Launched, launch
from worker.executors.liveness import Liveness
from worker.executors.pending_calls import PendingCalls
from worker.executors.placement import ProcessKind

log = logging.getLogger(__name__)

_STACKS_SIGNAL = signal.SIGUSR1  # worker.executors.child handles it
_EXIT_SILENCE = 75
_STACKS_TIMEOUT_S = 1.0
_START_TIMEOUT_S = 120.0
_LINGER_S = 1.0
"""How long a process may live on once its socket is closed."""
_MAX_THREADS = 5000
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """What kind of process to start."""

    key: str
    """Names it in logs and among the processes of a worker."""
    environment: Path | None = None
    memory_limit_bytes: int | None = None
    kind: ProcessKind = ProcessKind.SHARED


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """Why a process has exited."""

    text: str
    """The reason, as the rest of a sentence about the process."""
    is_permanent: bool = False
    """Another start would exit the same way: it could not start, or it needs more memory than it may have."""
    was_requested: bool = False
    """It was dismissed."""
    is_excused: bool = False
    """The connectors and tasks in it did not cause the exit."""


class ProcessHandle:
    """Created by the registry; its supervisor calls :meth:`spawn`, :meth:`check`, and :meth:`reap`. Other methods are safe from
    any thread; calls made before the process runs wait for it."""

    def __init__(
        self,
        spec: ProcessSpec,
        handler: Callable[[ProcessHandle], Handler],
        start_arguments: Mapping[str, Any],
        hang_timeout_s: float,
        *,
        with_crash_points: bool,
        lifetime: WorkerLifetime | None = None,
    ) -> None:
        self.spec = spec
        self.ready: Future[list[str]] = Future()
        """Done when the process has the worker's settings; the result is the secret keys among them."""
        self.ended = threading.Event()
        self.is_cleaned_up = False
        """Set by the pool when it has handled the exit of the process."""
        self._handler = handler(self)
        self._start_arguments = start_arguments
        self._launch = partial(launch, with_crash_points=with_crash_points, lifetime=lifetime)
        self._calls = PendingCalls()
        self._liveness = Liveness(hang_timeout_s)
        self._pid: int | None = None
        self._launched: Launched | None = None
        self._launched_at = 0.0
        self._exit: ProcessExit | None = None
        self._closed_at: float | None = None
        self._thread_names: dict[int, str] = {}

    @property
    def key(self) -> str:
        return self.spec.key

    @property
    def pid(self) -> int | None:
        return self._pid

    # --- calls

    def call(self, method: str, /, **arguments: Any) -> Future[Any]:
        """The future has the answer, the process's error, or ChannelClosedError when the process ends first."""
        return self._calls.call(method, arguments)

    def notify(self, method: str, /, **arguments: Any) -> None:
        """Sends a message without an answer. It is dropped when the process has ended."""
        self._calls.notify(method, arguments)

    @property
    def has_open_calls(self) -> bool:
        """Whether a caller waits for an answer."""
        return self._calls.has_open_calls

    # --- lifecycle, on the supervisor's thread

    def spawn(self) -> None:
        """Starts the process, unless it was ended already. A failure is reported as its exit."""
        if self._exit is not None:
            self._closed_at = 0.0
            return
        try:
            launched = self._launch(self.key, self.spec.environment)
        except OSError as e:
            self._exit = ProcessExit(f"could not be started: {e}", is_permanent=True)
            self._closed_at = 0.0
            return
        self._launched = launched
        self._launched_at = time.monotonic()
        self._pid = launched.popen.pid
        channel = Channel(launched.connection, self._handler, f"executor-{self.key}")
        channel.start()
        started = channel.call("begin", **self._start_arguments)
        started.add_done_callback(self._on_started)
        self._calls.connect(channel)

    def _on_started(self, started: Future[Any]) -> None:
        error = started.exception()
        if error is None:
            log.debug("Executor %s runs as process %s", self.key, self._pid)
            self.ready.set_result([str(key) for key in started.result()])
            return
        if not isinstance(error, ChannelClosedError):
            self.kill(f"could not start: {error}", is_permanent=True)
        self.ready.set_exception(error)

    def on_closed(self, reason: str) -> None:
        """The socket is closed."""
        if reason and self._exit is None:
            self._exit = ProcessExit(f"was killed: {reason}")
        self._closed_at = time.monotonic()

    def note_thread(self, ident: int, name: str) -> None:
        """Remembers what a thread of the process runs, for the log if it hangs."""
        if len(self._thread_names) >= _MAX_THREADS:
            self._thread_names.clear()  # most of them ended long ago
        self._thread_names[ident] = name

    def kill(self, text: str, *, is_permanent: bool = False) -> None:
        """Ends the process now. The text is the reason, as the rest of a sentence about the process."""
        if self._exit is None:
            self._exit = ProcessExit(text, is_permanent)
        launched = self._launched
        if launched is not None and launched.popen.poll() is None:
            launched.popen.kill()

    def check(self, now: float) -> None:
        """Pings the process, and kills it when it hangs or uses too much memory."""
        if self._launched is None or self._closed_at is not None:
            return
        limit = self.spec.memory_limit_bytes
        if limit is not None and (used := resident_bytes(self._launched.popen.pid)) > limit:
            text = f"used {used // _MIB} MiB of memory, and task.memory.limit.mb is {limit // _MIB}: it was killed. "
            self.kill(text + "Raise the limit, or configure the connector to buffer less", is_permanent=True)
            return
        if not self.ready.done():
            # A busy machine takes its time to start a process; that is not hanging.
            if now - self._launched_at > _START_TIMEOUT_S:
                self.kill(f"did not start within {_START_TIMEOUT_S:g} s and was killed", is_permanent=True)
            return
        if self._liveness.is_answered:
            self._ping(now)
        elif self._liveness.is_hanging(now):
            self._kill_hanging()

    def unanswered_s(self, now: float) -> float:
        """Returns how long the process has not answered a ping; 0 if it has."""
        return self._liveness.unanswered_s(now)

    def _ping(self, now: float) -> None:
        channel = self._calls.channel
        assert channel is not None
        self._liveness.on_ping(now)

        def on_answer(answer: Future[Any]) -> None:
            if answer.exception() is None:
                self._liveness.on_answer()

        channel.call("ping").add_done_callback(on_answer)

    def _kill_hanging(self) -> None:
        stacks = self._stacks()
        log.error(
            "Executor %s (process %s) does not respond. Stacks of its threads:\n%s", self.key, self._pid, stacks or "(unknown)"
        )
        self.kill(
            f"did not answer for {self._liveness.hang_timeout_s * 1000:.0f} ms (task.executor.hang.timeout.ms) and was "
            "killed: code of a connector blocks all others, as a native library that holds Python's global lock does; the log "
            "has the stack of each thread"
        )

    def _stacks(self) -> str:
        """The stack of each thread, with the names of the threads."""
        assert self._launched is not None
        self._launched.popen.send_signal(_STACKS_SIGNAL)  # does nothing if the process has just exited
        deadline = time.monotonic() + _STACKS_TIMEOUT_S
        text = ""
        while "Current thread" not in text and time.monotonic() < deadline:
            threading.Event().wait(0.05)
            text = os.pread(self._launched.stacks, _MIB, 0).decode("utf-8", "replace")
        names = dict(self._thread_names)
        return re.sub(r"0x[0-9a-f]{16}", lambda found: names.get(int(found[0], 16), found[0]), text).strip()

    def dismiss(self) -> None:
        """Ends a process that is no longer needed, by closing its socket."""
        if self._exit is None:
            self._exit = ProcessExit("was no longer needed", was_requested=True, is_excused=True)
        channel = self._calls.channel
        if channel is not None:
            channel.close()

    def reap(self, now: float) -> ProcessExit | None:
        """Why the process has exited, once it has. By then it was waited for, and all open calls have failed."""
        launched = self._launched
        if launched is None:
            return self._finish() if self._closed_at is not None else None
        code = launched.popen.poll()
        if code is None:
            if self._closed_at is not None and now - self._closed_at > _LINGER_S:
                self.kill("closed its socket and did not exit")
            return None
        if self._exit is None:
            self._exit = ProcessExit(_exit_text(code), is_excused=code == _EXIT_SILENCE)
        return self._finish()

    def _finish(self) -> ProcessExit:
        self._calls.end()
        channel = self._calls.channel
        if channel is not None:
            channel.close()
            channel.join(1.0)
        if self._launched is not None:
            os.close(self._launched.stacks)
            self._launched = None
        assert self._exit is not None
        self.ended.set()
        if not self.ready.done():
            fail(self.ready, ConnectError(f"The executor {self.key} {self._exit.text}"))
        return self._exit

    @property
    def is_closed(self) -> bool:
        """Whether its socket is closed, so that it exits within moments."""
        return self._closed_at is not None

    @property
    def exit_is_excused(self) -> bool:
        """Whether another process may do better with the same settings."""
        return self._exit is not None and self._exit.is_excused

    @property
    def is_ending(self) -> bool:
        """Whether it takes no more work."""
        return self._exit is not None or self._closed_at is not None


def _exit_text(code: int) -> str:
    if code == _EXIT_SILENCE:
        return "exited because it heard nothing from the worker for too long: the worker was frozen, or the machine overloaded"
    if code >= 0:
        return f"exited with code {code}: code of a connector ended the process"
    try:
        name = f" ({signal.Signals(-code).name})"
    except ValueError:
        name = ""
    advice: dict[int, str] = {
        signal.SIGKILL: ". The worker did not do this: an operator did, or the kernel because memory was short (see dmesg)",
        signal.SIGSEGV: ": a native library that a connector uses is at fault",
        signal.SIGABRT: ": a native library that a connector uses gave up",
        signal.SIGBUS: ": a native library that a connector uses is at fault",
    }
    return f"was ended by signal {-code}{name}{advice.get(-code, '')}"


_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def resident_bytes(pid: int) -> int:
    """Resident memory of a process with its descendants; 0 if it has ended.

    A descendant that leads a session of its own does not count, nor do its descendants: it serves the whole worker.
    """
    total = 0
    with suppress(OSError, ValueError, IndexError):
        total = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    return total + sum(map(resident_bytes, _children(pid)))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return [child for child in found if not _leads_session(child)]


def _leads_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except ProcessLookupError:
        return False
