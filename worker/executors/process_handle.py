"""The control process's handle of one executor process: from its start to its end, for whatever reason it comes to one."""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connect.errors import ConnectError
from worker.executors.channel import Channel, ChannelClosedError, Handler
from worker.executors.futures import fail, pass_on
from worker.executors.launch import Launched, launch
from worker.executors.placement import HouseKind
from worker.executors.process_memory import resident_bytes

log = logging.getLogger(__name__)

_STACKS_SIGNAL = signal.SIGUSR1  # worker.executors.child listens to it
_EXIT_SILENCE = 75
_STACKS_WAIT_S = 1.0
_BEGIN_S = 120.0
_LINGER_S = 1.0
"""How long a process may live on once its socket is closed."""
_MOST_THREADS = 5000
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Housing:
    """What kind of process it is to be."""

    key: str
    """Names it: in logs, and among the processes of a worker."""
    environment: Path | None = None
    memory_limit_bytes: int | None = None
    kind: HouseKind = HouseKind.SHARED


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a process has ended, as the rest of a sentence about it."""

    text: str
    final: bool = False
    """Starting it anew would come to the same end: it could not begin, or it needs more memory than it may have."""
    asked_for: bool = False
    """It was dismissed."""
    blameless: bool = False
    """Nothing that was in it has to do with it."""


class ProcessHandle:
    """Made by the pool, whose supervisor calls :meth:`spawn`, :meth:`look` and :meth:`reap`. Other methods are for any thread;
    what is asked before the process is there waits for it."""

    def __init__(
        self,
        housing: Housing,
        handler: Callable[[ProcessHandle], Handler],
        begin: Mapping[str, Any],
        hang_timeout_s: float,
        *,
        with_crash_points: bool,
    ) -> None:
        self.housing = housing
        self.ready: Future[list[str]] = Future()
        """When it has taken the worker's settings: the secret keys among them."""
        self.ended = threading.Event()
        self.buried = False
        """Set by the pool, once it has seen to what was in a process that has ended."""
        self._handler = handler(self)
        self._begin = begin
        self._hang_timeout_s = hang_timeout_s
        self._with_crash_points = with_crash_points
        self._lock = threading.Lock()
        self._open_questions = 0
        self._waiting: list[tuple[Callable[[Channel], None], Future[Any] | None]] = []
        self._channel: Channel | None = None
        self._pid: int | None = None
        self._launched: Launched | None = None
        self._launched_at = 0.0
        self._ending: Ending | None = None
        self._ended = False
        self._closed_at: float | None = None
        self._pinged_at: float | None = None
        self._looked_at = 0.0
        self._not_looked_s = 0.0
        """Of the time since the latest ping, what does not count: nobody looked, for this process itself was held up."""
        self._threads: dict[int, str] = {}

    @property
    def key(self) -> str:
        return self.housing.key

    @property
    def pid(self) -> int | None:
        return self._pid

    # --- questions

    def ask(self, method: str, /, **arguments: Any) -> Future[Any]:
        """The future has the answer, an error of the other side, or ChannelClosedError when the process ends before."""
        outer: Future[Any] = Future()
        with self._lock:
            self._open_questions += 1
        outer.add_done_callback(self._close_question)
        self._now_or_later(lambda channel: pass_on(channel.ask(method, **arguments), outer, lambda value: value), outer)
        return outer

    def _close_question(self, _: Future[Any]) -> None:
        with self._lock:
            self._open_questions -= 1

    @property
    def is_asked(self) -> bool:
        """Whether somebody waits for an answer."""
        return self._open_questions > 0

    def tell(self, method: str, /, **arguments: Any) -> None:
        """Nobody hears it when the process has ended."""
        self._now_or_later(lambda channel: channel.tell(method, **arguments), None)

    def _now_or_later(self, send: Callable[[Channel], None], waits: Future[Any] | None) -> None:
        with self._lock:
            channel = self._channel
            if channel is None and not self._ended:
                self._waiting.append((send, waits))
                return
        if channel is not None:
            send(channel)
        elif waits is not None:
            fail(waits, _gone())

    # --- life, on the supervisor's thread

    def spawn(self) -> None:
        """Starts the process, unless it has been ended already. A failure is its ending."""
        if self._ending is not None:
            self._closed_at = 0.0
            return
        try:
            launched = launch(self.key, self.housing.environment, with_crash_points=self._with_crash_points)
        except OSError as e:
            self._ending = Ending(f"could not be started: {e}", final=True)
            self._closed_at = 0.0
            return
        self._launched = launched
        self._launched_at = time.monotonic()
        self._pid = launched.popen.pid
        channel = Channel(launched.connection, self._handler, f"executor-{self.key}")
        channel.start()
        begun = channel.ask("begin", **self._begin)
        begun.add_done_callback(self._on_begun)
        while True:
            with self._lock:
                if not self._waiting:
                    self._channel = channel
                    return
                waiting, self._waiting = self._waiting, []
            for send, _ in waiting:
                send(channel)

    def _on_begun(self, begun: Future[Any]) -> None:
        error = begun.exception()
        if error is None:
            log.debug("Executor %s runs as process %s", self.key, self._pid)
            self.ready.set_result([str(key) for key in begun.result()])
            return
        if not isinstance(error, ChannelClosedError):
            self.kill(f"could not begin: {error}", final=True)
        self.ready.set_exception(error)

    def on_closed(self, reason: str) -> None:
        """The socket is closed."""
        if reason and self._ending is None:
            self._ending = Ending(f"was killed, for {reason}")
        self._closed_at = time.monotonic()

    def note_thread(self, ident: int, name: str) -> None:
        """A thread of the process is about this."""
        if len(self._threads) >= _MOST_THREADS:
            self._threads.clear()  # most of them are long gone
        self._threads[ident] = name

    def kill(self, text: str, *, final: bool = False) -> None:
        """Ends the process now. The text says why, as the rest of a sentence about it."""
        if self._ending is None:
            self._ending = Ending(text, final)
        launched = self._launched
        if launched is not None and launched.popen.poll() is None:
            launched.popen.kill()

    def look(self, now: float) -> None:
        """Asks for a sign of life, and ends a process that gives none or takes too much memory."""
        if self._launched is None or self._closed_at is not None:
            return
        limit = self.housing.memory_limit_bytes
        if limit is not None and (used := resident_bytes(self._launched.popen.pid)) > limit:
            text = f"used {used // _MIB} MiB of memory, and task.memory.limit.mb is {limit // _MIB}: it was killed. "
            self.kill(text + "Raise the limit, or have the connector keep less at a time", final=True)
            return
        if not self.ready.done():
            # A machine that is busy takes its time to start a process; that is no hanging.
            if now - self._launched_at > _BEGIN_S:
                self.kill(f"had not begun after {_BEGIN_S:g} s and was killed", final=True)
            return
        pinged_at = self._pinged_at
        if pinged_at is None:
            self._ping(now)
        else:
            # The supervisor looks more often than this. If it could not, the answer may be here, and not be read yet.
            self._not_looked_s += max(0.0, now - self._looked_at - self._hang_timeout_s / 2)
            if now - pinged_at - self._not_looked_s > self._hang_timeout_s:
                self._end_hanging()
        self._looked_at = now

    def _ping(self, now: float) -> None:
        assert self._channel is not None
        self._pinged_at, self._not_looked_s = now, 0.0

        def alive(answer: Future[Any]) -> None:
            if answer.exception() is None:
                self._pinged_at = None

        self._channel.ask("ping").add_done_callback(alive)

    def _end_hanging(self) -> None:
        stacks = self._stacks()
        log.error(
            "Executor %s (process %s) does not answer. What its threads are doing:\n%s",
            self.key,
            self._pid,
            stacks or "(unknown)",
        )
        self.kill(
            f"did not answer for {self._hang_timeout_s * 1000:.0f} ms (task.executor.hang.timeout.ms) and was killed: code of a "
            "connector keeps all others from running, as a native library does that holds Python's global lock; the log has what "
            "each thread was doing"
        )

    def _stacks(self) -> str:
        """What each thread does, by the names of the threads."""
        assert self._launched is not None
        self._launched.popen.send_signal(_STACKS_SIGNAL)  # none to a stranger, when somebody has just killed it
        deadline = time.monotonic() + _STACKS_WAIT_S
        text = ""
        while "Current thread" not in text and time.monotonic() < deadline:
            threading.Event().wait(0.05)
            text = os.pread(self._launched.stacks, _MIB, 0).decode("utf-8", "replace")
        threads = dict(self._threads)
        return re.sub(r"0x[0-9a-f]{16}", lambda found: threads.get(int(found[0], 16), found[0]), text).strip()

    def dismiss(self) -> None:
        """Lets the process end: its socket is closed."""
        if self._ending is None:
            self._ending = Ending("was not needed any more", asked_for=True, blameless=True)
        with self._lock:
            channel = self._channel
        if channel is not None:
            channel.close()

    def reap(self, now: float) -> Ending | None:
        """Why the process has ended, once it has; it is waited for then, and everything that was asked of it has failed."""
        launched = self._launched
        if launched is None:
            return self._finished() if self._closed_at is not None else None
        code = launched.popen.poll()
        if code is None:
            if self._closed_at is not None and now - self._closed_at > _LINGER_S:
                self.kill("closed its socket and lived on")
            return None
        if self._ending is None:
            self._ending = Ending(_ending_text(code), blameless=code == _EXIT_SILENCE)
        return self._finished()

    def _finished(self) -> Ending:
        with self._lock:
            self._ended = True
            waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if future is not None:
                fail(future, _gone())
        if self._channel is not None:
            self._channel.close()
            self._channel.join(1.0)
        if self._launched is not None:
            os.close(self._launched.stacks)
            self._launched = None
        assert self._ending is not None
        self.ended.set()
        if not self.ready.done():
            fail(self.ready, ConnectError(f"The executor {self.key} {self._ending.text}"))
        return self._ending

    @property
    def is_closed(self) -> bool:
        """Whether its socket is closed, so that its end is a matter of moments."""
        return self._closed_at is not None

    @property
    def ended_blamelessly(self) -> bool:
        """Whether another one may do better, although nothing is changed."""
        return self._ending is not None and self._ending.blameless

    @property
    def is_ending(self) -> bool:
        """Whether it is of no more use."""
        return self._ending is not None or self._closed_at is not None


def _ending_text(code: int) -> str:
    if code == _EXIT_SILENCE:
        return "ended, for it had heard nothing of the worker for too long: the worker was frozen, or the machine overloaded"
    if code >= 0:
        return f"ended with exit code {code}: code of a connector ended the process"
    try:
        name = f" ({signal.Signals(-code).name})"
    except ValueError:
        name = ""
    advice: dict[int, str] = {
        signal.SIGKILL: ". Nothing in the worker did this: an operator, or the kernel because memory was short (see dmesg)",
        signal.SIGSEGV: ": a native library that a connector uses is at fault",
        signal.SIGABRT: ": a native library that a connector uses gave up",
        signal.SIGBUS: ": a native library that a connector uses is at fault",
    }
    return f"was ended by signal {-code}{name}{advice.get(-code, '')}"


def _gone() -> ChannelClosedError:
    return ChannelClosedError("The process of the executor has ended")
