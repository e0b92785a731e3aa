"""``/connectors/{connector}/tasks``."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Protocol

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from rest.responses import empty_response, http_error_response, json_response, status_json, task_info_json
from rest.security.access import access_of
from rest.security.masking import mask_of
from worker.herder import ConnectorReader, TaskOperations
from worker.model import TaskId


class _TaskHerder(TaskOperations, ConnectorReader, Protocol):
    """The parts of the herder that these routes use."""


_INT_MAX = 1 << 31
_NUMBER = re.compile(r"[+-]?[0-9]{1,100}")


def add_tasks_routes(router: APIRouter, herder: _TaskHerder) -> None:
    """Adds the tasks of a connector."""

    @router.get("/connectors/{connector}/tasks", tags=["tasks"], summary="Configurations of a connector's tasks")
    def tasks(request: Request, connector: str) -> Response:
        infos = herder.task_infos(connector)
        if not access_of(request).sees_secrets(connector):
            config = herder.connector_info(connector).config
            infos = [replace(info, config=mask_of(request).show_task(info.config, config)) for info in infos]
        return json_response([task_info_json(info) for info in infos])

    @router.get("/connectors/{connector}/tasks/{task}/status", tags=["tasks"], summary="State of one task")
    def task_status(connector: str, task: str) -> Response:
        number = _task_number(task)
        if number is None:
            return http_error_response(404, typed=True)
        return json_response({"id": number, **status_json(herder.task_status(TaskId(connector, number)))})

    @router.post("/connectors/{connector}/tasks/{task}/restart", tags=["tasks"], summary="Restart one task")
    def restart_task(connector: str, task: str) -> Response:
        number = _task_number(task)
        if number is None:
            return http_error_response(404, typed=True)
        herder.restart_task(TaskId(connector, number))
        return empty_response(204)


def _task_number(text: str) -> int | None:
    """Returns the number, which may be negative; None if the path does not exist (recording restart-task-bad-number)."""
    if not _NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if -_INT_MAX <= number < _INT_MAX else None
