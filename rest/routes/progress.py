"""``/sluice``: what Apache does not have. Live numbers of the tasks that run on this worker."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from rest.responses import json_answer, progress_json
from worker.herder import Herder
from worker.model import TaskId


def add_progress_routes(router: APIRouter, herder: Herder) -> None:
    """Progress of a connector's tasks: records, bytes, lag, and what the connector itself tells."""

    @router.get("/sluice/connectors/{connector}/progress", tags=["sluice"], summary="Live progress of a connector's tasks")
    def progress(connector: str) -> Response:
        tasks = []
        for number, _ in herder.connector_status(connector).tasks:
            found = herder.progress(TaskId(connector, number))
            if found is not None:
                tasks.append(progress_json(number, found))
        return json_answer({"name": connector, "tasks": tasks})
