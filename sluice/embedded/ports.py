"""Ports of embedded servers on the loopback interface."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from connect.errors import ConfigError, ConnectError

LOOPBACK = "127.0.0.1"

# Below the ephemeral range of Linux (32768-60999) and macOS (49152-65535), so that an outgoing connection cannot take a server's
# port between a kill and a restart.
_FIRST_PORT, _LAST_PORT = 20_000, 32_000
_SPREAD = 7417
"""Golden section of the range, so that processes with adjacent IDs start far apart. A prime, so that none start together."""
_LEAP = 250
"""With the step itself a prime, so that every port is reached eventually."""
_steps: dict[int, int] = {}
"""Progress through the range by process ID, since a forked process inherits this dict."""
_steps_lock = threading.Lock()


def port_is_free(port: int, host: str = LOOPBACK) -> bool:
    """Returns whether a server could listen on ``host:port`` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Like servers do, so that a previous server's connections in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def free_ports(count: int) -> list[int]:
    """Returns distinct ports on which nothing listens. They are not reserved, so bind them soon."""
    found: list[int] = []
    for port in _ports():
        if port_is_free(port):
            found.append(port)
            if len(found) == count:
                return found
        else:
            # Another process may be choosing from the same ports: skip ahead.
            _take_step(_LEAP)
    raise ConnectError(f"no {count} free ports between {_FIRST_PORT} and {_LAST_PORT} on {LOOPBACK}")


def _ports() -> Iterator[int]:
    """Yields every port once, from where this process stopped. Unlike random ports, one that was returned but is not bound yet,
    or whose server is down, is not returned again."""
    for _ in range(_FIRST_PORT, _LAST_PORT):
        yield _FIRST_PORT + (os.getpid() * _SPREAD + _take_step(1)) % (_LAST_PORT - _FIRST_PORT)


def _take_step(size: int) -> int:
    """Returns the progress before the step."""
    pid = os.getpid()
    with _steps_lock:
        before = _steps.get(pid, 0)
        _steps[pid] = before + size
    return before


def require_free_port(port: int, what: str, instead: str) -> None:
    """Raises `ConfigError` when ``port`` is in use. ``instead`` says what to do."""
    if not port_is_free(port):
        raise ConfigError(f"{what} cannot listen on {LOOPBACK}:{port}: the port is in use; {instead}")


@dataclass(frozen=True, slots=True)
class PersistentPort:
    """A server's port that survives restarts, stored in ``file``. ``requested`` None means any port."""

    file: Path
    requested: int | None

    @property
    def known(self) -> int | None:
        """The requested port, else that of the previous start, else None."""
        if self.requested is not None:
            return self.requested
        try:
            return int(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def choose(self, what: str) -> int:
        """Returns and stores the port for a start of ``what``: the known one, else a free one. Raises `ConfigError` if it is in
        use."""
        port = self.known
        if port is None:
            port = free_ports(1)[0]
        else:
            require_free_port(port, what, "choose another port, or stop the process that uses it")
        self.file.write_text(f"{port}\n", encoding="utf-8")
        return port
