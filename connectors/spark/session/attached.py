"""Spark in a JVM of this worker: finds or starts its host, attaches PySpark, and notices its end."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from connect.errors import ConnectError
from connect.worker_lifetime import WorkerScope
from connectors.spark.config import SparkConfig
from connectors.spark.masters import is_local
from connectors.spark.session.attach import attach, detach
from connectors.spark.session.gateway import close_connection_of_thread
from connectors.spark.session.rendezvous import Rendezvous, connect_host, rendezvous_for
from connectors.spark.session.s3_log_store import install_log_store
from connectors.spark.session.settings import plan_launch, s3_conf, session_conf
from connectors.spark.session.warm_up import warm_up_merge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_WARM_UP_STOP_S = 10.0
_HOST_ATTEMPTS = 5


class AttachedSpark:
    """This process's connection to the JVM. Attaches on its own thread from the start."""

    def __init__(self, settings: SparkConfig, scope: WorkerScope) -> None:
        self._settings = settings
        self._scope = scope
        self._started: Future[SparkSession] = Future()
        self._ended = threading.Event()
        self._closing = threading.Event()
        self._connection: socket.socket | None = None
        self._place: Rendezvous | None = None
        self._gateway: Any = None
        self._warm_up: threading.Thread | None = None
        self._thread = threading.Thread(target=self._run, name="spark-client", daemon=True)
        self._thread.start()

    def has_failed(self) -> bool:
        """Whether Spark could not be started, or has ended."""
        return self._ended.is_set() or (self._started.done() and self._started.exception() is not None)

    def is_alive(self) -> bool:
        """Whether Spark runs and answers. False while it starts."""
        if self.has_failed() or not self._started.done():
            return False
        try:
            self._gateway.jvm.java.lang.System.nanoTime()
        except Exception:
            self._ended.set()
            return False
        return True

    def new_session(self, settings: SparkConfig) -> SparkSession:
        """Waits until Spark runs. Raises the error that prevented the start, or that of py4j when the JVM has ended."""
        return open_session(self._started.result(), settings)

    def release(self, session: SparkSession) -> None:
        """Does nothing: the JVM drops a session that no Python object refers to, and stopping one would stop Spark for all."""

    def mark_ended(self) -> None:
        self._ended.set()

    def warm_up(self) -> None:
        """Runs a first merge in the background, once per JVM; only if Spark runs on this machine."""
        if self._warm_up is None and is_local(self._settings.master):
            self._warm_up = threading.Thread(target=self._run_warm_up, name="spark-warm-up", daemon=True)
            self._warm_up.start()

    def _run_warm_up(self) -> None:
        try:
            session = self._started.result().newSession()
        except Exception:
            return  # callers of new_session get the error
        if self._place is not None and self._place.claim_warm_up():
            warm_up_merge(session)
        close_connection_of_thread(self._gateway)

    def _run(self) -> None:
        try:
            answers = self._join_host()
            local = is_local(self._settings.master)
            self._gateway, session = attach(answers["port"], answers["token"], is_local=local)
        except BaseException as e:
            self._ended.set()
            self._started.set_exception(e)
            return
        close_connection_of_thread(self._gateway)
        self._started.set_result(session)
        reason = self._read_line().get("error")
        self._ended.set()
        if not self._closing.is_set():
            log.warning("Spark's JVM (process %s) has ended: %s", answers["pid"], reason or "its host has ended")

    def _join_host(self) -> dict[str, Any]:
        plan = plan_launch(self._settings)
        self._place = rendezvous_for(self._scope, self._settings.master)
        for _ in range(_HOST_ATTEMPTS):
            if self._closing.is_set():
                break
            self._connection = connect_host(self._place, self._scope, plan)
            if self._closing.is_set():  # close() may have looked for a connection before there was one, and waits for this thread
                self._connection.close()
                break
            with contextlib.suppress(OSError):
                self._connection.sendall(json.dumps({"linger_ms": self._settings.linger_ms}).encode() + b"\n")
                answer = self._read_line()
                if "port" in answer:
                    return answer
                if "error" in answer and not answer["was_ready"]:
                    raise ConnectError(answer["error"])
            # The host has ended in this moment, so the next attempt starts one.
            self._connection.close()
        raise ConnectError("Spark could not be started: its host process ended again and again; see the worker's log")

    def _read_line(self) -> dict[str, Any]:
        """The host's next message; empty when the host has ended."""
        assert self._connection is not None
        data = b""
        while not data.endswith(b"\n"):
            try:
                part = self._connection.recv(65536)
            except OSError:
                part = b""
            if not part:
                return {}
            data += part
        message: dict[str, Any] = json.loads(data.splitlines()[0])
        return message

    def close(self) -> None:
        """Leaves the host, which lingers if this was its last client."""
        self._closing.set()
        if self._warm_up is not None and not self._ended.is_set():
            self._warm_up.join(_WARM_UP_STOP_S)
        self._ended.set()
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        if self._gateway is not None:
            detach(self._gateway)
        if self._connection is not None:
            self._connection.close()


def open_session(parent: SparkSession, settings: SparkConfig) -> SparkSession:
    """Returns a new session of the same Spark with a connector's settings."""
    session = parent.newSession()
    for key, value in {**session_conf(settings), **s3_conf(settings)}.items():
        _set_unless_static(session, key, value)
    if settings.s3 is not None:
        install_log_store(session)
    return session


def _set_unless_static(session: SparkSession, key: str, value: str) -> None:
    from py4j.protocol import Py4JError

    try:
        session.conf.set(key, value)
    except Py4JError:
        raise
    except Exception as e:
        log.debug("Spark does not allow a session to set %s: %s", key, e)
