"""``/admin/loggers``: log levels, on this worker or on the whole cluster."""

from __future__ import annotations

import logging
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from connect.errors import BadRequestError, NotFoundError
from rest.errors import UnreadableBodyError
from rest.requests import read_json
from rest.responses import empty_response, json_response
from worker.herder import LoggerOperations
from worker.model import LoggerLevel
from worker.observability.loggers import parse_level

log = logging.getLogger(__name__)


async def _read_level(request: Request) -> str:
    body = await read_json(request)
    if not isinstance(body, dict):
        raise UnreadableBodyError('The body is not an object; expected {"level": "DEBUG"}')
    for name, value in body.items():
        if isinstance(value, dict | list):
            raise UnreadableBodyError(f'"{name}" is not a string')
    # Other members are ignored (recording logger-put-extra-field).
    level = body.get("level")
    if level is None:
        raise BadRequestError("Desired 'level' parameter was not specified in request.")
    return str(level).lower() if isinstance(level, bool) else str(level)


LevelBody = Annotated[str, Depends(_read_level)]
Scope = Annotated[str, Query(description="`worker` or `cluster`; anything else is `worker`")]


def add_loggers_routes(router: APIRouter, herder: LoggerOperations) -> None:
    """Adds the resource ``/admin/loggers``."""

    @router.get("/admin/loggers", tags=["admin"], summary="Levels of all loggers of this worker, except OFF")
    def list_loggers() -> Response:
        return json_response({name: _level_json(level) for name, level in herder.all_loggers().items()})

    @router.get("/admin/loggers/{logger}", tags=["admin"], summary="Level of one logger")
    def read_logger(logger: str) -> Response:
        found = herder.logger(logger)
        if found is None:
            raise NotFoundError(f"Logger {logger} not found.")
        return json_response(_level_json(found))

    @router.put("/admin/loggers/{logger}", tags=["admin"], summary="Set the level of a logger and its descendants (KIP-495)")
    def set_logger(logger: str, level: LevelBody, scope: Scope = "worker") -> Response:
        level = parse_level(level)
        if scope.lower() == "cluster":
            herder.set_cluster_logger(logger, level)
            return empty_response(204)
        if scope.lower() != "worker":
            log.warning("Received invalid scope '%s' in request to adjust logging level; will default to worker", scope)
        return json_response(herder.set_worker_logger(logger, level))


def _level_json(level: LoggerLevel) -> dict[str, Any]:
    return {"level": level.level, "last_modified": level.last_modified}
