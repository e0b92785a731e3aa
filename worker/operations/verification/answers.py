"""Answers what the process of a verification asks of its worker. :mod:`sluice.verify.worker_link` is the other side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from connect.errors import BadRequestError
from worker.config.worker_config import WorkerConfig
from worker.kafka.settings import client_settings_of
from worker.model import ConnectorInfo, ConnectorStatus, OffsetEntry, Status


class PipelineView(Protocol):
    """The part of :class:`worker.herder.Herder` that a verification reads."""

    def connectors(self) -> list[str]: ...

    def connector_info(self, name: str) -> ConnectorInfo: ...

    def connector_status(self, name: str) -> ConnectorStatus: ...

    def topics(self, name: str) -> list[str]: ...

    def offsets(self, name: str) -> list[OffsetEntry]: ...


class PipelineAnswers:
    """Answers calls, on the thread that asks. Errors are those of the herder."""

    def __init__(self, config: WorkerConfig, view: PipelineView, on_result: Callable[[Mapping[str, Any]], None]) -> None:
        """``on_result`` gets each result of the verification, and returns when it is stored."""
        self._config = config
        self._view = view
        self._on_result = on_result

    def answer(self, method: str, arguments: Mapping[str, Any]) -> Any:
        """Returns what can be sent to another process. The worker's properties may contain secrets."""
        view, name = self._view, str(arguments.get("name", ""))
        match method:
            case "worker":
                return dict(self._config.originals)
            case "kafka":
                servers = ",".join(self._config.bootstrap_servers)
                return {**client_settings_of(self._config.originals), "bootstrap.servers": servers}
            case "connectors":
                return {one: view.connector_info(one).type for one in view.connectors()}
            case "config":
                return dict(view.connector_info(name).config)
            case "topics":
                return view.topics(name)
            case "status":
                status = view.connector_status(name)
                tasks = [{"id": number, **_state(task)} for number, task in status.tasks]
                return {"connector": _state(status.connector), "tasks": tasks}
            case "offsets":
                return [{"partition": one.partition, "offset": one.offset} for one in view.offsets(name)]
            case "result":
                return self._on_result(arguments["document"])
        raise BadRequestError(f"A verification cannot ask for {method}")


def _state(status: Status) -> dict[str, Any]:
    return {"state": status.state.value, "trace": status.trace}
