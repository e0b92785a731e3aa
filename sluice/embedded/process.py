"""Server processes: started, recognised by a pid file, and ended within a deadline."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import IO

import psutil

from connect.errors import ConnectError

_LAUNCH = Path(__file__).with_name("launch.py")

# Every system has this user; none is created for us.
_UNPRIVILEGED_USER = "nobody"


def unprivileged_user() -> str | None:
    """The user of servers that refuse to run as root: 'nobody' when this process is root's, else None, which is to stay."""
    return _UNPRIVILEGED_USER if os.geteuid() == 0 else None


@dataclass(frozen=True, slots=True)
class Server:
    """A server process as its pid file describes it. ``created`` tells it from a later process with the same pid."""

    pid: int
    created: float
    port: int

    def process(self) -> psutil.Process | None:
        """The live process, or None when it ended or the pid now belongs to something else."""
        try:
            process = psutil.Process(self.pid)
            # Two clock ticks of slack: the kernel's start time is derived from the boot time, which NTP may shift.
            if abs(process.create_time() - self.created) > 2.0 or _has_ended(process):
                return None
        except psutil.NoSuchProcess:
            return None
        return process


def _has_ended(process: psutil.Process) -> bool:
    """Whether nothing of it runs any more; reaping it is its parent's affair. Raises psutil's NoSuchProcess when it is reaped.

    A killed process is shown as a zombie when its first thread has ended. The others may take a moment, and until then it has
    its port and its files.
    """
    if process.status() != psutil.STATUS_ZOMBIE:
        return False
    return sys.platform != "linux" or _gone(process, 0)


class PidFile:
    """The record of one running server in its data folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, pid: int, port: int) -> Server:
        """Record a process that was just started. Durable enough to survive its owner, not a power cut."""
        try:
            server = Server(pid, psutil.Process(pid).create_time(), port)
        except psutil.NoSuchProcess:
            raise ConnectError(f"process {pid} ended at once") from None
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        draft.write_text(json.dumps(asdict(server)), encoding="utf-8")
        draft.replace(self.path)
        return server

    def read(self) -> Server | None:
        """The recorded server if it still runs. A stale, foreign or torn file reads as None."""
        try:
            server = Server(**json.loads(self.path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None
        return server if server.process() is not None else None

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def spawn(
    command: Sequence[str | Path],
    *,
    log: Path,
    cwd: Path,
    environment: Mapping[str, str] | None = None,
    user: str | None = None,
    death_signal: signal.Signals | None = None,
    inherited: Sequence[int] = (),
    stdin: IO[bytes] | int = subprocess.DEVNULL,
) -> subprocess.Popen[bytes]:
    """Start ``command`` (absolute path first) in a session of its own, its output appended to ``log``.

    A session of its own, so that Ctrl-C in the terminal reaches the owner alone, who then stops its servers in order. With
    ``death_signal`` the kernel sends that signal when this process dies, however it dies (Linux; elsewhere the owner's own
    clean-up must do). With ``user`` the server runs as that user; needs root. File descriptors in ``inherited`` stay open in it.
    """

    def start() -> subprocess.Popen[bytes]:
        words = [str(word) for word in command]
        if user or death_signal:
            parent = os.getpid() if death_signal else 0
            words = [sys.executable, "-I", "-S", str(_LAUNCH), str(parent), str(int(death_signal or 0)), user or "-", *words]
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return subprocess.Popen(
                words,
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=dict(environment) if environment is not None else None,
                start_new_session=True,
                pass_fds=inherited,
            )

    return _in_lasting_thread(start) if death_signal else start()


_jobs: queue.SimpleQueue[tuple[Callable[[], subprocess.Popen[bytes]], Future[subprocess.Popen[bytes]]]] | None = None
_jobs_owner = 0
_jobs_lock = threading.Lock()


def _in_lasting_thread(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    # The death signal is sent when the thread that forked ends, not the process. A thread that lives as long as the process
    # forks for everybody, so that a server started from a short-lived pool thread outlives that thread.
    global _jobs, _jobs_owner
    with _jobs_lock:
        if _jobs is None or _jobs_owner != os.getpid():
            _jobs, _jobs_owner = queue.SimpleQueue(), os.getpid()
            threading.Thread(target=_fork_on_request, args=(_jobs,), name="sluice-spawner", daemon=True).start()
        jobs = _jobs
    done: Future[subprocess.Popen[bytes]] = Future()
    jobs.put((start, done))
    return done.result()


def _fork_on_request(
    jobs: queue.SimpleQueue[tuple[Callable[[], subprocess.Popen[bytes]], Future[subprocess.Popen[bytes]]]],
) -> None:
    while True:
        start, done = jobs.get()
        try:
            done.set_result(start())
        except BaseException as error:
            done.set_exception(error)


def _remember_in(pending: list[int]) -> Callable[[int, FrameType | None], None]:
    def remember(number: int, frame: FrameType | None) -> None:
        pending.append(number)

    return remember


@contextlib.contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Lets Ctrl-C and SIGTERM wait until the block is over: a server is started and recorded, or neither.

    Between the two an interrupt would leave a process that nobody knows. Python raises interrupts in the main thread only, so
    elsewhere there is nothing to do.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, _remember_in(pending))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        for missed in pending:
            signal.raise_signal(missed)


def end(server: Server, *, first: signal.Signals, grace_s: float, kill_tree: bool = False) -> bool:
    """End ``server``: ``first``, then SIGKILL after ``grace_s``. Returns when it is gone; True if ``first`` was enough.

    With ``kill_tree``, children that outlive the server are killed too: a server whose children hold its files cannot be
    started again until they are gone.
    """
    process = server.process()
    if process is None:
        return True
    try:
        children = process.children(recursive=True) if kill_tree else []
        process.send_signal(first)
    except psutil.NoSuchProcess:
        return True
    graceful = _gone(process, grace_s)
    if not graceful:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
        if not _gone(process, 10):
            raise ConnectError(f"process {server.pid} does not end, not even by SIGKILL")
    for child in children:
        if not _gone(child, 5):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
            _gone(child, 5)
    return graceful


def _gone(process: psutil.Process, timeout_s: float) -> bool:
    """Wait until the process has ended. A zombie has: it holds nothing any more, and reaping it is its parent's affair."""
    if sys.platform != "linux":
        try:
            process.wait(timeout_s)
        except psutil.TimeoutExpired:
            return False
        return True
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        # Checked with the handle open, so that it cannot be of a later process with the same pid.
        return not process.is_running() or bool(select.select([handle], [], [], timeout_s)[0])
    finally:
        os.close(handle)


def wait_ready(
    name: str, child: subprocess.Popen[bytes], is_ready: Callable[[], bool], log: Path, log_from: int, timeout_s: float
) -> None:
    """Wait until ``is_ready`` or the deadline. Raises `ConnectError` with the end of the log when the server fails first."""
    deadline = time.monotonic() + timeout_s
    while not is_ready():
        try:
            code = child.wait(0.02)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                raise ConnectError(f"{name} did not answer within {timeout_s:g} s; its log is {log}") from None
            continue
        raise ConnectError(f"{name} ended while starting (exit code {code}):\n{log_tail(log, log_from)}\nThe full log is {log}")


def wait_answer(name: str, server: Server, is_ready: Callable[[], bool], log: Path, timeout_s: float) -> None:
    """Wait for a server that another process has started, perhaps one that was killed while it waited itself.

    Returns when it is ready or has ended. Raises `ConnectError` when it lives and does not answer in time.
    """
    deadline = time.monotonic() + timeout_s
    while (process := server.process()) is not None and not is_ready():
        if time.monotonic() > deadline:
            raise ConnectError(f"{name} (pid {server.pid}) runs but does not answer; stop it first. Its log is {log}")
        _gone(process, 0.05)


def log_tail(log: Path, start: int = 0, lines: int = 15) -> str:
    """The last lines that ``log`` gained since byte ``start``."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start, size - 20_000))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return "(no log)"
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:])


def log_size(log: Path) -> int:
    """Bytes that ``log`` has now; 0 when it does not exist."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


@contextlib.contextmanager
def exclusive(path: Path, timeout_s: float, busy: str) -> Iterator[None]:
    """Hold the lock file ``path`` against other processes and threads. Raises `ConnectError(busy)` after ``timeout_s``.

    The lock is the kernel's (flock), so a killed holder cannot leave it behind. The empty file stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + timeout_s
    with path.open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise ConnectError(busy) from None
                time.sleep(0.05)
        yield
