"""The address at which the executors of a Spark cluster reach the driver, which is the worker."""

from __future__ import annotations

import socket

from connect.errors import ConfigError, ConnectError

_SCHEME = "spark://"
_PORT = 7077
_CONNECT_S = 5.0
HOST, BIND_ADDRESS = "spark.driver.host", "spark.driver.bindAddress"


def driver_conf(master: str) -> dict[str, str]:
    """Settings of the driver for a standalone master (``spark://host:port[,host:port...]``): the address of this machine in the
    network of the first master that answers. For other cluster managers, Spark chooses.

    Raises ConfigError when a port is no number, and ConnectError when no master answers.
    """
    if not master.startswith(_SCHEME):
        return {}
    failures = []
    for host, port in _addresses(master):
        try:
            with socket.create_connection((host, port), _CONNECT_S) as connection:
                address = connection.getsockname()[0]
        except OSError as e:
            failures.append(f"{host}:{port} ({e.strerror or e})")
            continue
        shown = f"[{address}]" if ":" in address else address
        return {HOST: shown, BIND_ADDRESS: shown}
    raise ConnectError(
        f"No Spark master answers at {', '.join(failures)}: start it, or correct spark.master, and restart the task"
    )


def _addresses(master: str) -> list[tuple[str, int]]:
    found = []
    for part in master.removeprefix(_SCHEME).split(","):
        host, colon, port = part.rpartition(":")
        if colon and (not host or not port.isdigit()):
            raise ConfigError.invalid("spark.master", master, f"expected {_SCHEME}host:port")
        found.append((host.strip("[]"), int(port)) if colon else (part, _PORT))
    return found
