"""Where embedded parts keep files, and which ports they may take."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path

from connect.errors import ConfigError, ConnectError

LOOPBACK = "127.0.0.1"

# Below the ephemeral range of Linux (32768-60999) and macOS (49152-65535): a port chosen here is not handed to somebody's
# outgoing connection while its server is down between a kill and a restart.
_FIRST_PORT, _LAST_PORT = 20_000, 32_000


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
    for port in random.sample(range(_FIRST_PORT, _LAST_PORT), 500):
        if port_is_free(port):
            found.append(port)
            if len(found) == count:
                return found
    raise ConnectError(f"no {count} free ports between {_FIRST_PORT} and {_LAST_PORT} on {LOOPBACK}")


def require_free_port(port: int, what: str, instead: str) -> None:
    """Raise `ConfigError` when something listens on ``port`` already. ``instead`` says how to choose another."""
    if not port_is_free(port):
        raise ConfigError(f"{what} cannot listen on {LOOPBACK}:{port}: the port is taken; {instead}")
