"""Leases: who uses Spark in this process, and when it stops.

A process uses one Spark at a time, because PySpark keeps it in class attributes. The first lease starts it or attaches to the one
of the worker, on its own thread, so that the worker's REST API is available meanwhile.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
from typing import TYPE_CHECKING, Protocol

from connect.errors import ConfigError, ConnectError, RetriableError
from connect.worker_lifetime import WorkerLifetime, WorkerScope, executor_scope
from connectors.spark.config import SparkConfig
from connectors.spark.errors import is_jvm_gone
from connectors.spark.session.attached import AttachedSpark
from connectors.spark.session.remote import RemoteSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ATTEMPTS = 3
_STOP_S = 30.0


class Spark(Protocol):
    """A Spark that runs or starts. Safe from any thread."""

    def has_failed(self) -> bool: ...

    def is_alive(self) -> bool: ...

    def new_session(self, settings: SparkConfig) -> SparkSession: ...

    def release(self, session: SparkSession) -> None: ...

    def mark_ended(self) -> None: ...

    def warm_up(self) -> None: ...

    def close(self) -> None: ...


class Lease:
    """A task's use of Spark. Safe from any thread."""

    def __init__(self, settings: SparkConfig, merges: bool) -> None:
        self._settings = settings
        self._merges = merges
        self._lock = threading.Lock()
        self._spark: Spark | None = None
        self._sessions: list[SparkSession] = []

    def session(self) -> SparkSession:
        """Returns a new session, which shares no settings and no views with others. Waits until Spark runs.

        When Spark has ended (its JVM was killed, or ran out of memory), starts it again; sessions from before are useless then.
        Raises the error that prevented the start, or RetriableError when Spark ends again and again.
        """
        for _ in range(_ATTEMPTS):
            spark = _uses.current(self, self._settings, merges=self._merges)
            try:
                session = spark.new_session(self._settings)
            except Exception as e:
                if not is_jvm_gone(e):
                    raise
                spark.mark_ended()
                continue
            with self._lock:
                if self._spark is not spark:
                    self._spark, self._sessions = spark, []
                self._sessions.append(session)
            return session
        raise RetriableError(f"Spark's JVM ended {_ATTEMPTS} times while a session was created; see the worker's log")

    def is_alive(self) -> bool:
        """Whether the Spark of the last session still runs and answers; False before the first session. If not, call
        :meth:`session` for a new one. Costs a millisecond."""
        with self._lock:
            spark = self._spark
        return spark is not None and spark.is_alive()

    def release(self) -> None:
        """Ends the use; the lease's sessions must not be used any more. May be called twice."""
        with self._lock:
            spark, sessions = self._spark, self._sessions
            self._spark, self._sessions = None, []
        if spark is not None:
            for session in sessions:
                spark.release(session)
        _uses.remove(self)


class _Uses:
    """The leases of this process, and the Spark that they share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spark: Spark | None = None
        self._address = ("", "")
        self._leases: set[Lease] = set()
        self._lifetime: WorkerLifetime | None = None

    def add(self, lease: Lease, settings: SparkConfig, *, merges: bool) -> None:
        """Raises ConfigError when this process already uses Spark at another address."""
        with self._lock:
            address = (settings.master, settings.remote)
            if self._leases and address != self._address:
                running = self._address[1] or self._address[0]
                raise ConfigError.invalid(
                    "spark.remote" if settings.remote else "spark.master",
                    settings.remote or settings.master,
                    f"this process already uses Spark at {running}, and a process uses only one; use the same address for all "
                    "Spark connectors, or set task.isolation=dedicated",
                )
            self._address = address
            self._leases.add(lease)
            self._ensure_spark(settings, merges=merges)

    def current(self, lease: Lease, settings: SparkConfig, *, merges: bool) -> Spark:
        """The Spark to use now; another one if the last one has ended."""
        with self._lock:
            if lease not in self._leases:
                raise ConnectError("this use of Spark was released")
            return self._ensure_spark(settings, merges=merges)

    def _ensure_spark(self, settings: SparkConfig, *, merges: bool) -> Spark:
        spark = self._spark
        if spark is not None and spark.has_failed():
            spark.close()
            spark = None
        if spark is None:
            spark = self._spark = RemoteSpark(settings) if settings.remote else AttachedSpark(settings, self._scope())
        if merges:
            spark.warm_up()
        return spark

    def _scope(self) -> WorkerScope:
        if (scope := executor_scope()) is not None:
            return scope
        if self._lifetime is None:
            self._lifetime = WorkerLifetime()
        return self._lifetime.scope

    def remove(self, lease: Lease) -> None:
        with self._lock:
            self._leases.discard(lease)
            if not self._leases and self._spark is not None:
                # The host keeps Spark running for spark.linger.ms; attaching again takes a fraction of a second.
                self._spark.close()
                self._spark = None

    def stop(self) -> None:
        with self._lock:
            self._leases.clear()
            spark, self._spark = self._spark, None
            lifetime, self._lifetime = self._lifetime, None
            if spark is not None:
                with contextlib.suppress(Exception):
                    spark.close()
            if lifetime is not None:
                lifetime.end(_STOP_S)


_uses = _Uses()


def lease(settings: SparkConfig, *, merges: bool = False) -> Lease:
    """Requests Spark; returns immediately. ``merges`` warms it up for merges.

    Raises ConfigError when this process already uses Spark at another address."""
    made = Lease(settings, merges)
    _uses.add(made, settings, merges=merges)
    return made


@atexit.register
def stop() -> None:
    """Stops using Spark immediately, even if it is in use; outside an executor, also ends the JVM and waits for that."""
    _uses.stop()
