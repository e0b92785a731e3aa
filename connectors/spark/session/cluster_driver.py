"""The address at which the executors of a Spark cluster reach the driver, which is the worker."""

from __future__ import annotations

import socket

from connect.errors import ConnectError
from connectors.spark.masters import parse_masters

_CONNECT_S = 5.0
HOST, BIND_ADDRESS = "spark.driver.host", "spark.driver.bindAddress"


def driver_conf(master: str) -> dict[str, str]:
    """Settings of the driver for a standalone master: the address of this machine in the network of the first master that
    answers. For other cluster managers, Spark chooses. Raises ConnectError when no master answers.
    """
    masters = parse_masters("spark.master", master)
    if not masters:
        return {}
    failures = []
    for host, port in masters:
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
