"""The lifetime of a worker, for processes that serve all of its executors, such as the one with Spark's JVM.

The control process owns a pair of connected sockets. Executors inherit one end and pass it to the processes that they start for
the whole worker. That end reports end-of-file when the worker shuts down or dies, even by SIGKILL. In turn, the control process
sees when all holders of that end have exited, so that a shutdown leaves no process.
"""

from __future__ import annotations

import os
import secrets
import select
import socket
from dataclasses import dataclass

VARIABLE = "SLUICE_WORKER"


@dataclass(frozen=True, slots=True)
class WorkerScope:
    """The worker that a process belongs to."""

    id: str
    """Unique per worker and unpredictable; contains no secret."""
    descriptor: int
    """The inherited end, to pass on to a process that serves the whole worker. It becomes readable when that process must end."""


class WorkerLifetime:
    """Created and ended by the process that controls a worker."""

    def __init__(self) -> None:
        self._own, self._inherited = socket.socketpair()
        self.scope = WorkerScope(secrets.token_hex(8), self._inherited.fileno())

    def variables(self) -> dict[str, str]:
        """Environment variables for an executor, which must also inherit ``scope.descriptor``."""
        return {VARIABLE: f"{os.getpid()}:{self.scope.descriptor}:{self.scope.id}"}

    def end(self, timeout_s: float) -> bool:
        """Ends the processes that serve the worker. Returns whether all of them exited in time. May be called more than once."""
        if self._own.fileno() == -1:
            return True
        self._inherited.close()
        self._own.shutdown(socket.SHUT_WR)
        readable, _, _ = select.select([self._own], [], [], timeout_s)
        self._own.close()
        return bool(readable)


def executor_scope() -> WorkerScope | None:
    """Returns the worker that started this process as an executor; None in any other process."""
    parts = os.environ.get(VARIABLE, "").split(":")
    if len(parts) != 3 or not (parts[0].isdigit() and parts[1].isdigit()) or int(parts[0]) != os.getppid():
        return None
    descriptor = int(parts[1])
    try:
        os.set_inheritable(descriptor, False)
    except OSError:
        return None
    return WorkerScope(parts[2], descriptor)
