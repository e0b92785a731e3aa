"""What executor processes say to the control process: states for the herder, questions for the worker's services.

Nothing that a process says is taken on trust. It speaks for the connectors and tasks that live in it and for no others, in the
forms that :mod:`worker.executors.messages` knows, and secrets are taken out here once more (promise 9).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from connect.errors import ConnectError, DataError
from worker.config.secrets import SecretMask
from worker.executor import ExecutorListener, WorkerServices
from worker.executors.futures import failed
from worker.executors.messages import (
    entries_to_plain,
    id_of_plain,
    offsets_of_plain,
    optional_text,
    records_to_plain,
    text,
    texts,
)
from worker.executors.process_handle import ProcessHandle
from worker.model import State, TaskId

log = logging.getLogger(__name__)

_MOST_AT_ONCE = 16
"""Questions of one process that are being answered at a time; others wait."""


class Residents(Protocol):
    """Who lives in which process. Any thread."""

    def is_connector_run(self, handle: ProcessHandle, name: str, run: int) -> bool: ...

    def is_task_run(self, handle: ProcessHandle, task: TaskId, run: int) -> bool: ...

    def lives_in(self, handle: ProcessHandle, connector: str) -> bool:
        """Whether the connector, or a task of it, is in this process."""

    def note_connector(self, name: str, run: int, state: State, version: str | None) -> None:
        """This was just told of it."""

    def note_task(self, task: TaskId, run: int, state: State, version: str | None) -> None: ...


class ControlSide:
    """Implements :class:`worker.executors.channel.Handler` for one process."""

    def __init__(
        self,
        handle: ProcessHandle,
        residents: Residents,
        listener: ExecutorListener,
        services: WorkerServices,
        mask: SecretMask,
        wake: Callable[[], None],
    ) -> None:
        self._handle = handle
        self._residents = residents
        self._listener = listener
        self._services = services
        self._mask = mask
        self._wake = wake
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix=f"executor-{handle.key}-asks")

    def on_closed(self, reason: str) -> None:
        self._handle.on_closed(reason)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._wake()

    def on_told(self, method: str, arguments: Mapping[str, Any]) -> None:
        match method, arguments:
            case "connector_state", {"run": int(run), "name": str(name), "state": str(state)}:
                if self._residents.is_connector_run(self._handle, name, run):
                    told, version = _state(state), optional_text(arguments, "version")
                    self._residents.note_connector(name, run, told, version)
                    self._listener.on_connector_state(run, name, told, self._trace(arguments), version)
            case "task_state", {"run": int(run), "state": str(state)}:
                task = id_of_plain(arguments.get("task"))
                if self._residents.is_task_run(self._handle, task, run):
                    told, version = _state(state), optional_text(arguments, "version")
                    self._residents.note_task(task, run, told, version)
                    if isinstance(thread := arguments.get("thread"), int):
                        self._handle.note_thread(thread, f"of task {task}")
                    self._listener.on_task_state(run, task, told, self._trace(arguments), version)
            case "reconfiguration", {"run": int(run), "name": str(name)}:
                if self._residents.is_connector_run(self._handle, name, run):
                    self._listener.on_reconfiguration_requested(run, name)
            case "topics", {"run": int(run)}:
                task = id_of_plain(arguments.get("task"))
                if self._residents.is_task_run(self._handle, task, run):
                    self._listener.on_topics(run, task, texts(arguments.get("topics")))
            case _:
                raise DataError(f"{method} is told to no worker in this form")

    def on_question(self, method: str, arguments: Mapping[str, Any]) -> Future[Any]:
        try:
            return self._threads.submit(self._call(method, arguments))
        except _NotHereError as e:
            return failed(e)
        except RuntimeError:  # closed meanwhile
            return failed(ConnectError("The worker does not answer any more"))

    def _call(self, method: str, arguments: Mapping[str, Any]) -> Callable[[], Any]:
        services = self._services
        match method, arguments:
            case "confirm_task", {"run": int(run), "anew": bool(anew)}:
                task = id_of_plain(arguments.get("task"))
                self._require(self._residents.is_task_run(self._handle, task, run), str(task))
                return lambda: services.confirm_task(run, task, anew=anew)
            case "offset", {"connector": str(connector), "partition": dict() | None as partition}:
                self._require(self._residents.lives_in(self._handle, connector), connector)
                return lambda: services.offsets.get(connector, partition)
            case "offsets", {"connector": str(connector)}:
                self._require(self._residents.lives_in(self._handle, connector), connector)
                return lambda: entries_to_plain(services.offsets.entries(connector))
            case _, {"connector": str(connector), "offsets": list()}:
                offsets = offsets_of_plain(arguments["offsets"])
                self._require(self._residents.lives_in(self._handle, connector), connector)
                match method:
                    case "put_offsets":
                        return lambda: services.offsets.put(connector, offsets)
                    case "offset_records":
                        return lambda: records_to_plain(services.offset_records(connector, offsets))
                    case "offsets_committed":
                        return lambda: services.offsets_committed(connector, offsets)
                    case "before_commit":
                        return lambda: services.before_commit(connector, offsets)
        raise DataError(f"{text(method)} is asked of no worker in this form")

    def _require(self, lives_here: bool, who: str) -> None:
        # Of what has just been stopped there may still come something: it is refused, and that is the end of it.
        if not lives_here:
            raise _NotHereError(f"{who} does not run in this executor any more")

    def _trace(self, arguments: Mapping[str, Any]) -> str | None:
        trace = optional_text(arguments, "trace")
        return None if trace is None else self._mask.mask(trace)


class _NotHereError(ConnectError):
    pass


def _state(name: str) -> State:
    try:
        return State(name)
    except ValueError as e:
        raise DataError(f"no state: {name}") from e
