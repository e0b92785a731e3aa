"""``/connectors``: list, create, read, change, and delete connectors; their states, offsets, and topics."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Protocol
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from connect.errors import BadRequestError
from rest.expanded_connectors import ExpandedConnectors
from rest.requests import CONFIG_SCHEMA, CREATE_SCHEMA, OFFSETS_SCHEMA, Config, ConfigBody, CreateBody, OffsetsBody
from rest.responses import JSON_TYPE, connector_info_json, connector_status_json, empty_response, json_response, offsets_json
from rest.security.access import access_of
from rest.security.identity import Role
from rest.security.masking import KEPT_HEADER, keep_secrets, mask_of, shown_info
from worker.herder import ConnectorOperations, OffsetOperations, TopicOperations
from worker.model import TargetState
from worker.operations.offsets.changes import require_offsets

Expand = Annotated[list[str], Query(default_factory=list, description="`status` and/or `info`; others are ignored")]
Flag = Annotated[str, Query(pattern=None, description="`true` or anything else")]


class _ConnectorHerder(ConnectorOperations, OffsetOperations, TopicOperations, Protocol):
    """The parts of the herder that these routes use."""


def add_connectors_routes(router: APIRouter, herder: _ConnectorHerder) -> None:
    """Adds the resource ``/connectors`` and everything below a connector except its tasks."""
    _add_collection(router, herder)
    _add_config(router, herder)
    _add_states(router, herder)
    _add_offsets(router, herder)
    _add_topics(router, herder)


def _add_collection(router: APIRouter, herder: ConnectorOperations) -> None:
    expanded = ExpandedConnectors(herder)

    @router.get("/connectors", tags=["connectors"], summary="Names of all connectors; with expand, their status and info")
    def list_connectors(request: Request, expand: Expand) -> Response:
        if "expand" not in request.query_params:
            return json_response(access_of(request).visible(herder.connectors()))
        return Response(expanded.body(request, expand), media_type=JSON_TYPE)

    @router.post("/connectors", tags=["connectors"], summary="Create a connector", openapi_extra=CREATE_SCHEMA)
    def create(request: Request, body: CreateBody) -> Response:
        access_of(request).require(Role.ADMIN, body.name)
        config, _ = keep_secrets(mask_of(request), herder, body.name, _with_name(body.name, body.config))
        info, _ = herder.put_connector(body.name, config, replace=False, target_state=body.initial_state)
        location = {"Location": connector_location(request, body.name)}
        return json_response(connector_info_json(shown_info(info, request)), 201, location)

    @router.get("/connectors/{connector}", tags=["connectors"], summary="Configuration and tasks of a connector")
    def read(request: Request, connector: str) -> Response:
        return json_response(connector_info_json(shown_info(herder.connector_info(connector), request)))

    @router.delete("/connectors/{connector}", tags=["connectors"], summary="Delete a connector; its offsets remain")
    def delete(connector: str) -> Response:
        herder.delete_connector(connector)
        return empty_response(204)


def _add_config(router: APIRouter, herder: ConnectorOperations) -> None:
    @router.get("/connectors/{connector}/config", tags=["connectors"], summary="Configuration of a connector")
    def read_config(request: Request, connector: str) -> Response:
        return json_response(dict(shown_info(herder.connector_info(connector), request).config))

    @router.put(
        "/connectors/{connector}/config",
        tags=["connectors"],
        summary="Create a connector or replace its configuration",
        openapi_extra=CONFIG_SCHEMA,
    )
    def put_config(request: Request, connector: str, config: ConfigBody) -> Response:
        kept, hidden = keep_secrets(mask_of(request), herder, connector, _with_name(connector, config))
        info, created = herder.put_connector(connector, kept, replace=True)
        shown = connector_info_json(shown_info(info, request))
        if created:
            return json_response(shown, 201, {"Location": connector_location(request, connector)})
        return json_response(shown, headers=_kept_headers(hidden))

    @router.patch(
        "/connectors/{connector}/config",
        tags=["connectors"],
        summary="Change some keys of a configuration; null removes a key (KIP-477)",
        openapi_extra=CONFIG_SCHEMA,
    )
    def patch_config(request: Request, connector: str, config: ConfigBody) -> Response:
        kept, hidden = keep_secrets(mask_of(request), herder, connector, config)
        info = shown_info(herder.patch_connector(connector, kept), request)
        return json_response(connector_info_json(info), headers=_kept_headers(hidden))


def _add_states(router: APIRouter, herder: ConnectorOperations) -> None:
    @router.get("/connectors/{connector}/status", tags=["connectors"], summary="State of a connector and its tasks")
    def status(connector: str) -> Response:
        return json_response(connector_status_json(herder.connector_status(connector)))

    @router.put("/connectors/{connector}/pause", tags=["connectors"], summary="Pause; tasks stay allocated")
    def pause(connector: str) -> Response:
        herder.set_target_state(connector, TargetState.PAUSED)
        return empty_response(202)

    @router.put("/connectors/{connector}/resume", tags=["connectors"], summary="Resume a paused or stopped connector")
    def resume(connector: str) -> Response:
        herder.set_target_state(connector, TargetState.STARTED)
        return empty_response(202)

    @router.put("/connectors/{connector}/stop", tags=["connectors"], summary="Stop; tasks are deallocated (KIP-875)")
    def stop(connector: str) -> Response:
        herder.set_target_state(connector, TargetState.STOPPED)
        return empty_response(204)

    @router.post("/connectors/{connector}/restart", tags=["connectors"], summary="Restart connector and/or tasks (KIP-745)")
    def restart(connector: str, includeTasks: Flag = "false", onlyFailed: Flag = "false") -> Response:
        plan = herder.restart_connector(
            connector, include_tasks=parse_java_boolean(includeTasks), only_failed=parse_java_boolean(onlyFailed)
        )
        return empty_response(204) if plan is None else json_response(connector_status_json(plan.status), 202)


def _add_offsets(router: APIRouter, herder: OffsetOperations) -> None:
    @router.get("/connectors/{connector}/offsets", tags=["connectors"], summary="Stored offsets (KIP-875)")
    def offsets(connector: str) -> Response:
        return json_response(offsets_json(herder.offsets(connector)))

    @router.patch(
        "/connectors/{connector}/offsets",
        tags=["connectors"],
        summary="Change stored offsets of a stopped connector; a null offset removes a partition (KIP-875)",
        openapi_extra=OFFSETS_SCHEMA,
    )
    def patch_offsets(connector: str, offsets: OffsetsBody) -> Response:
        require_offsets(offsets)
        return json_response({"message": herder.alter_offsets(connector, offsets)})

    @router.delete(
        "/connectors/{connector}/offsets", tags=["connectors"], summary="Reset all offsets of a stopped connector (KIP-875)"
    )
    def delete_offsets(connector: str) -> Response:
        return json_response({"message": herder.alter_offsets(connector, None)})


def _add_topics(router: APIRouter, herder: TopicOperations) -> None:
    @router.get("/connectors/{connector}/topics", tags=["connectors"], summary="Topics that the connector has used (KIP-558)")
    def topics(connector: str) -> Response:
        return json_response({connector: {"topics": herder.topics(connector)}})

    @router.put("/connectors/{connector}/topics/reset", tags=["connectors"], summary="Clear the list of used topics (KIP-558)")
    def reset_topics(connector: str) -> Response:
        herder.reset_topics(connector)
        return empty_response(202)


def parse_java_boolean(text: str) -> bool:
    """Returns whether the text is ``true`` in any case, like Java's parseBoolean (recording plugins-bad-bool)."""
    return text.lower() == "true"


def _kept_headers(keys: Sequence[str]) -> dict[str, str] | None:
    return {KEPT_HEADER: ", ".join(quote(key, safe="") for key in keys)} if keys else None


def _with_name(name: str, config: Config) -> Config:
    """Returns the configuration including the name. Raises BadRequestError when it contains another name."""
    included = config.get("name")
    if included is not None and included != name:
        raise BadRequestError(f"Connector name configuration ({included}) doesn't match connector name in the URL ({name})")
    return {**config, "name": name}


def connector_location(request: Request, name: str) -> str:
    """Returns the absolute URL of a created connector, with the host that the client used. As in Apache's worker, what looks
    like an escape in the name stays one."""
    parts = _ESCAPE.split(name)  # each second one is an escape
    encoded = "".join(part if at % 2 else quote(part, safe=_PATH_SAFE) for at, part in enumerate(parts))
    return f"{request.url.scheme}://{request.url.netloc}/connectors/{encoded}"


_PATH_SAFE = "/!$&'()*+,;=:@"
_ESCAPE = re.compile("(%[0-9A-Fa-f]{2})")
