"""Executor processes: who goes into which, and what happens when one of them ends.

The control process never runs a plugin's code. Connectors and tasks share a number of processes (``task.executors``), which are
started when they are needed; some have one of their own, because they asked for it (``task.isolation``) or because processes
ended under them. A process that ends is replaced, and what was in it starts anew there.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from connect.errors import ConnectError, DataError, IllegalStateError
from worker.config.isolation import isolation_of
from worker.config.plugin_path import environments_of
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.errors.trace import trace_of
from worker.executor import ConnectorFacts, ConnectorSpec, ExecutorListener, TaskSpec, WorkerServices
from worker.executors.channel import ChannelClosedError
from worker.executors.deadlines import Deadlines
from worker.executors.futures import all_done, done, fail, failed, pass_on, succeed
from worker.executors.messages import (
    connector_to_plain,
    id_to_plain,
    offsets_to_plain,
    progress_of_plain,
    task_configs_of_plain,
    task_to_plain,
)
from worker.executors.placement import Aftermath, CrashHistory, aftermath
from worker.executors.plugin_queries import PluginQuestions
from worker.executors.process_handle import Ending, ProcessHandle
from worker.executors.process_registry import Processes
from worker.executors.serial_queue import Lane
from worker.executors.work_registry import ConnectorEntry, Entry, Register, TaskEntry
from worker.model import State, TargetState, TaskId, TaskProgress
from worker.storage.offset_store import OffsetPair

T = TypeVar("T")

log = logging.getLogger(__name__)

_FACTS_S = 30.0
_PROGRESS_S = 2.0
_SLOW_S = 5.0
"""How much longer than ``task.shutdown.graceful.timeout.ms`` a process may take to say that it has stopped something. Inside of
it what hangs is abandoned by then: a process that does not answer hangs itself."""
_READY_S = 60.0


class _Lanes:
    """What is asked for one connector, in this order: calls of the instance, and beside them starts and stops of tasks."""

    def __init__(self, name: str, deadlines: Deadlines, on_idle: Callable[[], None]) -> None:
        self.calls = Lane(f"connector-{name}", name, deadlines, on_idle)
        self.starts = Lane(f"tasks-{name}", name, deadlines, on_idle)


class ExecutorPool:
    """Implements :class:`worker.executor.Executor` over processes."""

    def __init__(self, config: WorkerConfig, services: WorkerServices, listener: ExecutorListener, mask: SecretMask) -> None:
        self._config = config
        self._listener = listener
        self._mask = mask
        self._environments = environments_of(config.plugin_path)
        self._graceful_s = config.task_shutdown_graceful_timeout_ms / 1000
        self._register = Register()
        self._lock = self._register.lock
        self._processes = Processes(config, self._register, listener, services, mask, self._on_ended)
        self._deadlines = Deadlines("executor-deadlines")
        self._lanes: dict[str, _Lanes] = {}
        self._questions = PluginQuestions(self._processes, self._environments)
        self._crashes = CrashHistory(time.monotonic)
        self._suspects: dict[str, str] = {}
        self._numbers = itertools.count(1)
        self._closed = False

    def start(self) -> None:
        self._processes.start()

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + _READY_S
        secret_keys: list[str] | None = None
        while secret_keys is None:
            first = self._processes.first
            try:
                secret_keys = first.ready.result(max(0.0, deadline - time.monotonic()))
            except FutureTimeout as e:
                raise ConnectError(f"No executor process was ready within {_READY_S:g} s") from e
            except ConnectError:
                # Its socket is closed before it is known why.
                if not first.ended.wait(_SLOW_S) or not first.ended_blamelessly:
                    raise
        self._mask.add(self._config.originals, secret_keys)

    # --- questions about plugins

    def facts(self, class_name: str, environment: str | None = None) -> ConnectorFacts:
        return self._questions.facts(class_name, environment)

    def validate(self, config: Mapping[str, Any], values: Mapping[str, str | None]) -> dict[str, Any]:
        return self._questions.validate(config, values)

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]:
        return self._questions.plugins(connectors_only=connectors_only)

    def plugin_config(self, plugin: str, version: str | None) -> list[dict[str, Any]]:
        return self._questions.plugin_config(plugin, version)

    # --- connectors

    def start_connector(self, run: int, spec: ConnectorSpec, target: TargetState) -> Future[None]:
        entry = ConnectorEntry(run, spec, target)
        with self._lock:
            if self._closed:
                return failed(ConnectError("The worker is shutting down"))
            before = self._register.take_connector(spec.name)
            self._register.connectors[spec.name] = entry
            lanes = self._lanes_of(spec.name)
            if before is not None:
                self._stop_in_lane(lanes.calls, [before])
            lanes.calls.submit(lambda: self._place_connector(entry))
        return entry.started

    def _place_connector(self, entry: ConnectorEntry) -> None:
        home = self._settle_in(entry)
        if home is None:
            fail(entry.started, ConnectError(f"Connector {entry.name} was stopped before it started"))
            return
        target = entry.target
        asked = home.ask("start_connector", run=entry.run, spec=connector_to_plain(entry.spec), target=target.value)
        asked.add_done_callback(lambda _: self._connector_started(entry, asked))

    def _connector_started(self, entry: ConnectorEntry, asked: Future[Any]) -> None:
        error = asked.exception()
        if isinstance(error, ChannelClosedError):
            return  # what becomes of it is a matter of the end of its process
        if error is not None:
            fail(entry.started, error)
            return
        succeed(entry.started, None)
        if entry.wants_to_tell_tasks:
            entry.wants_to_tell_tasks = False
            self._listener.on_reconfiguration_requested(entry.run, entry.name)

    def set_connector_target(self, name: str, target: TargetState) -> Future[None]:
        outer: Future[None] = Future()
        with self._lock:
            entry = self._register.connectors.get(name)
            if entry is None:
                return done()
            self._lanes_of(name).calls.submit(lambda: self._follow(entry, target, outer))
        return outer

    def _follow(self, entry: ConnectorEntry, target: TargetState, outer: Future[None]) -> None:
        entry.target = target
        home = entry.home
        if home is None:
            # Its process has ended under it, and it FAILED for that.
            if target is TargetState.STARTED:
                entry.started = outer
                self._place_connector(entry)
                return
            if target is TargetState.STOPPED:
                entry.failed = False
                self._listener.on_connector_state(entry.run, entry.name, State.STOPPED, None, entry.version)
            succeed(outer, None)
            return
        asked = home.ask("set_connector_target", name=entry.name, target=target.value)
        if target is not TargetState.STARTED:
            self._require_answer(home, asked)

        def followed(_: Future[Any]) -> None:
            error = asked.exception()
            # When its process has ended meanwhile, it starts anew with this target.
            if error is None or isinstance(error, ChannelClosedError):
                succeed(outer, None)
            else:
                fail(outer, error)

        asked.add_done_callback(followed)

    def stop_connector(self, name: str) -> Future[None]:
        with self._lock:
            entry = self._register.take_connector(name)
            return done() if entry is None else self._stop_in_lane(self._lanes_of(name).calls, [entry])

    def task_configs(self, name: str) -> Future[list[dict[str, str]]]:
        outer: Future[list[dict[str, str]]] = Future()
        missing = IllegalStateError(f"Connector {name} does not run on this worker")
        with self._lock:
            entry = self._register.connectors.get(name)
            if entry is None:
                return failed(missing)
            self._lanes_of(name).calls.submit(lambda: self._ask_tasks(entry, outer, missing))
        return outer

    def _ask_tasks(self, entry: ConnectorEntry, outer: Future[list[dict[str, str]]], missing: Exception) -> None:
        with self._lock:
            home = entry.home
            # Its process has just ended, and its new start is not in the lane yet: it is there to be asked again, as below.
            is_coming = home is None and not entry.failed and self._register.is_current(entry)
            entry.wants_to_tell_tasks |= is_coming
        if home is None:
            fail(outer, ChannelClosedError("The process of the executor has ended") if is_coming else missing)
            return
        asked = home.ask("task_configs", name=entry.name)

        def lost(_: Future[Any]) -> None:
            if not isinstance(asked.exception(), ChannelClosedError):
                return
            # Whoever asked is told when there is somebody to answer again.
            with self._lock:
                is_back = entry.home is not None and entry.home is not home and entry.started.done()
                entry.wants_to_tell_tasks = not is_back
            if is_back:
                self._listener.on_reconfiguration_requested(entry.run, entry.name)

        asked.add_done_callback(lost)
        pass_on(asked, outer, task_configs_of_plain)

    def alter_offsets(self, spec: ConnectorSpec, offsets: Sequence[OffsetPair]) -> Future[bool]:
        outer: Future[bool] = Future()

        def alter() -> None:
            try:
                entry = self._register.connectors.get(spec.name)
                isolation = isolation_of(spec.config, self._environments)
                home = None if entry is None else entry.home
                home = home or self._processes.for_question(isolation.environment)
                asked = home.ask("alter_offsets", spec=connector_to_plain(spec), offsets=offsets_to_plain(offsets))
            except ConnectError as e:
                fail(outer, e)
                return
            pass_on(asked, outer, _truth)

        with self._lock:
            self._lanes_of(spec.name).calls.submit(alter)
        return outer

    # --- tasks

    def start_task(self, run: int, spec: TaskSpec) -> None:
        entry = TaskEntry(run, spec, spec.paused)
        with self._lock:
            if self._closed:
                return
            before = self._register.take_tasks([spec.id])
            self._register.tasks[spec.id] = entry
            lanes = self._lanes_of(entry.name)
            if before:
                self._stop_in_lane(lanes.starts, before)
            lanes.starts.submit(lambda: self._place_task(entry))

    def _place_task(self, entry: TaskEntry) -> None:
        home = self._settle_in(entry)
        if home is not None:
            home.tell("start_task", run=entry.run, spec=task_to_plain(entry.spec) | {"paused": entry.paused})

    def set_task_paused(self, task: TaskId, paused: bool) -> None:
        with self._lock:
            entry = self._register.tasks.get(task)
            if entry is None:
                return
            current = entry

            def pause() -> None:
                current.paused = paused
                if current.home is not None:
                    current.home.tell("set_task_paused", task=id_to_plain(task), paused=paused)

            self._lanes_of(task.connector).starts.submit(pause)

    def stop_tasks(self, tasks: Collection[TaskId]) -> Future[None]:
        stopping = []
        with self._lock:
            for name in dict.fromkeys(task.connector for task in tasks):
                entries = self._register.take_tasks([task for task in tasks if task.connector == name])
                if entries:
                    stopping.append(self._stop_in_lane(self._lanes_of(name).starts, entries))
        return all_done(stopping)

    def progress(self, task: TaskId) -> TaskProgress | None:
        with self._lock:
            entry = self._register.tasks.get(task)
            home = None if entry is None else entry.home
        if home is None:
            return None
        try:
            return progress_of_plain(home.ask("progress", task=id_to_plain(task)).result(_PROGRESS_S))
        except (FutureTimeout, ConnectError) as e:
            log.debug("There is no word on the progress of task %s: %s", task, e)
            return None

    # --- stopping

    def _stop_in_lane(self, lane: Lane, entries: Sequence[Entry]) -> Future[None]:
        """Stops what was taken out of the register. The lane waits for the end: what is started next may go into another process,
        and must find the old one ended (promise 4)."""

        def stop() -> None:
            try:
                asked = [(home, self._ask_to_stop(home, entries)) for home in self._homes_of(entries)]
                wait([future for _, future in asked], self._graceful_s + _SLOW_S)
                for home, future in asked:
                    if not future.done():
                        home.kill("did not answer to a request to stop something and was killed: code of a connector hangs")
                        wait([future], _SLOW_S)
            finally:
                forget()

        def forget() -> None:
            with self._lock:
                self._register.stopping.difference_update(entries)
            for home in self._homes_of(entries):
                self._processes.leave_if_empty(home)

        # What is in the lane's way is bounded too, but for a class that hangs when it is imported.
        return lane.submit_within(self._graceful_s + 3 * _SLOW_S, stop, forget)

    def _homes_of(self, entries: Sequence[Entry]) -> list[ProcessHandle]:
        return list(dict.fromkeys(entry.home for entry in entries if entry.home is not None))

    def _ask_to_stop(self, home: ProcessHandle, entries: Sequence[Entry]) -> Future[Any]:
        there = [entry for entry in entries if entry.home is home]
        tasks = [id_to_plain(entry.spec.id) for entry in there if isinstance(entry, TaskEntry)]
        if tasks:
            return home.ask("stop_tasks", tasks=tasks)
        return home.ask("stop_connector", name=there[0].name)

    def _require_answer(self, home: ProcessHandle, asked: Future[Any]) -> None:
        """Ends a process that does not answer in time."""

        def end() -> None:
            home.kill("did not answer to a request to stop something and was killed: code of a connector hangs")

        cancel = self._deadlines.call_at(time.monotonic() + self._graceful_s + _SLOW_S, end)
        asked.add_done_callback(lambda _: cancel())

    # --- placing

    def _settle_in(self, entry: Entry) -> ProcessHandle | None:
        """Gives an instance or task its process; None when there is none for it, which was told, or it is not wanted any more."""
        while True:
            try:
                home = self._home_of(entry)
            except ConnectError as e:
                self._fail_entry(entry, e)
                return None
            with self._lock:
                if not self._register.is_current(entry):
                    return None
                # One that has ended by now, and whose end is over and done with, would never say a word.
                if not home.buried:
                    entry.home = home
                    entry.failed = False
                    return home

    def _home_of(self, entry: Entry) -> ProcessHandle:
        """The process for a connector's instance or task. May wait for the connector's class to be loaded. Raises ConfigError."""
        connector = entry.spec if isinstance(entry, ConnectorEntry) else entry.spec.connector
        isolation = isolation_of(connector.config, self._environments)
        with self._lock:
            if not self._crashes.count(connector.name):
                self._suspects.pop(connector.name, None)
            apart = self._suspects.get(connector.name)
        if isolation.dedicated:
            return self._processes.own(connector.name, isolation)
        if apart is not None:
            return self._processes.apart(apart)
        shares = self._shares(connector)
        if shares is not None:
            return self._processes.together(shares)
        if isinstance(entry, TaskEntry):
            return self._processes.shared_for_task(connector.name)
        return self._processes.shared_for_instance(connector.name)

    def _shares(self, connector: ConnectorSpec) -> str | None:
        try:
            return self._questions.facts(connector.config.get("connector.class", ""), None, _FACTS_S).shares_executor
        except ConnectError as e:
            # The process that is to run it will find the same, and say so.
            log.debug("Nothing is known of the class of connector %s: %s", connector.name, e)
            return None

    # --- ends of processes

    def _on_ended(self, home: ProcessHandle, ending: Ending) -> None:
        self._processes.gone(home)
        with self._lock:
            home.buried = True
            if self._closed:
                return
            entries = [entry for entry in self._register.of_home(home) if self._register.is_current(entry)]
            alive = [entry for entry in entries if not entry.failed]
            names = {entry.name for entry in alive}
            if ending.blameless:
                after = Aftermath(frozenset(names), (), frozenset())
            else:
                self._crashes.note(names)
                after = aftermath(names, self._crashes.count, home.housing.kind, final=ending.final)
            for part in after.apart:
                self._suspects.update(dict.fromkeys(part, f"suspects-{next(self._numbers)}"))
            for entry in entries:
                entry.home = None
        self._log_end(home, ending, alive, len(after.failed))
        for entry in alive:
            if entry.name in after.failed:
                self._fail_entry(entry, self._ended_error(home, ending))
            else:
                self._start_again(entry)

    def _log_end(self, home: ProcessHandle, ending: Ending, alive: Sequence[Entry], failing: int) -> None:
        if not alive:
            log.log(
                logging.DEBUG if ending.asked_for else logging.ERROR,
                "Executor %s (process %s) %s; nothing was in it", home.key, home.pid, ending.text,
            )  # fmt: skip
            return
        connectors = sorted({entry.name for entry in alive})
        log.error(
            "Executor %s (process %s) %s. %s: %s",
            home.key, home.pid, ending.text, "What was in it has failed" if failing else "What was in it starts anew",
            ", ".join(connectors[:10]) + (f" and {len(connectors) - 10} more" if len(connectors) > 10 else ""),
        )  # fmt: skip

    def _ended_error(self, home: ProcessHandle, ending: Ending) -> ConnectError:
        advice = "" if ending.final else " That was not the first time: it is not started anew until it is restarted."
        return ConnectError(f"The process of the connector (executor {home.key}) {ending.text}.{advice}")

    def _start_again(self, entry: Entry) -> None:
        with self._lock:
            if not self._register.is_current(entry):
                return
        # Before it is queued: what the next process tells of its start must not come first. Not with the lock, for who hears it
        # may hold one of its own while it calls this.
        self._tell(entry, State.RESTARTING, None)
        with self._lock:
            if not self._register.is_current(entry):
                return
            lanes = self._lanes_of(entry.name)
            if isinstance(entry, ConnectorEntry):
                lanes.calls.submit(lambda: self._place_connector(entry))
            else:
                lanes.starts.submit(lambda: self._place_task(entry))

    def _fail_entry(self, entry: Entry, error: ConnectError) -> None:
        with self._lock:
            if not self._register.is_current(entry):
                return
            entry.failed = True
        self._tell(entry, State.FAILED, trace_of(error, self._mask))
        if isinstance(entry, ConnectorEntry):
            fail(entry.started, error)

    def _tell(self, entry: Entry, state: State, trace: str | None) -> None:
        if isinstance(entry, ConnectorEntry):
            self._listener.on_connector_state(entry.run, entry.name, state, trace, entry.version)
        else:
            self._listener.on_task_state(entry.run, entry.spec.id, state, trace, entry.version)

    # --- all of them

    def set_log_level(self, namespace: str, level: str) -> None:
        self._processes.set_log_level(namespace, level)

    def close(self, timeout_s: float) -> None:
        with self._lock:
            self._closed = True
            waiting = [entry.started for entry in self._register.connectors.values()]
        for future in waiting:
            fail(future, ConnectError("The worker is shutting down"))
        self._processes.close(timeout_s)

    def _lanes_of(self, name: str) -> _Lanes:
        if name not in self._lanes:
            self._lanes[name] = _Lanes(name, self._deadlines, lambda: self._forget_lanes(name))
        return self._lanes[name]

    def _forget_lanes(self, name: str) -> None:
        with self._lock:
            lanes = self._lanes.get(name)
            if lanes is not None and lanes.calls.idle and lanes.starts.idle:
                del self._lanes[name]


def _truth(plain: Any) -> bool:
    if not isinstance(plain, bool):
        raise DataError("an answer that is neither yes nor no")
    return plain
