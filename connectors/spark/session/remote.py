"""Spark Connect: each session is the server's own, and shares nothing with others."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from typing import TYPE_CHECKING, Any

from connect.errors import ConfigError, ConnectError
from connectors.spark.config import SparkConfig
from connectors.spark.session.settings import session_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_MODE = "SPARK_CONNECT_MODE_ENABLED"


class RemoteSpark:
    """A Spark Connect server. Checked on the first use."""

    def __init__(self, settings: SparkConfig) -> None:
        self._address = settings.remote
        self._lock = threading.Lock()
        self._probe: Any = None
        self._failed = False
        # PySpark's functions then create expressions for Spark Connect.
        os.environ[_MODE] = "1"

    def has_failed(self) -> bool:
        """Whether the server was found to be unavailable."""
        return self._failed

    def is_alive(self) -> bool:
        """Whether the server still knows the sessions of this process."""
        with self._lock:
            probe = self._probe
        if probe is None or self._failed:
            return False
        try:
            probe.conf.get("spark.sql.session.timeZone")
        except Exception as e:
            log.warning("Spark Connect at %s has lost its sessions: %s", self._address, _first_line(e))
            self._failed = True
        return not self._failed

    def new_session(self, settings: SparkConfig) -> SparkSession:
        """Raises ConnectError when the server does not respond, ConfigError when the client is incomplete."""
        session: SparkSession = self._create()
        with self._lock:
            if self._probe is None:
                self._probe = self._create()
        for key, value in session_conf(settings).items():
            with contextlib.suppress(Exception):  # a setting that only the server's operator may change
                session.conf.set(key, value)
        return session

    def _create(self) -> Any:
        try:
            from pyspark.sql.connect.session import SparkSession as RemoteSession
        except ImportError as e:
            what = f"the Spark Connect client is incomplete ({e}); install pyspark[connect]"
            raise ConfigError.invalid("spark.remote", self._address, what) from e

        class Session(RemoteSession):
            """A session that only :meth:`stop` ends. PySpark also ends one when it is collected as garbage, and with it the
            threads that all sessions of the process share: while another session uses them, or from one of them, after which
            every query fails."""

            def __del__(self) -> None: ...

        try:
            session: Any = RemoteSession.builder.remote(self._address).create()
            session.__class__ = Session
            return session
        except Exception as e:
            self._failed = True
            raise ConnectError(f"Spark Connect at {self._address} does not respond: {_first_line(e)}") from e

    def release(self, session: SparkSession) -> None:
        """Ends the session on the server."""
        with contextlib.suppress(Exception):
            session.stop()

    def mark_ended(self) -> None:
        self._failed = True

    def warm_up(self) -> None:
        """Does nothing: the server is warm, or its operator's concern."""

    def close(self) -> None:
        with self._lock:
            probe, self._probe = self._probe, None
        if probe is not None:
            self.release(probe)
        os.environ.pop(_MODE, None)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
