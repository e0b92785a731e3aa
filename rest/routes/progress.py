"""``/sluice/connectors/{connector}/progress``: live figures of the tasks on this worker. Not in Apache's worker."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from rest.responses import json_response, progress_json
from worker.herder import ProgressReader
from worker.model import TaskId


def add_progress_routes(router: APIRouter, herder: ProgressReader) -> None:
    """Adds the progress of a connector's tasks: records, bytes, lag, and the connector's own details."""

    @router.get("/sluice/connectors/{connector}/progress", tags=["sluice"], summary="Live progress of a connector's tasks")
    def progress(connector: str) -> Response:
        tasks = []
        for number, _ in herder.connector_status(connector).tasks:
            found = herder.progress(TaskId(connector, number))
            if found is not None:
                tasks.append(progress_json(number, found))
        return json_response({"name": connector, "tasks": tasks})
