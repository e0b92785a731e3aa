"""An executor's process: a :class:`worker.executors.local.LocalExecutor` behind a socket.

It ends with the control process in every case: when the socket closes, or by the kernel's hand (PR_SET_PDEATHSIG). Signals to the
worker's process group are not for it: the control process stops it when its tasks have ended.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from connect import crash_points
from connect.errors import ConnectError, DataError
from connect.plugins import Plugins
from worker.config.plugin_path import extend_python_path
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.config.worker_converters import checked_secret_keys
from worker.errors.trace import trace_of
from worker.executors.channel import Channel
from worker.executors.futures import done, failed, in_thread, outcome
from worker.executors.local import LocalExecutor
from worker.executors.messages import (
    connector_of_plain,
    facts_to_plain,
    id_of_plain,
    offsets_of_plain,
    progress_to_plain,
    task_of_plain,
    text,
    texts,
)
from worker.executors.worker_proxy import RemoteListener, RemoteServices
from worker.model import TargetState
from worker.observability.log_setup import set_up_logging
from worker.observability.loggers import Loggers

log = logging.getLogger(__name__)

STACKS_SIGNAL = signal.SIGUSR1
"""Makes the process write down what each of its threads is doing, also when one of them holds Python's lock."""

EXIT_SILENCE = 75
"""The exit code when nothing was heard of the control process for too long."""

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_OOM_SCORE = "300"
_MOST_QUESTIONS = 32
"""Calls of plugins that only answer something (validation, tables), at a time. More than that hang."""


def main() -> NoReturn:
    """Arguments: the socket's descriptor, the control process, the descriptor for stacks, the executor's key."""
    descriptor, control_pid, stacks = (int(argument) for argument in sys.argv[1:4])
    _end_with(control_pid)
    _show_as(f"sluice {sys.argv[4]}")
    crash_points.in_executor_of(control_pid)
    with open(stacks, "wb", buffering=0, closefd=False) as file:
        faulthandler.register(STACKS_SIGNAL, file, all_threads=True)
        os.set_inheritable(descriptor, False)
        os.set_inheritable(stacks, False)
        ExecutorProcess(socket.socket(fileno=descriptor)).run()


def _end_with(control_pid: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # The parent blocked them until here, for they would have ended a process that is just beginning.
    faulthandler.register(signal.SIGQUIT, all_threads=True)  # as in the worker itself: it prints the stacks and ends nothing
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != control_pid:
        os._exit(0)  # it ended before that


def _show_as(name: str) -> None:
    """In lists of processes; and where memory is short, the kernel shall end an executor rather than the worker."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode()[:15])
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)


class ExecutorProcess:
    """Answers the control process (:class:`worker.executors.channel.Handler`)."""

    def __init__(self, connection: socket.socket) -> None:
        self._channel = Channel(connection, self, "control")
        self._mask = SecretMask()
        self._loggers = Loggers()
        self._executor: LocalExecutor | None = None
        self._questions = threading.BoundedSemaphore(_MOST_QUESTIONS)
        self._leash_s: float | None = None
        self._heard = threading.Event()

    def run(self) -> NoReturn:
        """Answers until the control process closes the socket, or ends, or is silent for longer than its cluster puts up with."""
        self._channel.start()
        while self._heard.wait(self._leash_s):
            self._heard.clear()
        # Promise 4: a worker that is frozen loses its tasks to others, and these here go on writing. They must not.
        log.error("The executor ends: nothing was heard of its control process for %g s", self._leash_s)
        os._exit(EXIT_SILENCE)

    def on_closed(self, reason: str) -> None:
        if reason:
            log.error("The executor ends: of its control process, %s", reason)
        # At once, whatever plugins are doing. Who stops in good order has done so before.
        os._exit(0)

    def on_told(self, method: str, arguments: Mapping[str, Any]) -> None:
        self._heard.set()
        match method:
            case "start_task":
                self._local.start_task(arguments["run"], task_of_plain(arguments["spec"]))
            case "set_task_paused":
                self._local.set_task_paused(id_of_plain(arguments["task"]), arguments["paused"])
            case "set_log_level":
                self._loggers.set_worker_logger(arguments["namespace"], arguments["level"])
            case "secrets":
                self._mask.learn(texts(arguments["values"]))
            case _:
                raise DataError(f"{method} is told to no executor")

    def on_question(self, method: str, arguments: Mapping[str, Any]) -> Future[Any]:
        if method == "begin":
            return outcome(lambda: self._begin(arguments))  # here, so that all else waits for it
        self._heard.set()
        match method:
            case "ping":
                return done()
            case "facts":
                return self._asked(lambda: facts_to_plain(self._local.facts(text(arguments["class_name"]))))
            case "validate":
                return self._asked(lambda: self._validated(arguments["config"], arguments["values"]))
            case "plugins":
                return self._asked(lambda: self._local.plugins(connectors_only=arguments["connectors_only"]))
            case "plugin_config":
                return self._asked(lambda: self._local.plugin_config(arguments["plugin"], arguments["version"]))
            case "progress":
                return self._asked(lambda: progress_to_plain(self._local.progress(id_of_plain(arguments["task"]))))
            case "start_connector":
                spec, target = connector_of_plain(arguments["spec"]), TargetState(arguments["target"])
                return self._local.start_connector(arguments["run"], spec, target)
            case "set_connector_target":
                return self._local.set_connector_target(arguments["name"], TargetState(arguments["target"]))
            case "stop_connector":
                return self._local.stop_connector(arguments["name"])
            case "task_configs":
                return self._local.task_configs(arguments["name"])
            case "alter_offsets":
                spec, offsets = connector_of_plain(arguments["spec"]), offsets_of_plain(arguments["offsets"])
                return self._local.alter_offsets(spec, offsets)
            case "stop_tasks":
                return self._local.stop_tasks([id_of_plain(task) for task in arguments["tasks"]])
            case "close":
                return in_thread("close", lambda: self._close(arguments["timeout_s"]))
            case _:
                raise DataError(f"{method} is asked of no executor")

    @property
    def _local(self) -> LocalExecutor:
        assert self._executor is not None  # begin is the first question, and waited for
        return self._executor

    def _begin(self, arguments: Mapping[str, Any]) -> list[str]:
        """Takes the worker's settings. Returns which keys of them are secret by their tables."""
        self._mask.learn(texts(arguments["secrets"]))
        set_up_logging(self._mask)
        for namespace, level in arguments["levels"]:
            self._loggers.set_worker_logger(namespace, level)
        props = arguments["props"]
        make = WorkerConfig.for_cluster if arguments["distributed"] else WorkerConfig.standalone
        config = make(props, self._mask)
        extend_python_path(config.plugin_path)
        plugins = Plugins.discover()
        # An environment of a connector's own need not have what the worker's converters stand on.
        secret_keys = checked_secret_keys(config, plugins) if arguments["check_converters"] else set()
        self._mask.add(props, secret_keys)
        services, listener = RemoteServices(self._channel), RemoteListener(self._channel)
        executor = LocalExecutor(config, plugins, services, listener, self._mask)
        executor.start()
        self._executor = executor
        # As in the worker itself: records are made and dropped by the million, and what a process is made of stays.
        gc.set_threshold(50_000, 20, 100)
        gc.freeze()
        # It counts from what is heard next: as long as it begins, nobody asks for a sign of life, and nothing runs in it.
        if (leash_s := arguments["leash_s"]) is not None:
            self._leash_s = float(leash_s)
        return sorted(secret_keys)

    def _asked(self, call: Callable[[], Any]) -> Future[Any]:
        if not self._questions.acquire(blocking=False):
            return failed(ConnectError(f"{_MOST_QUESTIONS} calls of connectors do not come to an end in this executor"))
        future = in_thread("question", call)
        future.add_done_callback(lambda _: self._questions.release())
        return future

    def _validated(self, config: Mapping[str, Any], values: Mapping[str, str | None]) -> dict[str, Any]:
        try:
            return self._local.validate(config, values)
        except ConnectError:
            raise
        except BaseException as e:
            # The answer has only the message; where it came from stands in no other place.
            mask = SecretMask()
            mask.add(values)
            log.error("Validation of connector %s failed: %s", values.get("name"), trace_of(e, mask))
            raise

    def _close(self, timeout_s: float) -> None:
        if self._executor is not None:
            self._executor.close(timeout_s)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
