"""The process of a scheduled verification: asks the worker that has started it, and tells it the results.

The worker's side is :mod:`worker.operations.verification`. The process ends with the worker, and leaves the machine to it: it has
a low priority, and is the first to go when memory is short.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import Any

from connect.errors import ConfigError, ConnectError
from connect.plugins import Plugins
from sluice.verify.pairs import PairFinder
from sluice.verify.session import Verification, VerifyOptions
from worker.config.providers import resolve_with_worker
from worker.config.secrets import SecretMask
from worker.executors.channel import Channel
from worker.executors.process_settings import end_with_parent, set_process_name

_ANSWER_S = 95.0
_NICE = 10


class WorkerLink:
    """Implements :class:`sluice.verify.pipeline_reader.PipelineReader`."""

    def __init__(self, connection: socket.socket) -> None:
        self._channel = Channel(connection, _EndsWithWorker(), "worker")
        self._channel.start()

    def _ask(self, method: str, **arguments: Any) -> Any:
        return self._channel.call(method, **arguments).result(_ANSWER_S)

    def worker_properties(self) -> dict[str, str]:
        return dict(self._ask("worker"))

    def kafka_properties(self) -> dict[str, str]:
        return dict(self._ask("kafka"))

    def store(self, document: Mapping[str, Any]) -> None:
        """Returns once the worker has stored a result."""
        self._ask("result", document=document)

    def connectors(self) -> list[str]:
        return list(self._ask("connectors"))

    def connectors_expanded(self, *kinds: str) -> dict[str, Any]:
        return {name: {"info": {"type": type_}} for name, type_ in self._ask("connectors").items()}

    def config(self, name: str) -> dict[str, str | None]:
        return dict(self._ask("config", name=name))

    def topics(self, name: str) -> list[str]:
        return list(self._ask("topics", name=name))

    def status(self, name: str) -> dict[str, Any]:
        return dict(self._ask("status", name=name))

    def offsets(self, name: str) -> list[dict[str, Any]]:
        return list(self._ask("offsets", name=name))


class _EndsWithWorker:
    """Handles what the worker sends: only answers, and its end."""

    def on_call(self, method: str, arguments: Mapping[str, Any]) -> Future[Any]:
        refused: Future[Any] = Future()
        refused.set_exception(ConnectError(f"A verification does not answer {method}"))
        return refused

    def on_notification(self, method: str, arguments: Mapping[str, Any]) -> None:
        """Ignores notifications: there are none."""

    def on_closed(self, reason: str) -> None:
        # The process leads its group, so this ends what it has started too.
        os.killpg(os.getpgrp(), signal.SIGKILL)


def verify_for_worker(link: str, connector: str, source: str | None, options: VerifyOptions) -> int:
    """Verifies a connector of the worker that has started this process. Returns 0 when all is compared, equal or not: the worker
    gets the results. Raises ConnectError, after all pairs of connectors were tried."""
    descriptor, _, worker_pid = link.partition(":")
    if not (descriptor.isdigit() and worker_pid.isdigit()) or os.getpgrp() != os.getpid():
        raise ConfigError("--worker-link is for the schedule of a worker; see verify.interval.ms")
    end_with_parent(int(worker_pid))
    set_process_name("sluice verify")
    with suppress(OSError):
        os.nice(_NICE)
    os.set_inheritable(int(descriptor), False)
    worker_link = WorkerLink(socket.socket(fileno=int(descriptor)))
    properties, _ = resolve_with_worker(worker_link.worker_properties(), None, {}, connector, SecretMask())
    plugins = Plugins.discover()
    options = replace(options, kafka=worker_link.kafka_properties())
    failures = []
    for pair in PairFinder(worker_link, properties, plugins, reads_files=False).find(connector, source, None):
        try:
            with Verification(pair, properties, worker_link, plugins, options) as verification:
                found = verification.run()
            worker_link.store(found.as_json(with_values=False, limit=0))
        except ConnectError as e:
            failures.append(f"comparing {pair.sink.name} with {pair.source.name}: {e.message}")
    if failures:
        raise ConnectError("; ".join(failures))
    return 0
