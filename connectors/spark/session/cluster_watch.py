"""Watches the application on a cluster: a job without executors would wait forever, also after the restart of a master."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from connectors.spark.masters import parse_masters

POLL_S = 1.0
_RECOVERY_S = 15.0
"""In which a master that came back, and has its state, is known to the application again."""
_CONNECT_S = 2.0
_KEEP_ALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
_LOGS = "the executors' logs, in the work directories of Spark's workers,"


@dataclass(frozen=True, slots=True)
class Situation:
    """What one look at the application found."""

    jobs: tuple[int, ...] = ()
    executors: int = 0
    master_answers: bool = True
    master_was_lost: bool = False
    """Whether the master has been unreachable since the application began."""
    has_ended: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do: cancel jobs, or end the JVM, because the application cannot do any more work. Both for a reason."""

    cancel: tuple[int, ...] = ()
    end: bool = False
    reason: str = ""


@dataclass(slots=True)
class ClusterJudge:
    """Decides what to do about an application. ``masters`` are the addresses of a standalone master; none for other clusters."""

    master: str
    timeout_s: float
    executor_memory: str
    _waiting_since: float | None = field(default=None, init=False)
    _unknown_since: float | None = field(default=None, init=False)
    """Since when the application has no executor although a lost master is back: it may be unknown there."""
    _ended_before: bool = field(default=False, init=False)

    def judge(self, found: Situation, now: float) -> Verdict:
        if found.has_ended:
            # Not at once: calls that wait for a job return with Spark's own error first.
            end, self._ended_before = self._ended_before, True
            return Verdict(end=end, reason=f"{self.master} has ended the application; {_LOGS} may say why")
        is_unknown = not found.executors and found.master_was_lost and found.master_answers
        self._unknown_since = (now if self._unknown_since is None else self._unknown_since) if is_unknown else None
        if not found.jobs or found.executors:
            self._waiting_since = None
            return Verdict()
        if self._unknown_since is not None and now - self._unknown_since >= _RECOVERY_S:
            return Verdict(end=True, reason=f"{self.master} was restarted and does not know the application any more")
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since < self.timeout_s:
            return Verdict()
        self._waiting_since = None
        return Verdict(cancel=found.jobs, reason=self._describe(found.master_answers))

    def _describe(self, master_answers: bool) -> str:
        if not master_answers:
            return (
                f"because no Spark master answers at {self.master}, and the application has no executor left: "
                "start the master and its workers"
            )
        return (
            f"because {self.master} has given it no executor for {self.timeout_s:g} s (spark.executors.timeout.ms): start "
            f"workers with a free core and {self.executor_memory} of free memory (spark.conf.spark.executor.memory), "
            f"or, if executors end as soon as they start, see {_LOGS} for the reason"
        )


class MasterLink:
    """A connection to a standalone master, over which nothing is sent: it breaks when the master ends, or is unreachable."""

    def __init__(self, masters: Sequence[tuple[str, int]]) -> None:
        self._masters = masters
        self._connection: socket.socket | None = None
        self.was_lost = False

    def answers(self) -> bool:
        """Whether a master can be reached; true if there is none. Connects again if necessary."""
        if not self._masters:
            return True
        if self._connection is not None and _has_ended(self._connection):
            self.close()
            self.was_lost = True
        if self._connection is None:
            self._connection = _connect(self._masters)
        return self._connection is not None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _connect(masters: Sequence[tuple[str, int]]) -> socket.socket | None:
    for address in masters:
        with contextlib.suppress(OSError):
            connection = socket.create_connection(address, _CONNECT_S)
            connection.setblocking(False)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in _KEEP_ALIVE:
                if hasattr(socket, name):
                    connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            return connection
    return None


def _has_ended(connection: socket.socket) -> bool:
    try:
        return not connection.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True


class ClusterWatch:
    """Looks at an application regularly, through py4j. For one thread, except :meth:`close`."""

    def __init__(self, context: Any, conf: dict[str, str], timeout_s: float) -> None:
        """``context``: the JVM's SparkContext; ``conf``: its configuration."""
        self._context = context
        self._tracker = context.statusTracker()
        self._link = MasterLink(parse_masters("spark.master", conf["spark.master"]))
        self._judge = ClusterJudge(conf["spark.master"], timeout_s, conf.get("spark.executor.memory", "1g"))
        self._link.answers()
        self._is_closing = threading.Event()
        self.reason_to_end: str | None = None
        """Why the JVM has to end, if it has to."""

    def run(self) -> bool:
        """Watches until :meth:`close`, or until the JVM has to end; returns whether it has to. Raises the error of py4j when it
        has ended already."""
        try:
            while not self._is_closing.wait(POLL_S):
                verdict = self._judge.judge(self._look(), time.monotonic())
                for job in verdict.cancel:
                    self._context.cancelJob(job, verdict.reason)
                if verdict.end:
                    self.reason_to_end = verdict.reason
                    return True
            return False
        finally:
            self._link.close()

    def close(self) -> None:
        self._is_closing.set()

    def _look(self) -> Situation:
        answers = self._link.answers()
        if self._context.isStopped():
            return Situation(has_ended=True)
        jobs = tuple(self._tracker.getActiveJobIds())
        # The driver is one of them.
        executors = len(self._tracker.getExecutorInfos()) - 1
        return Situation(jobs, executors, answers, self._link.was_lost)
