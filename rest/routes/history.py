"""``/sluice``: configuration history of connectors, rollback, and the files of ``connectors.dir``. Not in Apache's worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from connect.errors import BadRequestError
from rest.responses import connector_info_json, http_error_response, json_response
from rest.routes.connectors import connector_location
from rest.security.access import Access, access_of
from rest.security.identity import Role
from rest.security.masking import mask_of, shown_info
from worker.herder import HistoryOperations
from worker.model import ConfigVersion, ConnectorFileState
from worker.operations.history.versions import diff, find


def add_history_routes(router: APIRouter, herder: HistoryOperations) -> None:
    """Adds history, rollback, and the files of ``connectors.dir``."""

    @router.get("/sluice/connectors/{connector}/history", tags=["sluice"], summary="Earlier configurations of a connector")
    def history(connector: str) -> Response:
        return json_response(history_json(herder.history(connector)))

    @router.get("/sluice/connectors/{connector}/history/{version}", tags=["sluice"], summary="One version of the configuration")
    def version_config(request: Request, connector: str, version: str) -> Response:
        number = _number(version)
        if number is None:
            return http_error_response(404, typed=True)
        found = find(connector, herder.history(connector), number)
        if found.config is None:
            return json_response(None)
        sees_secrets = access_of(request).sees_secrets(connector)
        return json_response(dict(found.config) if sees_secrets else mask_of(request).show(found.config))

    @router.post(
        "/sluice/connectors/{connector}/rollback",
        tags=["sluice"],
        summary="Restore an earlier configuration; recreates a deleted connector",
    )
    def rollback(request: Request, connector: str, version: str = "") -> Response:
        number = _number(version)
        if number is None:
            raise BadRequestError(f"The query parameter version is '{version}'; expected the number of a version in the history")
        info, created = herder.rollback(connector, number)
        info = shown_info(info, request)
        if created:
            return json_response(connector_info_json(info), 201, {"Location": connector_location(request, connector)})
        return json_response(connector_info_json(info))

    @router.get("/sluice/connectors-dir", tags=["sluice"], summary="Files of connectors.dir and their states")
    def connector_files(request: Request) -> Response:
        access = access_of(request)
        return json_response([asdict(file) for file in herder.connector_files() if _is_visible(file, access)])


def _is_visible(file: ConnectorFileState, access: Access) -> bool:
    """A file that cannot be read has no connector, but an error that may quote it."""
    return access.allows_all(Role.VIEWER) if file.connector is None else access.allows(Role.VIEWER, file.connector)


def history_json(versions: Sequence[ConfigVersion]) -> list[dict[str, Any]]:
    """Returns the versions, oldest first, as the keys that differ from the previous version, without values. All keys of the
    oldest stored version count as added."""
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
