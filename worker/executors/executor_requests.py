"""What executor processes send to the control process: states for the herder, calls for the worker's services.

No message is trusted. A process speaks only for the connectors and tasks that run in it, in the forms that
:mod:`worker.executors.messages` knows, and secrets are masked here once more (promise 9).
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

from connect.errors import ConnectError, DataError
from worker.config.secrets import SecretMask
from worker.executor import ExecutorListener, WorkerServices
from worker.executors.futures import done, failed
from worker.executors.messages import (
    entries_to_plain,
    id_of_plain,
    offsets_of_plain,
    optional_text,
    records_to_plain,
    stall_of_plain,
    text,
    texts,
)
from worker.executors.process_handle import ProcessHandle
from worker.model import Stall, State, TaskId
from worker.observability.log_lines import LogLine
from worker.observability.recent_logs import recent_logs

log = logging.getLogger(__name__)

_MAX_CONCURRENT_CALLS = 16
"""Calls of one process that are served at a time; others wait."""


class WorkLocator(Protocol):
    """What runs in which process. Safe from any thread."""

    def is_connector_start(self, handle: ProcessHandle, name: str, start_id: int) -> bool: ...

    def is_task_start(self, handle: ProcessHandle, task: TaskId, start_id: int) -> bool: ...

    def runs_in(self, handle: ProcessHandle, connector: str) -> bool:
        """Whether the connector or one of its tasks runs in this process."""

    def record_connector_state(self, name: str, start_id: int, state: State, version: str | None) -> None:
        """Records the reported state."""

    def record_task_state(self, task: TaskId, start_id: int, state: State, version: str | None) -> None: ...


class ExecutorRequests:
    """Implements :class:`worker.executors.channel.Handler` for one process."""

    def __init__(
        self,
        handle: ProcessHandle,
        locator: WorkLocator,
        listener: ExecutorListener,
        services: WorkerServices,
        mask: SecretMask,
        wake: Callable[[], None],
    ) -> None:
        self._handle = handle
        self._locator = locator
        self._listener = listener
        self._services = services
        self._mask = mask
        self._wake = wake
        self._logged: set[str] = set()  # connectors that run or ran here
        self._threads = ThreadPoolExecutor(_MAX_CONCURRENT_CALLS, thread_name_prefix=f"executor-{handle.key}-calls")

    def on_closed(self, reason: str) -> None:
        self._handle.on_closed(reason)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._wake()

    def on_notification(self, method: str, arguments: Mapping[str, Any]) -> None:
        match method, arguments:
            case "connector_state", {"start_id": int(start_id), "name": str(name), "state": str(state)}:
                if self._locator.is_connector_start(self._handle, name, start_id):
                    reported, version = _state(state), optional_text(arguments, "version")
                    self._locator.record_connector_state(name, start_id, reported, version)
                    self._listener.on_connector_state(start_id, name, reported, self._trace(arguments), version)
            case "task_state", {"start_id": int(start_id), "state": str(state)}:
                task = id_of_plain(arguments.get("task"))
                if self._locator.is_task_start(self._handle, task, start_id):
                    reported, version = _state(state), optional_text(arguments, "version")
                    self._locator.record_task_state(task, start_id, reported, version)
                    if isinstance(thread := arguments.get("thread"), int):
                        self._handle.note_thread(thread, f"of task {task}")
                    self._listener.on_task_state(start_id, task, reported, self._trace(arguments), version)
            case "reconfiguration", {"start_id": int(start_id), "name": str(name)}:
                if self._locator.is_connector_start(self._handle, name, start_id):
                    self._listener.on_reconfiguration_requested(start_id, name)
            case "topics", {"start_id": int(start_id)}:
                task = id_of_plain(arguments.get("task"))
                if self._locator.is_task_start(self._handle, task, start_id):
                    self._listener.on_topics(start_id, task, texts(arguments.get("topics")))
            case "stall", {"start_id": int(start_id), "instance": str(name)}:
                if self._locator.is_connector_start(self._handle, name, start_id):
                    self._listener.on_stall(start_id, name, self._stall(arguments))
            case "stall", {"start_id": int(start_id)}:
                task = id_of_plain(arguments.get("instance"))
                if self._locator.is_task_start(self._handle, task, start_id):
                    self._listener.on_stall(start_id, task, self._stall(arguments))
            case _:
                raise DataError(f"unknown notification for a worker: {method}")

    def on_call(self, method: str, arguments: Mapping[str, Any]) -> Future[Any]:
        if method == "log_lines" and isinstance(lines := arguments.get("lines"), list):
            self._keep_lines(lines)
            return done()
        try:
            return self._threads.submit(self._call(method, arguments))
        except _NotHereError as e:
            return failed(e)
        except RuntimeError:  # closed in the meantime
            return failed(ConnectError("The worker no longer answers"))

    def _call(self, method: str, arguments: Mapping[str, Any]) -> Callable[[], Any]:
        services = self._services
        match method, arguments:
            case "confirm_task", {"start_id": int(start_id), "with_coordinator": bool(with_coordinator)}:
                task = id_of_plain(arguments.get("task"))
                self._require(self._locator.is_task_start(self._handle, task, start_id), str(task))
                return lambda: services.confirm_task(start_id, task, with_coordinator=with_coordinator)
            case "offset", {"connector": str(connector), "partition": dict() | None as partition}:
                self._require(self._locator.runs_in(self._handle, connector), connector)
                return lambda: services.offsets.get(connector, partition)
            case "offsets", {"connector": str(connector)}:
                self._require(self._locator.runs_in(self._handle, connector), connector)
                return lambda: entries_to_plain(services.offsets.entries(connector))
            case _, {"connector": str(connector), "offsets": list()}:
                offsets = offsets_of_plain(arguments["offsets"])
                self._require(self._locator.runs_in(self._handle, connector), connector)
                match method:
                    case "put_offsets":
                        return lambda: services.offsets.put(connector, offsets)
                    case "offset_records":
                        return lambda: records_to_plain(services.offset_records(connector, offsets))
                    case "offsets_committed":
                        return lambda: services.offsets_committed(connector, offsets)
                    case "before_commit":
                        return lambda: services.before_commit(connector, offsets)
        raise DataError(f"unknown call of a worker: {text(method)}")

    def _keep_lines(self, plain: list[Any]) -> None:
        lines = [LogLine.of_plain(one, self._mask) for one in plain]
        # The last lines of a connector come when it does not run here any more.
        fresh = {line.connector for line in lines} - self._logged
        self._logged |= {name for name in fresh if self._locator.runs_in(self._handle, name)}
        recent_logs().add([line for line in lines if line.connector in self._logged])

    def _require(self, runs_here: bool, name: str) -> None:
        # Something that was just stopped may still send a call; it is rejected.
        if not runs_here:
            raise _NotHereError(f"{name} no longer runs in this executor")

    def _stall(self, arguments: Mapping[str, Any]) -> Stall | None:
        stall = stall_of_plain(arguments.get("stall"))
        return None if stall is None else dataclasses.replace(stall, message=self._mask.mask(stall.message))

    def _trace(self, arguments: Mapping[str, Any]) -> str | None:
        trace = optional_text(arguments, "trace")
        return None if trace is None else self._mask.mask(trace)


class _NotHereError(ConnectError):
    pass


def _state(name: str) -> State:
    try:
        return State(name)
    except ValueError as e:
        raise DataError(f"unknown state: {name}") from e
