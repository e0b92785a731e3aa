"""Connection tests, and the tables that a configuration can name. Not in Apache's worker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from connect.errors import BadRequestError, ConfigError, UnsupportedError
from rest.disconnection import calling_on_disconnect
from rest.errors import UnreadableBodyError, blaming_request
from rest.requests import Config, as_config, read_json
from rest.responses import json_response
from rest.security.access import access_of
from rest.security.identity import Role
from rest.security.masking import keep_secrets, mask_of
from worker.cancellation import Cancellation
from worker.herder import Herder
from worker.model import SystemQuestion

_FORM = 'expected {"config": {...}}'


async def _read_config(request: Request) -> Config:
    body = await read_json(request)
    if not isinstance(body, dict):
        raise UnreadableBodyError(f"The body is not an object; {_FORM}")
    if unknown := set(body) - {"config"}:
        raise BadRequestError(f'Unknown member "{min(unknown)}"; {_FORM}')
    return as_config(body.get("config"), '"config"')


async def _cancel_on_disconnect(request: Request) -> AsyncIterator[Cancellation]:
    """Cancels the call when the client disconnects, as the web page does for its Cancel, or when the request times out."""
    cancellation = Cancellation()
    async with calling_on_disconnect(request, cancellation.cancel):
        try:
            yield cancellation
        finally:
            cancellation.cancel()


GivenConfig = Annotated[Config, Depends(_read_config)]
OnDisconnect = Annotated[Cancellation, Depends(_cancel_on_disconnect)]


def add_external_system_routes(router: APIRouter, herder: Herder) -> None:
    """Adds connection tests and lists of tables."""

    def ask(config: Mapping[str, str | None], question: SystemQuestion, cancellation: Cancellation) -> Response:
        with blaming_request(ConfigError, UnsupportedError):
            return json_response(herder.external_system(config, question, cancellation))

    def ask_about(request: Request, config: Config, question: SystemQuestion, cancellation: Cancellation) -> Response:
        name = config.get("name")
        if name:
            access_of(request).require(Role.ADMIN, name)
            config, _ = keep_secrets(mask_of(request), herder, name, config)
        return ask(config, question, cancellation)

    @router.post("/sluice/connection-test", tags=["sluice"], summary="Test the connection of a configuration")
    def test_connection(request: Request, config: GivenConfig, cancellation: OnDisconnect) -> Response:
        return ask_about(request, config, SystemQuestion.CONNECTION_TEST, cancellation)

    @router.post("/sluice/data-collections", tags=["sluice"], summary="List the tables that a configuration can name")
    def list_data_collections(request: Request, config: GivenConfig, cancellation: OnDisconnect) -> Response:
        return ask_about(request, config, SystemQuestion.DATA_COLLECTIONS, cancellation)

    @router.post("/sluice/connectors/{connector}/connection-test", tags=["sluice"], summary="Test the connection of a connector")
    def test_connection_of(connector: str, cancellation: OnDisconnect) -> Response:
        return ask(herder.connector_info(connector).config, SystemQuestion.CONNECTION_TEST, cancellation)

    @router.get(
        "/sluice/connector-plugins/{plugin}/external-system",
        tags=["sluice"],
        summary="Whether a plugin has connection tests, and which keys select tables",
    )
    def describe_external_system(plugin: str) -> Response:
        return ask({"connector.class": plugin}, SystemQuestion.CAPABILITIES, Cancellation())
