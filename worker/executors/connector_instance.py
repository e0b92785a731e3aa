"""One connector instance: its lifecycle, and what it may report to its worker."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from connect.connector import Connector
from connect.errors import ConnectError
from worker.config.secrets import SecretMask
from worker.error_text import describe
from worker.errors.trace import trace_of
from worker.executor import ConnectorSpec, ExecutorListener
from worker.executors.task_configs import generated_task_configs
from worker.model import Stall, State, TargetState
from worker.observability.stalls import StallSettings, find_connector_stall
from worker.storage.offset_store import ConnectorOffsetReader, OffsetStore

log = logging.getLogger(__name__)


class ConnectorClass(NamedTuple):
    """A loaded connector class."""

    type: type[Connector]
    name: str
    """As REST shows it."""
    version: str | None


class _Instance:
    """One object of the connector class, from before it is created."""

    def __init__(self) -> None:
        self.connector: Connector | None = None
        self.class_name = ""
        self.started = False
        self.abandoned = threading.Event()
        self.reporting = threading.Lock()
        """Held while checking that the object is not abandoned and reporting its state: no report follows its abandonment."""


class ConnectorInstance:
    """Its methods run in the connector's queue, except :meth:`abandon` and the ``on_`` methods, which are safe from any
    thread."""

    def __init__(
        self,
        start_id: int,
        spec: ConnectorSpec,
        load: Callable[[ConnectorSpec], ConnectorClass],
        listener: ExecutorListener,
        offsets: OffsetStore,
        mask: SecretMask,
        in_queue: Callable[[Callable[[], None]], object],
        stalls: StallSettings | None = None,
    ) -> None:
        self.spec = spec
        self.start_id = start_id
        self._stalls = stalls or StallSettings()
        self._call: tuple[str, int] | None = None
        """The method of the connector that is being called, and since when."""
        self._load = load
        self._listener = listener
        self._offsets = offsets
        self._mask = mask
        self._in_queue = in_queue
        self._version: str | None = None
        self._current: _Instance | None = None
        self._failed = False
        self._ended = False

    def follow(self, target: TargetState) -> None:
        """Starts or stops the connector, and reports its state. Raises what its start raises."""
        if target is TargetState.STARTED:
            if self._failed:
                self._stop()
            self._start()
            return
        current = self._current
        self._stop()
        if self._version is None:
            # The status has the version even if the connector never ran (recording status-initial-stopped).
            self._version = self._known_version()
        if current is None:
            self.report_stopped(target)
            return
        with current.reporting:
            # For an abandoned one this was reported already, and another may run by now.
            if not current.abandoned.is_set():
                self.report_stopped(target)

    def report_stopped(self, target: TargetState) -> None:
        """Reports that it has stopped for this target."""
        # As in Apache's worker, a failed connector stays FAILED when it is paused.
        if target is TargetState.STOPPED:
            self._failed = False
            self._report(State.STOPPED)
        elif not self._failed:
            self._report(State.PAUSED)

    def task_configs(self) -> list[dict[str, str]] | None:
        """The task configs; None if the connector is not started. Raises what the connector raises, and reports that failure."""
        current = self._current
        if current is None or current.connector is None or not current.started:
            return None
        try:
            with self._calling("task_configs"):
                return generated_task_configs(current.connector, self.spec, current.class_name)
        except BaseException as e:
            self._fail(current, e)
            raise

    def stall(self) -> Stall | None:
        """Returns the stall of a call that does not return. Safe from any thread."""
        call = self._call
        return None if call is None else find_connector_stall(*call, _now_ms(), self._stalls)

    @contextmanager
    def _calling(self, method: str) -> Iterator[None]:
        self._call = method, _now_ms()
        try:
            yield
        finally:
            self._call = None

    def end(self) -> None:
        """Stops for good. Nothing more is reported."""
        self._ended = True
        self._stop()

    def abandon(self) -> None:
        """Gives up on an object that hangs: its further reports are ignored. The next start creates another."""
        current, self._current = self._current, None
        if current is not None:
            with current.reporting:
                current.abandoned.set()

    def end_abandoned(self) -> None:
        """Abandons it for good."""
        self._ended = True
        self.abandon()

    def _start(self) -> None:
        current = self._current
        if current is None:
            current = self._current = _Instance()
        # Checked when the object can already be abandoned: a start that was delayed until it was abandoned does nothing.
        if current.started or self._ended:
            return
        try:
            with self._calling("start"):
                connector = current.connector
                if connector is None:
                    connector = self._create(current)
                if current.abandoned.is_set():
                    return
                connector.start(self.spec.config)
        except BaseException as e:  # sys.exit() in a connector fails the connector
            self._fail(current, e)
            raise
        current.started = True
        with current.reporting:
            if not current.abandoned.is_set():
                self._failed = False
                self._report(State.RUNNING)
                log.info("Connector %s started", self.spec.name)
                return
        # The start returned after it was abandoned: stop what it started.
        self._stop_instance(current)

    def _create(self, current: _Instance) -> Connector:
        loaded = self._load(self.spec)
        self._version, current.class_name = loaded.version, loaded.name
        connector = loaded.type()
        connector.initialize(
            _ConnectorContext(self, current, ConnectorOffsetReader(self._offsets, self.spec.name, current.abandoned.wait))
        )
        current.connector = connector
        return connector

    def _known_version(self) -> str | None:
        try:
            return self._load(self.spec).version
        except ConnectError as e:
            log.warning("The class of connector %s cannot be loaded: %s", self.spec.name, e.message)
            return None

    def _stop(self) -> None:
        if self._current is not None:
            self._stop_instance(self._current)

    def _stop_instance(self, current: _Instance) -> None:
        if current.connector is not None and current.started:
            try:
                with self._calling("stop"):
                    current.connector.stop()
            except BaseException:
                log.exception("stop() of connector %s failed", self.spec.name)
        current.started = False

    def _fail(self, current: _Instance, error: BaseException) -> None:
        # Its tasks continue, as in Apache's worker.
        with current.reporting:
            if self._ended or current.abandoned.is_set():
                log.info("Abandoned connector %s failed: %s", self.spec.name, describe(error))
                return
            log.error("Connector %s failed: %s", self.spec.name, describe(error), exc_info=error)
            self._failed = True
            self._report(State.FAILED, trace_of(error, self._mask))

    def _report(self, state: State, trace: str | None = None) -> None:
        if not self._ended:
            self._listener.on_connector_state(self.start_id, self.spec.name, state, trace, self._version)

    # --- requests of the connector, on any thread

    def on_reconfiguration_request(self, current: _Instance) -> None:
        if not (current.abandoned.is_set() or self._ended):
            self._listener.on_reconfiguration_requested(self.start_id, self.spec.name)

    def on_failure(self, current: _Instance, error: Exception) -> None:
        # In the queue: a start that is still running reports RUNNING first.
        if not (current.abandoned.is_set() or self._ended):
            self._in_queue(lambda: self._fail(current, error))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class _ConnectorContext:
    """Implements :class:`connect.connector.SourceConnectorContext`."""

    def __init__(self, instance: ConnectorInstance, current: _Instance, reader: ConnectorOffsetReader) -> None:
        self._instance = instance
        self._current = current
        self._reader = reader

    def request_task_reconfiguration(self) -> None:
        self._instance.on_reconfiguration_request(self._current)

    def raise_error(self, error: Exception) -> None:
        self._instance.on_failure(self._current, error)

    def offset_reader(self) -> ConnectorOffsetReader:
        return self._reader
