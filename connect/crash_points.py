"""Named points at which a crash test kills the process, as a power failure would.

With ``SLUICE_CRASH_AT=name`` (or ``name:n`` for the n-th time) in the environment, :func:`point` sends SIGKILL to its own process
there; with ``worker/name``, the whole worker dies, even if one of its executors reaches the point. Without the variable, a point
costs one comparison. The points are where a promise is at stake; docs/development/tests.md says which tests kill there.
"""

from __future__ import annotations

import os
import signal
import threading

POINTS = (
    "source.polled",  # records were polled, none is produced
    "source.produced",  # the broker has acknowledged them, no offset is stored
    "offsets.drafted",  # the new offset file is written beside the old one
    "offsets.written",  # offsets are durable, the source was not notified
    "postgres.snapshot",  # in the middle of the initial snapshot
    "postgres.confirmed",  # the source has confirmed its position to the database
    "sqlite.snapshot",  # in the middle of a snapshot of SQLite
    "sqlite.deleted",  # the source has deleted changes that are stored
    "mysql.snapshot",  # in the middle of a snapshot of MySQL or MariaDB
    "mysql.history",  # DDL is in the schema history, no record that depends on it is produced
    "spool.written",  # a segment of a spool is in a file without its name, not yet durable
    "spool.renamed",  # the segment is durable, the index has no line for it
    "spool.indexed",  # the index has it with its source offsets, the task was not told
    "spool.confirmed",  # the source was told what the reader has committed, the segments still exist
    "spark.staged",  # records are in a staging file and in no table
    "spark.committed",  # one table is committed, but not the next table or the consumer group's offsets
    "parquet.encoded",  # a file of a Parquet table is in memory, and nowhere else
    "parquet.linking",  # the file is in a temporary file
    "parquet.linked",  # readers see the file, the writer was not told
    "jdbc.written",  # a transaction has written a batch and is not committed
    "jdbc.committed",  # the transaction is committed, the consumer group's offsets are not
    "errors.reported",  # an errant record was sent to the dead letter queue and is not acknowledged
    "errors.acknowledged",  # the dead letter queue has acknowledged it, no offset is committed or stored
    "dead_letters.written",  # a replay has written dead letters, and its transaction is not committed
    "dead_letters.replayed",  # the transaction is committed, the next one has not begun
    "sink.precommitted",  # the task has returned its durable offsets, the group's offsets are not committed
    "cluster.tasks_written",  # a leader has written a connector's task configs, but not the commit record
    "cluster.tasks_stopped",  # a worker has stopped revoked tasks and has not rejoined the group
    "cluster.fenced",  # a leader has fenced producers of earlier tasks and has not recorded it
)

VARIABLE = "SLUICE_CRASH_AT"
_WHOLE_WORKER = "worker/"

_asked, _, _times = os.environ.get(VARIABLE, "").partition(":")
_name = _asked.removeprefix(_WHOLE_WORKER)
_left = int(_times) if _times.isdigit() else 1
_lock = threading.Lock()
_control_pid: int | None = None


def in_executor_of(control_pid: int) -> None:
    """Declares this process an executor of the worker with this control process."""
    global _control_pid
    _control_pid = control_pid


def point(name: str) -> None:
    """Kills the process if the environment names this point and it is reached for the n-th time."""
    if name != _name:
        return
    global _left
    with _lock:
        _left -= 1
        if _left == 0:
            if _control_pid is not None and _asked != _name:
                os.kill(_control_pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
