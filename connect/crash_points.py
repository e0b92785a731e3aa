"""Named points at which a crash test ends the process, as a power cut would.

``SLUICE_CRASH_AT=name`` (or ``name:n`` for the n-th time) in the environment makes :func:`point` send SIGKILL to its own process
there; with ``worker/name`` the whole worker goes, also where the point is passed in one of its executors. Without the variable a
point costs one comparison. The points stand where a promise is at stake; tests/chaos goes through all of them.
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
    "jdbc.written",  # a transaction has a batch of records, and is not committed
    "jdbc.committed",  # it is, the consumer group does not know
    "errors.reported",  # a failed record was given to the dead letter queue, which has not acknowledged it
    "errors.acknowledged",  # the dead letter queue has it, no offset is committed or stored
    "sink.precommitted",  # the task has said what is durable, the group's offsets are not committed
    "cluster.tasks_written",  # a leader has written tasks of a connector, not the record that makes them count
    "cluster.tasks_stopped",  # a worker has stopped tasks that were taken from it, the group does not know
    "cluster.fenced",  # a leader has fenced producers of earlier tasks, and has not noted it
)

VARIABLE = "SLUICE_CRASH_AT"
_WHOLE_WORKER = "worker/"

_asked, _, _times = os.environ.get(VARIABLE, "").partition(":")
_name = _asked.removeprefix(_WHOLE_WORKER)
_left = int(_times) if _times.isdigit() else 1
_lock = threading.Lock()
_control_pid: int | None = None


def in_executor_of(control_pid: int) -> None:
    """This process is an executor of a worker whose control process is that one."""
    global _control_pid
    _control_pid = control_pid


def point(name: str) -> None:
    """Ends the process here and now if this is the point, and the time, that the environment asks for."""
    if name != _name:
        return
    global _left
    with _lock:
        _left -= 1
        if _left == 0:
            if _control_pid is not None and _asked != _name:
                os.kill(_control_pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
