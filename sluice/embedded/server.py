"""Base classes of the embedded servers: data directory, process, port, start, and stop."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, ClassVar, Self

from connect.errors import ConnectError, IllegalStateError
from sluice.embedded import process
from sluice.embedded.ports import LOOPBACK, PersistentPort
from sluice.embedded.server_process import ServerProcess

_CREATE_TIMEOUT_S = 120.0


class EmbeddedServer(ABC):
    """One server with the data directory ``data_dir``. Objects are handles: another one for the same directory controls the same
    server. Not thread-safe; a lock file excludes other processes."""

    host = LOOPBACK

    name: ClassVar[str]
    """Its name in messages."""
    stem: ClassVar[str]
    """Base name of its log and PID files."""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    """Stops it gracefully."""
    death_signal: ClassVar[signal.Signals] = signal.SIGKILL
    """Sent to it when this process ends."""
    kill_tree: ClassVar[bool] = False
    """Whether child processes are killed too."""

    def __init__(self, data_dir: Path | str, *, dies_with_parent: bool) -> None:
        self.data_dir = Path(data_dir).expanduser().absolute()
        signal_ = self.death_signal if dies_with_parent else None
        self._process = ServerProcess(self.name, self.data_dir, self.stem, death_signal=signal_, kill_tree=self.kill_tree)
        self.log_file = self._process.log_file

    @property
    def pid(self) -> int | None:
        """Its process ID while it runs, else None."""
        server = self._process.running
        return server.pid if server else None

    @property
    def running(self) -> bool:
        """Whether the process runs. It may still be starting; see `answers`."""
        return self._process.running is not None

    @property
    def port(self) -> int:
        """The TCP port: of the running server, else the requested one, else that of the previous start."""
        if server := self._process.running:
            return server.port
        if (port := self._known_port) is None:
            raise IllegalStateError(f"{self._label} has no port before its first start")
        return port

    @property
    def _label(self) -> str:
        return f"{self.name} in {self.data_dir}"

    @property
    @abstractmethod
    def _known_port(self) -> int | None:
        """The port of the next start; None for any."""

    @property
    @abstractmethod
    def _requested_port(self) -> int | None:
        """The requested port; None for any."""

    @abstractmethod
    def _serves(self, port: int) -> bool:
        """Returns whether a server at the port responds."""

    @abstractmethod
    def _launch(self, timeout_s: float) -> None:
        """Creates missing data and starts the process. Nothing runs after an error."""

    def answers(self) -> bool:
        """Returns whether it runs and serves requests."""
        return self.running and self._serves(self.port)

    def start(self, timeout_s: float = 60.0) -> None:
        """Starts the server, unless it runs, and returns once it serves requests.

        Creates its data in a new directory; recovers after a kill. Raises `ConfigError` when the port is in use or the machine
        cannot run it, `IllegalStateError` when this directory's server runs on a port other than the requested one, and
        `ConnectError` with the end of the log when it does not start. Nothing is left running after an error.
        """
        busy = f"another process is starting {self._label}"
        with process.exclusive(self.data_dir / ".lock", timeout_s, busy):
            if not self._process.wait_if_running(self._requested_port, self.answers, timeout_s):
                self._launch(timeout_s)

    def stop(self, grace_s: float = 20.0) -> bool:
        """Stops the server gracefully, closing open sessions; with SIGKILL after ``grace_s``. Returns, once it has ended, whether
        it was running."""
        return self._process.end(self.stop_signal, grace_s)

    def kill(self) -> bool:
        """Kills the server, as in a crash. The next start recovers; acknowledged writes survive."""
        return self._process.end(signal.SIGKILL, 10.0)

    def restart(self, timeout_s: float = 60.0) -> None:
        """Stops and starts it with the same port and data. Open connections break."""
        self.stop()
        self.start(timeout_s)

    def remove(self) -> None:
        """Kills the server and deletes its data directory."""
        self.kill()
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


class EmbeddedDatabase(EmbeddedServer):
    """A database server with one user. Its password is in a file that only the owner can read."""

    user: ClassVar[str]
    database: str

    def __init__(self, data_dir: Path | str, *, port: int | None, password: str | None, dies_with_parent: bool) -> None:
        super().__init__(data_dir, dies_with_parent=dies_with_parent)
        self._persistent_port = PersistentPort(self.data_dir / "port", port)
        self._requested_password = password

    @property
    def _known_port(self) -> int | None:
        return self._persistent_port.known

    @property
    def _requested_port(self) -> int | None:
        return self._persistent_port.requested

    @property
    @abstractmethod
    def has_data(self) -> bool:
        """Whether its data was created, so that a start continues with it."""

    @property
    def password(self) -> str:
        """The user's password. Secret: keep it out of messages and logs."""
        try:
            return self._password_file.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise IllegalStateError(f"{self._label} has no password before its first start") from None

    @property
    def _password_file(self) -> Path:
        return self.data_dir / "password"

    def _write_password(self) -> None:
        """Stores the requested password, else a random one."""
        self._password_file.touch(mode=0o600)
        self._password_file.write_text(self._requested_password or secrets.token_urlsafe(18), encoding="utf-8")

    def _create_data(
        self,
        command: Sequence[str | Path],
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
        stdin: IO[bytes] | int = subprocess.DEVNULL,
        inherited: Sequence[int] = (),
    ) -> None:
        """Runs the program that creates the server's data in ``folder``. Nothing of it remains after an error: ConnectError with
        the end of the log if the program fails or takes too long."""
        log_from = process.log_size(self.log_file)
        user = process.unprivileged_user()
        child = process.spawn(
            command, log=self.log_file, cwd=self.data_dir, environment=environment, user=user, stdin=stdin, inherited=inherited
        )
        failure = f"{self.name} could not create its data in {self.data_dir}"
        is_created = False
        try:
            is_created = child.wait(_CREATE_TIMEOUT_S) == 0
        except subprocess.TimeoutExpired:
            failure += f" within {_CREATE_TIMEOUT_S:g} s; start it again when the machine and its disk are less busy"
        finally:
            if child.poll() is None:  # it hangs, or this process was interrupted
                os.killpg(child.pid, signal.SIGKILL)  # initdb has child processes
                child.wait(10)
            if not is_created:
                shutil.rmtree(folder, ignore_errors=True)
        if not is_created:
            raise ConnectError(f"{failure}. {self.log_file} ends with:\n{process.log_tail(self.log_file, log_from)}")
