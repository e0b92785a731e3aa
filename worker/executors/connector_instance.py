"""One connector that runs here: its instance, and what that may say to its worker."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from connect.connector import Connector
from connect.errors import ConnectError
from worker.config.secrets import SecretMask
from worker.error_text import describe
from worker.errors.trace import trace_of
from worker.executor import ConnectorSpec, ExecutorListener
from worker.executors.task_configs import generated_task_configs
from worker.model import State, TargetState
from worker.storage.offset_store import ConnectorOffsetReader, OffsetStore

log = logging.getLogger(__name__)


class ConnectorClass(NamedTuple):
    """A connector's class, as it was loaded."""

    type: type[Connector]
    name: str
    """As REST shows it."""
    version: str | None


class _Life:
    """One object of the connector's class, from before it is made."""

    def __init__(self) -> None:
        self.connector: Connector | None = None
        self.class_name = ""
        self.started = False
        self.abandoned = threading.Event()
        self.telling = threading.Lock()
        """Held while it is looked whether it is abandoned, and said what became of it: nothing of it comes after that."""


class ConnectorInstance:
    """Methods that are verbs run in the connector's lane, but for :meth:`abandon`, which is for any thread."""

    def __init__(
        self,
        run: int,
        spec: ConnectorSpec,
        load: Callable[[ConnectorSpec], ConnectorClass],
        listener: ExecutorListener,
        offsets: OffsetStore,
        mask: SecretMask,
        in_lane: Callable[[Callable[[], None]], object],
    ) -> None:
        self.spec = spec
        self._run = run
        self._load = load
        self._listener = listener
        self._offsets = offsets
        self._mask = mask
        self._in_lane = in_lane
        self._version: str | None = None
        self._life: _Life | None = None
        self._failed = False
        self._ended = False

    def follow(self, target: TargetState) -> None:
        """Starts or stops the connector. Raises what its start raises; what became of it is told."""
        if target is TargetState.STARTED:
            if self._failed:
                self._stop()
            self._start()
            return
        life = self._life
        self._stop()
        if self._version is None:
            # Its state tells the version also when it has never run (recording status-initial-stopped).
            self._version = self._known_version()
        if life is None:
            self.tell_stopped(target)
            return
        with life.telling:
            # Of one that was abandoned it has been told, and another may run by now.
            if not life.abandoned.is_set():
                self.tell_stopped(target)

    def tell_stopped(self, target: TargetState) -> None:
        """It has stopped for this target."""
        # As in Apache's worker a connector that has failed stays FAILED when it is paused.
        if target is TargetState.STOPPED:
            self._failed = False
            self._tell(State.STOPPED)
        elif not self._failed:
            self._tell(State.PAUSED)

    def task_configs(self) -> list[dict[str, str]] | None:
        """The tasks, None of a connector that is not started. Raises what the connector raises; the failure is told."""
        life = self._life
        if life is None or life.connector is None or not life.started:
            return None
        try:
            return generated_task_configs(life.connector, self.spec, life.class_name)
        except BaseException as e:
            self._fail(life, e)
            raise

    def end(self) -> None:
        """Stops for good. Nothing more is said."""
        self._ended = True
        self._stop()

    def abandon(self) -> None:
        """What runs hangs, and is left to itself: nothing that it says from now on is passed on. The next start makes another."""
        life, self._life = self._life, None
        if life is not None:
            with life.telling:
                life.abandoned.set()

    def end_abandoned(self) -> None:
        """The same, for good."""
        self._ended = True
        self.abandon()

    def _start(self) -> None:
        life = self._life
        if life is None:
            life = self._life = _Life()
        # After the life is there to be abandoned: a start whose thread was held up until nobody waited for it any more is none.
        if life.started or self._ended:
            return
        try:
            connector = life.connector
            if connector is None:
                connector = self._made(life)
            if life.abandoned.is_set():
                return
            connector.start(self.spec.config)
        except BaseException as e:  # sys.exit() in a connector ends the connector
            self._fail(life, e)
            raise
        life.started = True
        with life.telling:
            if not life.abandoned.is_set():
                self._failed = False
                self._tell(State.RUNNING)
                log.info("Connector %s started", self.spec.name)
                return
        # It came to an end after all, when nobody waited any more: what it began is ended.
        self._stop_life(life)

    def _made(self, life: _Life) -> Connector:
        loaded = self._load(self.spec)
        self._version, life.class_name = loaded.version, loaded.name
        connector = loaded.type()
        connector.initialize(_Context(self, life, ConnectorOffsetReader(self._offsets, self.spec.name, life.abandoned.wait)))
        life.connector = connector
        return connector

    def _known_version(self) -> str | None:
        try:
            return self._load(self.spec).version
        except ConnectError as e:
            log.warning("The class of connector %s cannot be loaded: %s", self.spec.name, e.message)
            return None

    def _stop(self) -> None:
        if self._life is not None:
            self._stop_life(self._life)

    def _stop_life(self, life: _Life) -> None:
        if life.connector is not None and life.started:
            try:
                life.connector.stop()
            except BaseException:
                log.exception("stop() of connector %s failed", self.spec.name)
        life.started = False

    def _fail(self, life: _Life, error: BaseException) -> None:
        # Its tasks go on, as in Apache's worker.
        with life.telling:
            if self._ended or life.abandoned.is_set():
                log.info("Connector %s, which was abandoned, failed: %s", self.spec.name, describe(error))
                return
            log.error("Connector %s failed: %s", self.spec.name, describe(error), exc_info=error)
            self._failed = True
            self._tell(State.FAILED, trace_of(error, self._mask))

    def _tell(self, state: State, trace: str | None = None) -> None:
        if not self._ended:
            self._listener.on_connector_state(self._run, self.spec.name, state, trace, self._version)

    # --- what the connector says, on any thread

    def on_reconfiguration_wanted(self, life: _Life) -> None:
        if not (life.abandoned.is_set() or self._ended):
            self._listener.on_reconfiguration_requested(self._run, self.spec.name)

    def on_failure(self, life: _Life, error: Exception) -> None:
        # In the lane: a start that still goes on tells RUNNING before this is told.
        if not (life.abandoned.is_set() or self._ended):
            self._in_lane(lambda: self._fail(life, error))


class _Context:
    """What the connector is given (:class:`connect.connector.SourceConnectorContext`)."""

    def __init__(self, instance: ConnectorInstance, life: _Life, reader: ConnectorOffsetReader) -> None:
        self._instance = instance
        self._life = life
        self._reader = reader

    def request_task_reconfiguration(self) -> None:
        self._instance.on_reconfiguration_wanted(self._life)

    def raise_error(self, error: Exception) -> None:
        self._instance.on_failure(self._life, error)

    def offset_reader(self) -> ConnectorOffsetReader:
        return self._reader
