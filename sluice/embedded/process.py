"""Server processes: start, identification by PID file, and stop within a deadline."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import queue
import select
import shutil
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
from rest.polling import wait_until

_LAUNCH = Path(__file__).with_name("launch.py")

# Exists on every system.
_UNPRIVILEGED_USER = "nobody"


def unprivileged_user() -> str | None:
    """Returns the user for servers that refuse to run as root: 'nobody' if this process runs as root, else None (no change)."""
    return _UNPRIVILEGED_USER if os.geteuid() == 0 else None


def recreate_private_folder(folder: Path) -> None:
    """Creates an empty folder that only the user of servers may read. Deletes what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    if (user := unprivileged_user()) is not None:
        entry = pwd.getpwnam(user)
        os.chown(folder, entry.pw_uid, entry.pw_gid)


@dataclass(frozen=True, slots=True)
class Server:
    """A server process as recorded in its PID file. ``created`` distinguishes it from a later process with the same PID."""

    pid: int
    created: float
    port: int

    def process(self) -> psutil.Process | None:
        """Returns the live process, or None when it ended or another process has its PID."""
        try:
            process = psutil.Process(self.pid)
            # Two clock ticks of slack: the kernel's start time is derived from the boot time, which NTP may shift.
            if abs(process.create_time() - self.created) > 2.0 or _has_ended(process):
                return None
        except psutil.NoSuchProcess:
            return None
        return process


def _has_ended(process: psutil.Process) -> bool:
    """Returns whether a process has ended; its parent may not have reaped it yet. Raises psutil's NoSuchProcess once reaped.

    A killed process is a zombie once its first thread has ended. Until its other threads end, it holds its port and files.
    """
    if process.status() != psutil.STATUS_ZOMBIE:
        return False
    return sys.platform != "linux" or _wait_ended(process, 0)


class PidFile:
    """The record of a running server in its data directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, pid: int, port: int) -> Server:
        """Records a process that was just started. The record survives the owner, not a power failure."""
        try:
            server = Server(pid, psutil.Process(pid).create_time(), port)
        except psutil.NoSuchProcess:
            raise ConnectError(f"process {pid} ended immediately") from None
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}.tmp")
        draft.write_text(json.dumps(asdict(server)), encoding="utf-8")
        draft.replace(self.path)
        return server

    def read(self) -> Server | None:
        """Returns the recorded server if it still runs; None for a stale, foreign, or incomplete file."""
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
    """Starts ``command`` (absolute path first) in a new session; appends its output to ``log``.

    Because of the new session, Ctrl-C in the terminal reaches only the owner, which then stops its servers gracefully. With
    ``death_signal`` the kernel sends that signal when this process ends in any way (Linux only). With ``user`` the server runs as
    that user; needs root. The file descriptors ``inherited`` stay open in it.
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

    return _run_in_permanent_thread(start) if death_signal else start()


_jobs: queue.SimpleQueue[tuple[Callable[[], subprocess.Popen[bytes]], Future[subprocess.Popen[bytes]]]] | None = None
_jobs_owner = 0
_jobs_lock = threading.Lock()


def _run_in_permanent_thread(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    # The kernel sends the death signal when the forking thread ends, not the process. So a thread that lives as long as the
    # process forks all servers, and a server started from a short-lived pool thread outlives that thread.
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
    """Defers Ctrl-C and SIGTERM until the end of the block, so that a server is both started and recorded, or neither.

    An interrupt between the two would leave an unknown process. Python raises interrupts only in the main thread, so other
    threads need no deferral.
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
    """Stops ``server``: ``first``, then SIGKILL after ``grace_s``. Returns once it has ended; True if ``first`` was enough.

    With ``kill_tree``, children that outlive the server are killed too: a server whose children hold its files cannot be
    restarted before they end.
    """
    process = server.process()
    if process is None:
        return True
    try:
        children = process.children(recursive=True) if kill_tree else []
        process.send_signal(first)
    except psutil.NoSuchProcess:
        return True
    graceful = _wait_ended(process, grace_s)
    if not graceful:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
        if not _wait_ended(process, 10):
            raise ConnectError(f"process {server.pid} did not end after SIGKILL")
    for child in children:
        if not _wait_ended(child, 5):
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
            _wait_ended(child, 5)
    return graceful


def _wait_ended(process: psutil.Process, timeout_s: float) -> bool:
    """Waits until the process has ended; returns whether it has. A zombie has ended: it holds no resources."""
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
        # Checked while the handle is open, so that it cannot belong to a later process with the same PID.
        return not process.is_running() or bool(select.select([handle], [], [], timeout_s)[0])
    finally:
        os.close(handle)


def wait_ready(
    name: str, child: subprocess.Popen[bytes], is_ready: Callable[[], bool], log: Path, log_from: int, timeout_s: float
) -> None:
    """Waits until ``is_ready``. Raises `ConnectError` with the end of the log when the server ends first, or after the time."""
    deadline = time.monotonic() + timeout_s
    while not is_ready():
        try:
            code = child.wait(0.02)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                raise ConnectError(f"{name} did not respond within {timeout_s:g} s; its log is {log}") from None
            continue
        raise ConnectError(f"{name} ended while starting (exit code {code}):\n{log_tail(log, log_from)}\nThe full log is {log}")


def wait_answer(name: str, server: Server, is_ready: Callable[[], bool], log: Path, timeout_s: float) -> None:
    """Waits for a server that another process has started, perhaps one that was killed while it waited.

    Returns when it is ready or has ended. Raises `ConnectError` when it runs but does not respond in time.
    """
    deadline = time.monotonic() + timeout_s
    while (process := server.process()) is not None and not is_ready():
        if time.monotonic() > deadline:
            raise ConnectError(f"{name} (pid {server.pid}) runs but does not respond; stop it first. Its log is {log}")
        _wait_ended(process, 0.05)


def log_tail(log: Path, start: int = 0, lines: int = 15) -> str:
    """Returns the last lines of ``log`` after byte ``start``."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start, size - 20_000))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return "(no log)"
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:])


def log_size(log: Path) -> int:
    """Returns the size of ``log`` in bytes; 0 if it does not exist."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


@contextlib.contextmanager
def exclusive(path: Path, timeout_s: float, busy: str) -> Iterator[None]:
    """Holds the lock file ``path`` against other processes and threads. Raises `ConnectError(busy)` after ``timeout_s``.

    The kernel (flock) releases the lock of a killed process. The empty file remains.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:

        def try_lock() -> bool:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

        if not wait_until(try_lock, timeout_s):
            raise ConnectError(busy)
        yield
