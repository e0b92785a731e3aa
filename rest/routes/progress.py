"""``/sluice/progress`` and ``/sluice/connectors/{connector}/progress``: live figures of tasks. Not in Apache's worker.

A worker knows the figures of the tasks that run on it. With ``scope=cluster`` it asks the workers of the other tasks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Protocol
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from connect.errors import BadRequestError
from rest.forwarding.peers import peers_of
from rest.responses import json_response, progress_json
from rest.security.access import access_of
from worker.herder import ConnectorReader, ProgressReader, WorkerInformation
from worker.model import ConnectorStatus, TaskId

Scope = Annotated[str, Query(description="`worker` or `cluster`; anything else is `worker`")]
Names = Annotated[str, Query(description="JSON array of connector names; all connectors without it")]


class _FigureHerder(ConnectorReader, ProgressReader, WorkerInformation, Protocol):
    """The parts of the herder that these routes use."""


def add_progress_routes(router: APIRouter, herder: _FigureHerder) -> None:
    """Adds the progress of tasks: records, bytes, lag, and the connector's own details; and totals of connectors."""

    @router.get("/sluice/connectors/{connector}/progress", tags=["sluice"], summary="Live progress of a connector's tasks")
    def progress(request: Request, connector: str, scope: Scope = "worker") -> Response:
        status = herder.connector_status(connector)
        tasks = _local_tasks(herder, [status])[status.name]
        answer: dict[str, Any] = {"name": connector, "tasks": tasks}
        if scope.lower() == "cluster":
            others = _elsewhere([status], {task["id"] for task in tasks}, herder.worker_id)
            found = peers_of(request).get(request, others, f"/sluice/connectors/{quote(connector, safe='')}/progress")
            for one in found.found.values():
                tasks += [task for task in _list(one, "tasks") if isinstance(task, dict) and "id" in task]
            tasks.sort(key=lambda task: int(task["id"]))
            answer["missing_workers"] = found.missing
        return json_response(answer)

    @router.get("/sluice/progress", tags=["sluice"], summary="Live totals of several connectors: records, bytes, lag, errors")
    def totals(request: Request, connectors: Names = "", scope: Scope = "worker") -> Response:
        names = access_of(request).visible(_names(connectors) if connectors else herder.connectors())
        statuses = herder.connector_statuses(names)
        local = _local_tasks(herder, statuses)
        found = {name: total for name, tasks in local.items() if (total := _total(tasks)) is not None}
        answer: dict[str, Any] = {"connectors": found}
        if scope.lower() == "cluster":
            query = urlencode({"connectors": json.dumps([status.name for status in statuses])})
            peers = peers_of(request).get(request, _elsewhere(statuses, set(), herder.worker_id), f"/sluice/progress?{query}")
            for one in peers.found.values():
                for name, total in (one.get("connectors") or {}).items() if isinstance(one, dict) else ():
                    found[name] = _sum([found[name], total]) if name in found else total
            answer["missing_workers"] = peers.missing
        return json_response(answer)


def _local_tasks(herder: ProgressReader, statuses: Sequence[ConnectorStatus]) -> dict[str, list[dict[str, Any]]]:
    """The figures of the tasks that run here, by connector. All are asked for at once."""
    tasks = {status.name: [TaskId(status.name, number) for number, _ in status.tasks] for status in statuses}
    found = herder.progress_of([task for own in tasks.values() for task in own])
    return {name: [progress_json(task.task, found[task]) for task in own if task in found] for name, own in tasks.items()}


def _elsewhere(statuses: Iterable[ConnectorStatus], known: set[int], own_id: str) -> set[str]:
    """The other workers that run tasks."""
    tasks = (task for status in statuses for number, task in status.tasks if number not in known)
    return {task.worker_id for task in tasks if task.worker_id not in ("", own_id)}


def _names(text: str) -> list[str]:
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadRequestError('The query parameter connectors is not a JSON array of names, such as ["orders"]')
    return names


def _total(tasks: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The sums over the tasks that run here; None if none does."""
    if not tasks:
        return None
    lags = [sum(task["lag"].values()) for task in tasks if task["lag"] is not None]
    return {
        "tasks": len(tasks),
        "records": sum(task["records"] for task in tasks),
        "bytes": sum(task["bytes"] for task in tasks),
        "lag": sum(lags) if lags else None,
        "errors": sum(task["errors"]["errors"] for task in tasks),
    }


def _sum(totals: Sequence[dict[str, Any]]) -> dict[str, Any]:
    lags = [total["lag"] for total in totals if total["lag"] is not None]
    members = ("tasks", "records", "bytes", "errors")
    return {**{name: sum(total[name] for total in totals) for name in members}, "lag": sum(lags) if lags else None}


def _list(node: Any, member: str) -> list[Any]:
    found = node.get(member) if isinstance(node, dict) else None
    return found if isinstance(found, list) else []
