"""Named points at which a crash test ends the process, as a power cut would.

``SLUICE_CRASH_AT=name`` (or ``name:n`` for the n-th time) in the environment makes :func:`point` send SIGKILL to its own process
there. Without the variable a point costs one comparison. The points stand where a promise is at stake; tests/chaos goes
through all of them.
"""

from __future__ import annotations

import os
import signal
import threading

POINTS = (
    "source.polled",  # records are read, none is produced
    "source.produced",  # the broker has acknowledged them, no offset is written
    "offsets.drafted",  # the new offset file is written beside the old one
    "offsets.written",  # offsets are durable, the source does not know yet
    "postgres.snapshot",  # in the middle of the initial snapshot
    "postgres.confirmed",  # the source has confirmed its position to the database
    "spark.staged",  # records lie in a staging file, no table has them
    "spark.committed",  # a table has them, neither the next table nor the consumer group knows
    "errors.reported",  # a failed record was given to the dead letter queue, which has not acknowledged it
    "errors.acknowledged",  # the dead letter queue has it, no offset is committed or stored
    "sink.precommitted",  # the task has said what is durable, the group's offsets are not committed
)

_name, _, _times = os.environ.get("SLUICE_CRASH_AT", "").partition(":")
_left = int(_times) if _times.isdigit() else 1
_lock = threading.Lock()


def point(name: str) -> None:
    """Ends the process here and now if this is the point, and the time, that the environment asks for."""
    if name != _name:
        return
    global _left
    with _lock:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
