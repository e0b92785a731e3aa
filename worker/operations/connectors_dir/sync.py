"""A directory of connector files as desired state: ``connectors.dir``.

One thread looks once a second, and brings the worker's connectors to what the files say. Whatever is unclear changes nothing: a
file that is being written or cannot be read, two files of one name, a directory that is gone or was emptied by an unmount.
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

from connect.errors import ConnectError, NotFoundError
from worker.model import ConnectorFileState, TargetState
from worker.operations.connectors_dir.plan import Action, Step, Wanted, plan
from worker.operations.connectors_dir.reader import DirectoryLook, DirectoryReader, FileLook

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
_FIRST_RETRY_S = 2.0
_LONGEST_RETRY_S = 60.0


class DirectoryTarget(Protocol):
    """The herder, as the directory needs it. Called on the directory's thread; may block as long as a REST call may, and raise
    errors of connect.errors."""

    def applies_files(self) -> bool:
        """Whether this worker is to apply its files: in a cluster only the leader does, and only while it is ready to."""

    def configs(self) -> Mapping[str, Mapping[str, str | None]]:
        """The configurations of all connectors, as given."""

    def managed(self) -> Collection[str]:
        """Connectors whose present configuration came from a file
        (:meth:`worker.operations.history.versions.History.managed`)."""

    def put(self, name: str, config: Mapping[str, str | None], target_state: TargetState | None) -> None:
        """Creates or changes a connector; recorded as ``Origin.DIRECTORY``."""

    def adopt(self, name: str, config: Mapping[str, str | None]) -> None:
        """Records that a connector, which has this configuration already, is a file's from now on."""

    def delete(self, name: str) -> None:
        """Deletes a connector; recorded as ``Origin.DIRECTORY``."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """A step that the worker refused. It is tried again, ever more seldom: what was missing may have come."""

    digest: str
    error: str
    attempts: int
    retry_s: float


class ConnectorDirectory:
    """Whoever makes it starts and closes it. :meth:`files` is for any thread."""

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
        self._left: dict[str, tuple[str, dict[str, str | None]]] = {}
        """Per connector the digest that was applied, and the configuration that the worker had then."""
        self._identity: tuple[int, int] | None = None
        self._told: str | None = None
        self._repeated: dict[str, str] = {}
        self._shown: tuple[ConnectorFileState, ...] = ()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="connectors-dir", daemon=True)

    def start(self) -> None:
        """Begins to look."""
        log.info("Connectors are kept as the files in %s say (connectors.dir)", self._path)
        self._thread.start()

    def files(self) -> list[ConnectorFileState]:
        """Each file and what became of it, by name; of a directory that cannot be read one entry that says so."""
        return list(self._shown)

    def close(self, timeout_s: float = 5.0) -> None:
        """Ends the thread; one that waits for a connector is left behind."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def look(self) -> None:
        """One look: reads what is new, and does what has to be done. Raises only what the target raises besides ConnectError."""
        seen = self._reader.look()
        repeated = _repeated(seen)
        for name in repeated.keys() - self._repeated.keys():
            log.warning("connectors.dir: %s", repeated[name])
        self._repeated = repeated
        if seen.error is not None:
            self._tell(seen.error + ". No connector is changed until it can be")
            self._shown = (ConnectorFileState(str(self._path), None, "invalid", seen.error), *self._states(seen, repeated, True))
            return
        applies = self._target.applies_files()
        if applies:
            self._apply(seen, repeated)
        self._shown = self._states(seen, repeated, applies)

    def _work(self) -> None:
        while not self._stop.is_set():
            try:
                self.look()
            except Exception:
                log.exception("The files in %s could not be applied", self._path)
            self._stop.wait(LOOK_EVERY_S)

    # --- applying

    def _apply(self, seen: DirectoryLook, repeated: Collection[str]) -> None:
        configs = self._target.configs()
        wanted = [look.wanted for look in seen.files if look.wanted is not None and look.name not in repeated]
        claimed = {look.name for look in seen.files if look.name is not None}
        actions = plan(
            wanted,
            configs,
            self._target.managed(),
            claimed=claimed,
            may_delete=self._may_delete(seen),
        )
        for action in actions:
            if self._stop.is_set():
                return
            if not self._is_settled(action, configs) and not self._waits(action):
                self._do(action)
        done = {action.name for action in actions}
        for name in self._failures.keys() - done:
            del self._failures[name]

    def _may_delete(self, seen: DirectoryLook) -> bool:
        if any(look.name is None for look in seen.files):
            return False  # a file that cannot be read yet may be about any connector
        if seen.files:
            self._identity, self._told = seen.identity, None
            return True
        if seen.identity == self._identity:
            return True
        self._tell(
            f"{self._path} is empty, and was not when it was seen last, or was not seen before: no connector is deleted for it. "
            "Is something to be mounted there? If not, delete the connectors over REST"
        )
        return False

    def _is_settled(self, action: Action, configs: Mapping[str, Mapping[str, str | None]]) -> bool:
        """Whether a difference is the worker's own making: it was given the file as it is, and has made this of it."""
        left = self._left.get(action.name)
        if action.step is not Step.CHANGE or action.wanted is None or left is None or left[0] != action.wanted.digest:
            return False
        return left[1] == dict(configs[action.name])

    def _waits(self, action: Action) -> bool:
        failure = self._failures.get(action.name)
        return failure is not None and failure.digest == _digest(action) and self._clock() < failure.retry_s

    def _do(self, action: Action) -> None:
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
        name, wanted = action.name, action.wanted
        if wanted is None:
            self._target.delete(name)
            self._left.pop(name, None)
            log.info("connectors.dir: deleted connector %s, which no file describes any more", name)
            return
        match action.step:
            case Step.CREATE:
                self._target.put(name, wanted.config, _target_state(wanted))
                log.info("connectors.dir: created connector %s from %s", name, wanted.file)
            case Step.CHANGE:
                elsewhere = self._left.get(name, ("",))[0] == wanted.digest
                self._target.put(name, wanted.config, None)
                why = ", which was changed elsewhere, is again as its file says" if elsewhere else " is as its file says now"
                log.info("connectors.dir: connector %s%s (%s)", name, why, wanted.file)
            case Step.ADOPT:
                self._target.adopt(name, wanted.config)
                log.info("connectors.dir: connector %s belongs to %s from now on", name, wanted.file)
            case Step.DELETE:
                return
        self._left[name] = (wanted.digest, dict(self._target.configs().get(name, wanted.config)))

    def _failed(self, action: Action, error: ConnectError) -> None:
        digest, before = _digest(action), self._failures.get(action.name)
        attempts = before.attempts + 1 if before is not None and before.digest == digest else 1
        delay_s = min(_LONGEST_RETRY_S, _FIRST_RETRY_S * 2 ** min(attempts - 1, 10))
        self._failures[action.name] = _Failure(digest, error.message, attempts, self._clock() + delay_s)
        if attempts == 1:
            where = "" if action.wanted is None else f" of {action.wanted.file}"
            log.error("connectors.dir: cannot %s connector %s%s: %s", action.step.value, action.name, where, error.message)

    def _tell(self, problem: str) -> None:
        if problem != self._told:
            self._told = problem
            log.warning("connectors.dir: %s", problem)

    # --- showing

    def _states(self, seen: DirectoryLook, repeated: Mapping[str, str], applies: bool) -> tuple[ConnectorFileState, ...]:
        return tuple(self._state(look, repeated, applies) for look in seen.files)

    def _state(self, look: FileLook, repeated: Mapping[str, str], applies: bool) -> ConnectorFileState:
        if look.error is not None:
            return ConnectorFileState(look.file, look.name, "invalid", look.error)
        if look.wanted is None or look.name is None:
            return ConnectorFileState(look.file, look.name, "pending")
        if look.name in repeated:
            return ConnectorFileState(look.file, look.name, "invalid", repeated[look.name])
        failure = self._failures.get(look.name)
        if failure is not None and failure.digest == look.digest:
            return ConnectorFileState(look.file, look.name, "failed", failure.error)
        return ConnectorFileState(look.file, look.name, "applied" if applies else "waiting")


def _repeated(seen: DirectoryLook) -> dict[str, str]:
    """Names that several files give, with the sentence that says so."""
    names = [look.name for look in seen.files if look.name is not None]
    return {
        name: f"Connector {name} is described by several files: "
        + ", ".join(look.file for look in seen.files if look.name == name)
        + ". It is left as it is until one of them is gone"
        for name, count in Counter(names).items()
        if count > 1
    }


def _digest(action: Action) -> str:
    return "" if action.wanted is None else action.wanted.digest


def _target_state(wanted: Wanted) -> TargetState | None:
    state = wanted.initial_state
    return None if state is None else TargetState("STARTED" if state == "RUNNING" else state)
