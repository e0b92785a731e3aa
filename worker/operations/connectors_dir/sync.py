"""Makes the worker's connectors match a directory of connector files (``connectors.dir``).

One thread scans the directory once a second and applies the differences. Doubtful cases change nothing: a file that is being
written or cannot be read, two files for one connector, a directory that is missing or was emptied by an unmount.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from connect.backoff import Backoff
from connect.errors import ConnectError, NotFoundError
from worker.model import ConnectorFileState, Origin, TargetState
from worker.operations.connectors_dir.plan import Action, DesiredConnector, Step, plan
from worker.operations.connectors_dir.reader import DirectoryReader, DirectorySnapshot, FileSnapshot
from worker.operations.history.versions import Config, History

log = logging.getLogger(__name__)

SCAN_INTERVAL_S = 1.0
_BACKOFF = Backoff(2.0, 60.0)


class DirectoryTarget(Protocol):
    """The herder's operations that the directory uses. Called on the directory's thread; they may block as long as a REST
    request, and raise errors of connect.errors."""

    def applies_files(self) -> bool:
        """Returns whether this worker applies its files: in a cluster only the leader does, and only while it is ready."""

    def configs(self) -> Mapping[str, Mapping[str, str | None]]:
        """Returns the configurations of all connectors, variables unresolved."""

    def managed(self) -> Collection[str]:
        """Returns the connectors whose current configuration came from a file
        (:meth:`worker.operations.history.versions.History.managed`)."""

    def put(self, name: str, config: Mapping[str, str | None], target_state: TargetState | None) -> None:
        """Creates or changes a connector; recorded as ``Origin.DIRECTORY``."""

    def adopt(self, name: str, config: Mapping[str, str | None]) -> None:
        """Records that a file manages a connector, which has this configuration already."""

    def delete(self, name: str) -> None:
        """Deletes a connector; recorded as ``Origin.DIRECTORY``."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """A step that the worker rejected. It is retried with backoff: what was missing may become available."""

    digest: str
    error: str
    attempts: int
    retry_s: float


class ConnectorDirectory:
    """The creator starts and closes it. Any thread may call :meth:`files`."""

    def __init__(
        self,
        path: str | Path,
        target: DirectoryTarget,
        clock: Callable[[], float] = time.monotonic,
        epoch_s: Callable[[], float] = time.time,
    ) -> None:
        self._path = Path(path)
        self._target = target
        self._clock = clock
        self._reader = DirectoryReader(path, epoch_s)
        self._failures: dict[str, _Failure] = {}
        self._applied: dict[str, tuple[str, dict[str, str | None]]] = {}
        """By connector, the digest that was applied, and the configuration that the worker had afterwards."""
        self._identity: tuple[int, int] | None = None
        self._problem: str | None = None
        self._duplicates: dict[str, str] = {}
        self._states: tuple[ConnectorFileState, ...] = ()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="connectors-dir", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        log.info("Applying the connector files in %s (connectors.dir)", self._path)
        self._thread.start()

    def files(self) -> list[ConnectorFileState]:
        """Returns each file with its state, sorted by name; one entry with the error for an unreadable directory."""
        return list(self._states)

    def close(self, timeout_s: float = 5.0) -> None:
        """Ends the thread, or abandons it if it waits for a connector."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def sync(self) -> None:
        """Scans the directory once, and applies the differences. Raises only the target's errors other than ConnectError."""
        seen = self._reader.scan()
        duplicates = _find_duplicates(seen)
        for name in duplicates.keys() - self._duplicates.keys():
            log.warning("connectors.dir: %s", duplicates[name])
        self._duplicates = duplicates
        if seen.error is not None:
            self._log_problem(seen.error + ". No connector is changed until it can be read")
            self._states = (
                ConnectorFileState(str(self._path), None, "invalid", seen.error),
                *self._file_states(seen, duplicates, True),
            )
            return
        applies = self._target.applies_files()
        if applies:
            self._apply(seen, duplicates)
        self._states = self._file_states(seen, duplicates, applies)

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                self.sync()
            except Exception:
                log.exception("The files in %s could not be applied", self._path)
            self._stop.wait(SCAN_INTERVAL_S)

    # --- applying

    def _apply(self, seen: DirectorySnapshot, duplicates: Collection[str]) -> None:
        configs = self._target.configs()
        desired = [one.desired for one in seen.files if one.desired is not None and one.name not in duplicates]
        claimed = {one.name for one in seen.files if one.name is not None}
        actions = plan(
            desired,
            configs,
            self._target.managed(),
            claimed=claimed,
            may_delete=self._may_delete(seen),
        )
        for action in actions:
            if self._stop.is_set():
                return
            if not self._is_applied(action, configs) and not self._awaits_retry(action):
                self._try(action)
        planned = {action.name for action in actions}
        for name in self._failures.keys() - planned:
            del self._failures[name]

    def _may_delete(self, seen: DirectorySnapshot) -> bool:
        if any(one.name is None for one in seen.files):
            return False  # a file that was never readable may describe any connector
        if seen.files:
            self._identity, self._problem = seen.identity, None
            return True
        if seen.identity == self._identity:
            return True
        self._log_problem(
            f"{self._path} is empty, but was not before, or was never scanned before: no connector is deleted. Is a volume to be "
            "mounted there? If not, delete the connectors over REST"
        )
        return False

    def _is_applied(self, action: Action, configs: Mapping[str, Mapping[str, str | None]]) -> bool:
        """Returns whether the worker has applied this file, and itself changed the configuration that differs from it."""
        applied = self._applied.get(action.name)
        if action.step is not Step.CHANGE or action.desired is None or applied is None or applied[0] != action.desired.digest:
            return False
        return applied[1] == dict(configs[action.name])

    def _awaits_retry(self, action: Action) -> bool:
        failure = self._failures.get(action.name)
        return failure is not None and failure.digest == _digest(action) and self._clock() < failure.retry_s

    def _try(self, action: Action) -> None:
        try:
            self._carry_out(action)
        except NotFoundError as e:
            if action.step is not Step.DELETE:
                self._failed(action, e)
        except ConnectError as e:
            self._failed(action, e)
        else:
            self._failures.pop(action.name, None)

    def _carry_out(self, action: Action) -> None:
        name, desired = action.name, action.desired
        if desired is None:
            self._target.delete(name)
            self._applied.pop(name, None)
            log.info("connectors.dir: deleted connector %s, which has no file any more", name)
            return
        match action.step:
            case Step.CREATE:
                self._target.put(name, desired.config, _target_state(desired))
                log.info("connectors.dir: created connector %s from %s", name, desired.file)
            case Step.CHANGE:
                was_changed_elsewhere = self._applied.get(name, ("",))[0] == desired.digest
                self._target.put(name, desired.config, None)
                why = ", which was changed elsewhere" if was_changed_elsewhere else ""
                log.info("connectors.dir: updated connector %s%s, from %s", name, why, desired.file)
            case Step.ADOPT:
                self._target.adopt(name, desired.config)
                log.info("connectors.dir: connector %s is managed by %s from now on", name, desired.file)
            case Step.DELETE:
                return
        self._applied[name] = (desired.digest, dict(self._target.configs().get(name, desired.config)))

    def _failed(self, action: Action, error: ConnectError) -> None:
        digest, before = _digest(action), self._failures.get(action.name)
        attempts = before.attempts + 1 if before is not None and before.digest == digest else 1
        delay_s = _BACKOFF.delay_after_s(attempts)
        self._failures[action.name] = _Failure(digest, error.message, attempts, self._clock() + delay_s)
        if attempts == 1:
            where = "" if action.desired is None else f" of {action.desired.file}"
            log.error("connectors.dir: cannot %s connector %s%s: %s", action.step.value, action.name, where, error.message)

    def _log_problem(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            log.warning("connectors.dir: %s", problem)

    # --- states

    def _file_states(
        self, seen: DirectorySnapshot, duplicates: Mapping[str, str], applies: bool
    ) -> tuple[ConnectorFileState, ...]:
        return tuple(self._file_state(found, duplicates, applies) for found in seen.files)

    def _file_state(self, found: FileSnapshot, duplicates: Mapping[str, str], applies: bool) -> ConnectorFileState:
        if found.error is not None:
            return ConnectorFileState(found.file, found.name, "invalid", found.error)
        if found.desired is None or found.name is None:
            return ConnectorFileState(found.file, found.name, "pending")
        if found.name in duplicates:
            return ConnectorFileState(found.file, found.name, "invalid", duplicates[found.name])
        failure = self._failures.get(found.name)
        if failure is not None and failure.digest == found.digest:
            return ConnectorFileState(found.file, found.name, "failed", failure.error)
        return ConnectorFileState(found.file, found.name, "applied" if applies else "waiting")


def _find_duplicates(seen: DirectorySnapshot) -> dict[str, str]:
    """Returns the connectors that several files describe, each with an error message."""
    names = [one.name for one in seen.files if one.name is not None]
    return {
        name: f"Connector {name} is described by several files: "
        + ", ".join(one.file for one in seen.files if one.name == name)
        + ". It stays unchanged until only one of them is left"
        for name, count in Counter(names).items()
        if count > 1
    }


def _digest(action: Action) -> str:
    return "" if action.desired is None else action.desired.digest


def _target_state(desired: DesiredConnector) -> TargetState | None:
    state = desired.initial_state
    return None if state is None else TargetState("STARTED" if state == "RUNNING" else state)


@dataclass(frozen=True, slots=True)
class HerderTarget:
    """Implements :class:`worker.operations.connectors_dir.sync.DirectoryTarget`. ``put_from`` creates or replaces a connector,
    ``delete_from`` deletes one; the herder records the origin of the change."""

    put_from: Callable[[Origin, str, Config, TargetState | None], object]
    delete_from: Callable[[Origin, str], object]
    given_configs: Callable[[], Mapping[str, Config]]
    history: History
    may_apply: Callable[[], bool] = lambda: True
    """Returns, in a cluster, whether this worker is the leader and knows all configurations."""

    def applies_files(self) -> bool:
        return self.may_apply()

    def configs(self) -> Mapping[str, Config]:
        return self.given_configs()

    def managed(self) -> Collection[str]:
        return self.history.managed()

    def put(self, name: str, config: Config, target_state: TargetState | None) -> None:
        self.put_from(Origin.DIRECTORY, name, config, target_state)

    def adopt(self, name: str, config: Config) -> None:
        self.history.record(name, config, Origin.DIRECTORY)

    def delete(self, name: str) -> None:
        self.delete_from(Origin.DIRECTORY, name)
