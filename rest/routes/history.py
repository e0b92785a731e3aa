"""``/sluice``: earlier configurations of connectors and the way back to them, and the files of ``connectors.dir``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from connect.errors import BadRequestError
from rest.responses import connector_info_json, http_error, json_answer
from rest.routes.connectors import connector_location
from worker.herder import Herder
from worker.model import ConfigVersion
from worker.operations.history.versions import diff, find


def add_history_routes(router: APIRouter, herder: Herder) -> None:
    """What Apache does not have."""

    @router.get("/sluice/connectors/{connector}/history", tags=["sluice"], summary="Earlier configurations of a connector")
    def history(connector: str) -> Response:
        return json_answer(history_json(herder.history(connector)))

    @router.get("/sluice/connectors/{connector}/history/{version}", tags=["sluice"], summary="One configuration that it had")
    def version_config(connector: str, version: str) -> Response:
        number = _number(version)
        if number is None:
            return http_error(404, typed=True)
        found = find(connector, herder.history(connector), number)
        return json_answer(None if found.config is None else dict(found.config))

    @router.post(
        "/sluice/connectors/{connector}/rollback",
        tags=["sluice"],
        summary="Give a connector an earlier configuration; one that was deleted is created again",
    )
    def rollback(request: Request, connector: str, version: str = "") -> Response:
        number = _number(version)
        if number is None:
            raise BadRequestError(f"The query parameter version is '{version}', expected the number of a version in the history")
        info, created = herder.rollback(connector, number)
        if created:
            return json_answer(connector_info_json(info), 201, {"Location": connector_location(request, connector)})
        return json_answer(connector_info_json(info))

    @router.get("/sluice/connectors-dir", tags=["sluice"], summary="Files of connectors.dir, and what became of them")
    def connector_files() -> Response:
        return json_answer([asdict(file) for file in herder.connector_files()])


def history_json(versions: Sequence[ConfigVersion]) -> list[dict[str, Any]]:
    """The versions, the oldest first, without their values: which keys differ from the version before. Of the oldest that is kept
    all count as added."""
    before = None
    shown = []
    for one in versions:
        shown.append(
            {
                "version": one.version,
                "at": _instant(one.at_ms),
                "origin": one.origin.value,
                "deleted": one.config is None,
                "changes": asdict(diff(before, one.config)),
            }
        )
        before = one.config
    return shown


def _instant(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
