"""Where the processes of a worker find the host of Spark's JVM: a directory with a socket and a lock per Spark address.

The directory belongs to one worker and one user (mode 0700). Nothing in it is secret; py4j's token crosses the socket only.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from connect.errors import ConnectError
from connect.worker_lifetime import WorkerScope
from connectors.spark.session.settings import LaunchPlan

_MAX_SOCKET_PATH = 100
_PROGRAM = "import sys; sys.path[:] = sys.argv[3:]; from connectors.spark.session.host import main; main()"


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """The socket and the lock of one Spark address."""

    folder: Path
    name: str

    @property
    def socket(self) -> Path:
        return self.folder / f"{self.name}.sock"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Held for moments: to connect, to start a host, and to remove the socket. The kernel releases it with its process.

        Creates the directory if necessary. Raises ConnectError if it is not a private directory of this user.
        """
        path = self.folder / f"{self.name}.lock"
        while True:
            self._ensure_folder()
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:
                continue  # removed in this moment
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if _is_same_file(descriptor, path):
                    yield
                    return
            finally:
                os.close(descriptor)

    def _ensure_folder(self) -> None:
        with contextlib.suppress(FileExistsError):
            self.folder.mkdir(mode=0o700)
        try:
            status = self.folder.lstat()
        except FileNotFoundError:
            return  # removed in this moment
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise ConnectError(f"{self.folder} is not a private directory of this user; remove it")

    def claim_warm_up(self) -> bool:
        """Whether the caller is the first of the host's clients to ask."""
        try:
            os.close(os.open(self.folder / f"{self.name}.warm", os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError:
            return False
        return True

    def remove_socket(self) -> None:
        """Removes what a host has left. The caller has the lock."""
        for suffix in ("sock", "warm"):
            (self.folder / f"{self.name}.{suffix}").unlink(missing_ok=True)

    def remove(self) -> None:
        """Removes everything of this address, and the directory if no other address uses it. The caller has the lock."""
        self.remove_socket()
        (self.folder / f"{self.name}.lock").unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.folder.rmdir()


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def rendezvous_for(scope: WorkerScope, master: str) -> Rendezvous:
    """Where the processes of a worker meet for a Spark address. Touches no file."""
    base = tempfile.gettempdir()
    if len(base) + 60 > _MAX_SOCKET_PATH:
        base = "/tmp"
    # Processes with another environment have another PySpark.
    return Rendezvous(Path(base) / f"sluice-{scope.id}", hashlib.sha256(f"{master}\n{sys.prefix}".encode()).hexdigest()[:12])


def connect_host(place: Rendezvous, scope: WorkerScope, plan: LaunchPlan) -> socket.socket:
    """Connects to the host, and starts one if there is none. Returns before Spark runs."""
    with place.locked():
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(place.socket))
            return connection
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
        place.remove_socket()  # of a host that was killed
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(place.socket))
            listener.listen(64)
            _start_host(listener, place, scope, plan)
        # The kernel queues the connection until the host accepts it.
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(place.socket))
        return connection


def _start_host(listener: socket.socket, place: Rendezvous, scope: WorkerScope, plan: LaunchPlan) -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM, str(listener.fileno()), str(scope.descriptor), *sys.path],
        stdin=subprocess.PIPE,
        pass_fds=(listener.fileno(), scope.descriptor),
        # A session of its own: it does not get the terminal's Ctrl-C, and it does not end with the process that starts it.
        start_new_session=True,
    )
    assert process.stdin is not None
    with process.stdin as stdin:
        # Not in arguments, which other users can read (promise 9).
        stdin.write(json.dumps({"folder": str(place.folder), "name": place.name, "plan": plan.to_plain()}).encode())
    threading.Thread(target=process.wait, name="spark-host-exit", daemon=True).start()
