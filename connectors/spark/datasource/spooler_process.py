"""Starts the process that runs the connector of a spool, or joins the one that runs."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from enum import Enum
from pathlib import Path

from connect.config.properties import write_properties
from connect.errors import ConnectError
from connect.spool.config import LOWER_CASE
from connect.spool.locks import WRITER, SpoolLock
from connect.spool.status import WriterState, WriterStatus, read_status
from connectors.spark.datasource.options import SourceOptions

log = logging.getLogger(__name__)

_START_S = 60.0
_STOP_S = 30.0
_POLL_S = 0.02
_MAX_DEATHS = 3
"""How often in a row the process may die without a reason before the query fails."""
_LOG_TAIL = 2000


class SpoolerMode(Enum):
    """What the process runs for (``worker.spool.output.SpoolMode``)."""

    STREAM = "stream"
    LOAD = "load"
    """It ends when it has read what exists."""
    SCHEMA = "schema"


class SpoolerProcess:
    """The process runs at most once per spool, and longer than this object: another one can join it. Not thread-safe."""

    def __init__(self, options: SourceOptions, mode: SpoolerMode) -> None:
        self._directory = directory = options.spool.location
        self._mode = mode
        self._similar = options.similar
        properties = {**options.properties, LOWER_CASE: "\n".join(options.lower_case)}
        self._arguments = [f"--mode={mode.value}", *(["--columns"] if options.reads_columns else [])]
        self._text = f"# {' '.join(self._arguments)}\n{write_properties(properties)}"
        self._writer = SpoolLock(directory, WRITER)
        self._child: subprocess.Popen[bytes] | None = None
        self._deaths = 0

    @property
    def log_file(self) -> Path:
        return self._directory / "spooler.log"

    @property
    def _file(self) -> Path:
        return self._directory / "connector.properties"

    def ensure_running(self) -> None:
        """Starts the process, unless one with the same properties runs; one with others is stopped first. The caller has the
        reader's lock. Raises ConnectError."""
        if not self._writer.is_free():
            if self._has_same_properties():
                return
            self.stop()
        self._start()

    def _has_same_properties(self) -> bool:
        try:
            return self._file.read_text(encoding="utf-8") == self._text
        except OSError:
            return False

    def _start(self) -> None:
        # Only the owner can read it: it may contain a password.
        descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(self._text)
        (self._directory / "status.json").unlink(missing_ok=True)
        command = [sys.executable, "-m", "worker.spool", *self._arguments, str(self._file)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with self.log_file.open("ab") as output:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_S
        while self._writer.is_free() and read_status(self._directory) is None:
            if self._child.poll() is not None or time.monotonic() > deadline:
                raise ConnectError(f"The connector's process did not start:\n{self._log_tail()}\nThe log is {self.log_file}")
            time.sleep(_POLL_S)

    def check(self) -> WriterStatus | None:
        """Returns the status of the process, which is started again if it was killed. Raises ConnectError if the connector
        failed."""
        if self._child is not None:
            self._child.poll()
        if not self._writer.is_free():
            return read_status(self._directory)
        status = read_status(self._directory)
        if status is not None and status.state is WriterState.FAILED:
            error = self._with_similar_options(status.error or "")
            raise ConnectError(f"{error}\nThe log is {self.log_file}. Start the query again to continue where it was")
        if status is not None and status.state is WriterState.LOADED and self._mode is not SpoolerMode.STREAM:
            return status
        self._deaths += 1
        if self._deaths > _MAX_DEATHS:
            raise ConnectError(
                f"The connector's process ended {self._deaths} times:\n{self._log_tail()}\nThe log is {self.log_file}"
            )
        log.warning("The process of the spool %s has ended; starting it again", self._directory)
        self._start()
        return None

    def _with_similar_options(self, error: str) -> str:
        """The error, which says which keys the connector does not have, with options of the data source that were meant."""
        lines = [
            f"\n- Did you mean {option} instead of {name}?"
            for name, option in self._similar.items()
            if f"Nothing reads {name}:" in error
        ]
        return error + "".join(lines)

    def made_progress(self) -> None:
        """Called when rows have arrived: earlier deaths no longer count."""
        self._deaths = 0

    def stop(self) -> None:
        """Stops the process, also one that was joined; its last segment is in the spool then. Raises ConnectError if it does not
        stop."""
        deadline = time.monotonic() + _STOP_S
        while not self._writer.is_free():
            status = read_status(self._directory)
            if status is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(status.process, signal.SIGTERM)
            if time.monotonic() > deadline:
                raise ConnectError(f"The process of the spool {self._directory} does not stop; the log is {self.log_file}")
            time.sleep(_POLL_S)
        if self._child is not None:
            self._child.wait()
            self._child = None

    def _log_tail(self) -> str:
        try:
            return self.log_file.read_text(encoding="utf-8", errors="replace")[-_LOG_TAIL:].strip()
        except OSError as e:
            return str(e)
