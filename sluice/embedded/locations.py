"""Where embedded parts keep files, and which ports they may take."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from connect.errors import ConfigError, ConnectError

LOOPBACK = "127.0.0.1"

# Below the ephemeral range of Linux (32768-60999) and macOS (49152-65535): a port chosen here is not handed to somebody's
# outgoing connection while its server is down between a kill and a restart.
_FIRST_PORT, _LAST_PORT = 20_000, 32_000
_SPREAD = 7417
"""The golden section of the range: processes of neighbouring ids begin far from each other. A prime, so none begin together."""
_LEAP = 250
"""With the step itself a prime, so that all ports are come to in the end."""
_steps: dict[int, int] = {}
"""How far this process has gone through the range. By its id, for a fork has both a copy of this and an id of its own."""
_steps_lock = threading.Lock()


def cache_dir() -> Path:
    """Folder of what can be downloaded or computed again: ``SLUICE_CACHE_DIR``, else ``~/.cache/sluice``."""
    return _from_environment("SLUICE_CACHE_DIR", "XDG_CACHE_HOME", Path(".cache"))


def data_home() -> Path:
    """Folder of the embedded parts' data: ``SLUICE_DATA_DIR``, else ``~/.local/share/sluice``."""
    return _from_environment("SLUICE_DATA_DIR", "XDG_DATA_HOME", Path(".local") / "share")


def _from_environment(own: str, shared: str, below_home: Path) -> Path:
    if value := os.environ.get(own):
        return Path(value).expanduser().absolute()
    if value := os.environ.get(shared):
        return Path(value).expanduser().absolute() / "sluice"
    return Path.home() / below_home / "sluice"


def port_is_free(port: int, host: str = LOOPBACK) -> bool:
    """Whether a server could listen on ``host:port`` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As servers do, so that connections in TIME_WAIT of the server before do not count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def free_ports(count: int) -> list[int]:
    """Distinct ports on which nothing listens. Taken by nobody until a server binds them, so bind soon."""
    found: list[int] = []
    for port in _ports():
        if port_is_free(port):
            found.append(port)
            if len(found) == count:
                return found
        else:
            # Another process goes through the same ports just now, and may have chosen the next ones.
            _take_step(_LEAP)
    raise ConnectError(f"no {count} free ports between {_FIRST_PORT} and {_LAST_PORT} on {LOOPBACK}")


def _ports() -> Iterator[int]:
    """All ports, each once, from where this process was last: one that nobody has bound yet, or whose server is just down, is not
    chosen a second time, as happens now and then to ports that are drawn."""
    for _ in range(_FIRST_PORT, _LAST_PORT):
        yield _FIRST_PORT + (os.getpid() * _SPREAD + _take_step(1)) % (_LAST_PORT - _FIRST_PORT)


def _take_step(size: int) -> int:
    """How far this process had gone before."""
    pid = os.getpid()
    with _steps_lock:
        before = _steps.get(pid, 0)
        _steps[pid] = before + size
    return before


def require_free_port(port: int, what: str, instead: str) -> None:
    """Raise `ConfigError` when something listens on ``port`` already. ``instead`` says how to choose another."""
    if not port_is_free(port):
        raise ConfigError(f"{what} cannot listen on {LOOPBACK}:{port}: the port is taken; {instead}")


@dataclass(frozen=True, slots=True)
class KeptPort:
    """The port of a server that stays the same over its restarts, noted in the file ``note``. ``wanted`` None means any."""

    note: Path
    wanted: int | None

    @property
    def known(self) -> int | None:
        """The port wanted, else that of the start before, else None."""
        if self.wanted is not None:
            return self.wanted
        try:
            return int(self.note.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def choose(self, what: str) -> int:
        """The port for a start of ``what``, now noted: the known one, else a free one. Raises `ConfigError` when it is taken."""
        port = self.known
        if port is None:
            port = free_ports(1)[0]
        else:
            require_free_port(port, what, "choose another, or stop what listens there")
        self.note.write_text(f"{port}\n", encoding="utf-8")
        return port
