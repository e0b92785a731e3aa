"""An executor process: a :class:`worker.executors.local.LocalExecutor` behind a socket.

It always ends with the control process: when the socket closes, or by the kernel (PR_SET_PDEATHSIG). It ignores signals to the
worker's process group: the control process stops it when its tasks have ended.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, NoReturn

from connect import crash_points
from connect.addresses import install_address_rules
from connect.errors import ConnectError, DataError
from connect.main_process import freeze_gc, tune_gc
from connect.paths import install_path_rules
from connect.plugin_rules import install_plugin_rules
from connect.plugins import Plugins
from worker.cancellation import Cancellation
from worker.config.plugin_path import extend_python_path
from worker.config.secret_keys import load_worker_secret_keys
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.errors.trace import trace_of
from worker.executors.allocator import keep_freed_memory
from worker.executors.channel import Channel
from worker.executors.futures import done, failed, in_thread, outcome
from worker.executors.local import LocalExecutor
from worker.executors.messages import (
    connector_of_plain,
    facts_to_plain,
    id_of_plain,
    offsets_of_plain,
    progresses_to_plain,
    task_of_plain,
    text,
    texts,
)
from worker.executors.process_settings import end_with_parent, set_process_name
from worker.executors.worker_proxy import RemoteListener, RemoteServices
from worker.model import PreviewRequest, SystemQuestion, TargetState, TaskId, TaskSignal
from worker.observability.log_setup import find_log_format, log_uncaught_exceptions, set_up_logging
from worker.observability.loggers import Loggers
from worker.observability.metrics.task_figures import encode_figures
from worker.observability.recent_logs import forward_logs
from worker.observability.tracing.setup import start_tracing

log = logging.getLogger(__name__)

STACKS_SIGNAL = signal.SIGUSR1
"""Makes the process write the stack of each of its threads, even when one of them holds Python's global lock."""

EXIT_SILENCE = 75
"""The exit code when nothing was heard from the control process for too long."""

_MAX_QUERIES = 32
"""Concurrent queries of plugins (validation, ConfigDefs). When there are more, some of them hang."""


def main() -> NoReturn:
    """Arguments: the socket's descriptor, the control process, the descriptor for stacks, the executor's key."""
    descriptor, control_pid, stacks = (int(argument) for argument in sys.argv[1:4])
    _tie_to_parent(control_pid)
    set_process_name(f"sluice {sys.argv[4]}")
    crash_points.in_executor_of(control_pid)
    with open(stacks, "wb", buffering=0, closefd=False) as file:
        faulthandler.register(STACKS_SIGNAL, file, all_threads=True)
        os.set_inheritable(descriptor, False)
        os.set_inheritable(stacks, False)
        ExecutorProcess(socket.socket(fileno=descriptor)).run()


def _tie_to_parent(control_pid: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # The parent blocked them until here: they would have ended a process that is still starting.
    faulthandler.register(signal.SIGQUIT, all_threads=True)  # as in the worker itself: prints the stacks and continues
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    end_with_parent(control_pid)


def _task_ids(arguments: Mapping[str, Any]) -> list[TaskId]:
    return [id_of_plain(task) for task in arguments["tasks"]]


class ExecutorProcess:
    """Serves the control process; implements :class:`worker.executors.channel.Handler`."""

    def __init__(self, connection: socket.socket) -> None:
        self._channel = Channel(connection, self, "control")
        self._mask = SecretMask()
        self._loggers = Loggers()
        self._executor: LocalExecutor | None = None
        self._queries = threading.BoundedSemaphore(_MAX_QUERIES)
        self._cancellations: dict[int, Cancellation] = {}
        self._silence_timeout_s: float | None = None
        self._heard = threading.Event()

    def run(self) -> NoReturn:
        """Serves calls until the control process closes the socket, ends, or is silent for too long."""
        self._channel.start()
        while self._heard.wait(self._silence_timeout_s):
            self._heard.clear()
        # Promise 4: the tasks of a frozen worker are assigned to others, so these here must stop writing.
        log.error("The executor exits: it heard nothing from its control process for %g s", self._silence_timeout_s)
        os._exit(EXIT_SILENCE)

    def on_closed(self, reason: str) -> None:
        if reason:
            log.error("The executor exits: %s", reason)
        # At once, whatever plugins are doing. A graceful stop came before this.
        os._exit(0)

    def on_notification(self, method: str, arguments: Mapping[str, Any]) -> None:
        self._heard.set()
        match method:
            case "start_task":
                self._local.start_task(arguments["start_id"], task_of_plain(arguments["spec"]))
            case "set_task_paused":
                self._local.set_task_paused(id_of_plain(arguments["task"]), arguments["paused"])
            case "set_log_level":
                self._loggers.set_worker_logger(arguments["namespace"], arguments["level"])
            case "secrets":
                self._mask.learn(texts(arguments["values"]))
            case "cancel_query":
                if (cancellation := self._cancellations.get(arguments["number"])) is not None:
                    cancellation.cancel()
            case _:
                raise DataError(f"unknown notification for an executor: {method}")

    def on_call(self, method: str, arguments: Mapping[str, Any]) -> Future[Any]:
        if method == "begin":
            return outcome(lambda: self._begin(arguments))  # on this thread, so that all other calls wait for it
        self._heard.set()
        match method:
            case "ping":
                self._local.check_stalls()  # every few seconds, so that it needs no thread of its own
                return done()
            case "counts":
                # On this thread: no plugin is called, so nothing can hang.
                return outcome(lambda: progresses_to_plain(self._local.counts_of(_task_ids(arguments))))
            case "facts":
                return self._query(lambda: facts_to_plain(self._local.facts(text(arguments["class_name"]))))
            case "validate":
                return self._query(lambda: self._validate(arguments["config"], arguments["values"]))
            case "preview":
                request = PreviewRequest.of_plain(arguments["request"])
                return self._query(lambda: self._local.preview(arguments["values"], request))
            case "external_system":
                return self._external_system(arguments)
            case "plugins":
                return self._query(lambda: self._local.plugins(connectors_only=arguments["connectors_only"]))
            case "plugin_config":
                return self._query(lambda: self._local.plugin_config(arguments["plugin"], arguments["version"]))
            case "dead_letters":
                spec, request = connector_of_plain(arguments["spec"]), arguments["request"]
                return self._query(lambda: self._local.dead_letters(spec, request))
            case "progress":
                tasks, timeout_s = _task_ids(arguments), float(arguments["timeout_s"])
                return self._query(lambda: progresses_to_plain(self._local.progress_of(tasks, timeout_s)))
            case "figures":
                return self._query(lambda: self._figures(arguments["timeout_s"]))
            case "signal_task":
                signal = TaskSignal(text(arguments["id"]), text(arguments["type"]), arguments["data"])
                return self._query(lambda: self._local.signal_task(id_of_plain(arguments["task"]), signal))
            case "start_connector":
                spec, target = connector_of_plain(arguments["spec"]), TargetState(arguments["target"])
                return self._local.start_connector(arguments["start_id"], spec, target)
            case "set_connector_target":
                return self._local.set_connector_target(arguments["name"], TargetState(arguments["target"]))
            case "stop_connector":
                return self._local.stop_connector(arguments["name"])
            case "task_configs":
                return self._local.task_configs(arguments["name"])
            case "alter_offsets":
                spec, offsets = connector_of_plain(arguments["spec"]), offsets_of_plain(arguments["offsets"])
                return self._local.alter_offsets(spec, offsets, reset=bool(arguments["reset"]))
            case "stop_tasks":
                return self._local.stop_tasks(_task_ids(arguments))
            case "close":
                return in_thread("close", lambda: self._close(arguments["timeout_s"]))
            case _:
                raise DataError(f"unknown call of an executor: {method}")

    @property
    def _local(self) -> LocalExecutor:
        assert self._executor is not None  # begin is the first call, and the others wait for it
        return self._executor

    def _begin(self, arguments: Mapping[str, Any]) -> list[str]:
        """Configures the process. Returns the secret keys among the worker's settings."""
        self._mask.learn(texts(arguments["secrets"]))
        set_up_logging(self._mask, format=find_log_format(arguments["props"]))
        log_uncaught_exceptions()
        forward_logs(self._send_lines, self._mask)
        for namespace, level in arguments["levels"]:
            self._loggers.set_worker_logger(namespace, level)
        props = arguments["props"]
        make = WorkerConfig.for_cluster if arguments["distributed"] else WorkerConfig.standalone
        config = make(props, self._mask)
        extend_python_path(config.plugin_path)
        install_address_rules(config.address_rules)
        install_path_rules(config.path_rules)
        install_plugin_rules(config.plugin_rules)
        plugins = Plugins.discover().restricted(config.plugin_rules)
        # A connector's own environment need not have the dependencies of the worker's converters.
        secret_keys = load_worker_secret_keys(config, plugins) if arguments["check_converters"] else set()
        self._mask.add(props, secret_keys)
        services, listener = RemoteServices(self._channel), RemoteListener(self._channel)
        tracing = start_tracing(config, self._mask)
        if tracing is not None:
            tracing.install()
        executor = LocalExecutor(config, plugins, services, listener, self._mask, tracing=tracing)
        executor.start()
        self._executor = executor
        # As in the worker itself: records come and go by the million, and what exists now stays.
        tune_gc()
        keep_freed_memory()
        freeze_gc()
        # Counts from the next message: a process that is starting is not pinged, and nothing runs in it.
        if (silence_timeout_s := arguments["silence_timeout_s"]) is not None:
            self._silence_timeout_s = float(silence_timeout_s)
        return sorted(secret_keys)

    def _send_lines(self, lines: list[list[Any]], acknowledged: Callable[[], None]) -> None:
        self._channel.call("log_lines", lines=lines).add_done_callback(lambda _: acknowledged())

    def _query(self, call: Callable[[], Any]) -> Future[Any]:
        if not self._queries.acquire(blocking=False):
            return failed(ConnectError(f"{_MAX_QUERIES} queries of plugins hang in this executor"))
        future = in_thread("query", call)
        future.add_done_callback(lambda _: self._queries.release())
        return future

    def _external_system(self, arguments: Mapping[str, Any]) -> Future[Any]:
        values, question, secrets = arguments["values"], SystemQuestion(arguments["question"]), texts(arguments["secrets"])
        number, cancellation = arguments["number"], Cancellation()
        self._cancellations[number] = cancellation
        future = self._query(lambda: self._local.external_system(values, question, secrets, cancellation))
        future.add_done_callback(lambda _: self._cancellations.pop(number, None))
        return future

    def _figures(self, timeout_s: float) -> bytes:
        (found,) = self._local.figures(timeout_s)
        return encode_figures(found.tasks)

    def _validate(self, config: Mapping[str, Any], values: Mapping[str, str | None]) -> dict[str, Any]:
        try:
            return self._local.validate(config, values)
        except ConnectError:
            raise
        except BaseException as e:
            # The answer has only the message, so the log gets the trace.
            mask = SecretMask()
            mask.add(values)
            log.error("Validation of connector %s failed: %s", values.get("name"), trace_of(e, mask))
            raise

    def _close(self, timeout_s: float) -> None:
        if self._executor is not None:
            self._executor.close(timeout_s)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
