"""What the embedded servers have in common: a folder, a process, a port, and the ways to start and to end it."""

from __future__ import annotations

import secrets
import shutil
import signal
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from connect.errors import IllegalStateError
from sluice.embedded import locations, process
from sluice.embedded.server_process import ServerProcess


class EmbeddedServer(ABC):
    """One server over ``data_dir``. Objects are handles: a second one on the same folder controls the same server. Not
    thread-safe; processes are kept apart by a lock file."""

    host = locations.LOOPBACK

    name: ClassVar[str]
    """How messages call it."""
    stem: ClassVar[str]
    """What the files of its log and its process id are called."""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    """Ends it in order."""
    death_signal: ClassVar[signal.Signals] = signal.SIGKILL
    """Sent to it when this process dies."""
    kill_tree: ClassVar[bool] = False
    """Whether children of its process are ended with it."""

    def __init__(self, data_dir: Path | str, *, dies_with_parent: bool) -> None:
        self.data_dir = Path(data_dir).expanduser().absolute()
        signal_ = self.death_signal if dies_with_parent else None
        self._process = ServerProcess(self.name, self.data_dir, self.stem, death_signal=signal_, kill_tree=self.kill_tree)
        self.log_file = self._process.log_file

    @property
    def pid(self) -> int | None:
        """Its process id while it runs, else None."""
        server = self._process.running
        return server.pid if server else None

    @property
    def running(self) -> bool:
        """Whether the process lives. It may still be starting; `answers` tells more."""
        return self._process.running is not None

    @property
    def port(self) -> int:
        """The TCP port: of the running server, else the one asked for, else of the start before."""
        if server := self._process.running:
            return server.port
        if (port := self._known_port) is None:
            raise IllegalStateError(f"{self._place} has no port before its first start")
        return port

    @property
    def _place(self) -> str:
        return f"{self.name} in {self.data_dir}"

    @property
    @abstractmethod
    def _known_port(self) -> int | None:
        """The port of the next start, None while that is any."""

    @property
    @abstractmethod
    def _wanted_port(self) -> int | None:
        """The port that was asked for, None for any."""

    @abstractmethod
    def _serves(self, port: int) -> bool:
        """Whether a server at the port answers."""

    @abstractmethod
    def _launch(self, timeout_s: float) -> None:
        """Makes what the folder lacks and starts the process. Nothing runs after an error."""

    def answers(self) -> bool:
        """Whether it runs and serves."""
        return self.running and self._serves(self.port)

    def start(self, timeout_s: float = 60.0) -> None:
        """Start the server and return when it serves. Does nothing when it runs already.

        Makes what it needs if the folder is new; recovers it after a kill. Raises `ConfigError` when the port is taken or the
        machine cannot run it, `IllegalStateError` when the server of this folder runs on another port than the one asked for,
        and `ConnectError` with the end of the log when it does not come up. Nothing is left running after an error.
        """
        busy = f"another process is starting {self._place}"
        with process.exclusive(self.data_dir / ".lock", timeout_s, busy):
            if not self._process.answers_already(self._wanted_port, self.answers, timeout_s):
                self._launch(timeout_s)

    def stop(self, grace_s: float = 20.0) -> bool:
        """Stop the server in order, ending open sessions; by SIGKILL after ``grace_s``. True if one was running. It is gone on
        return."""
        return self._process.end(self.stop_signal, grace_s)

    def kill(self) -> bool:
        """End the server by SIGKILL: a crash, recovered from at the next start. What it acknowledged survives."""
        return self._process.end(signal.SIGKILL, 10.0)

    def restart(self, timeout_s: float = 60.0) -> None:
        """Stop, then start on the same port and data. Open connections break."""
        self.stop()
        self.start(timeout_s)

    def remove(self) -> None:
        """End the server and delete its data folder."""
        self.kill()
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


class EmbeddedDatabase(EmbeddedServer):
    """A database server with one user, whose password is in a file that only its owner can read."""

    user: ClassVar[str]
    database: str

    def __init__(self, data_dir: Path | str, *, port: int | None, password: str | None, dies_with_parent: bool) -> None:
        super().__init__(data_dir, dies_with_parent=dies_with_parent)
        self._kept_port = locations.KeptPort(self.data_dir / "port", port)
        self._wanted_password = password

    @property
    def _known_port(self) -> int | None:
        return self._kept_port.known

    @property
    def _wanted_port(self) -> int | None:
        return self._kept_port.wanted

    @property
    def password(self) -> str:
        """The user's password. Secret: it stays out of messages and logs."""
        try:
            return self._password_file.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise IllegalStateError(f"{self._place} has no password before its first start") from None

    @property
    def _password_file(self) -> Path:
        return self.data_dir / "password"

    def _write_password(self) -> None:
        """The one that was asked for, else a new one."""
        self._password_file.touch(mode=0o600)
        self._password_file.write_text(self._wanted_password or secrets.token_urlsafe(18), encoding="utf-8")
