"""Connection tests, and the tables that a configuration can name. Not in Apache's worker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from connect.errors import BadRequestError, ConfigError, UnsupportedError
from rest.errors import UnreadableBodyError
from rest.requests import Config, as_config, read_json
from rest.responses import json_response
from rest.security.access import access_of
from rest.security.identity import Role
from rest.security.masking import ConfigMask
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


GivenConfig = Annotated[Config, Depends(_read_config)]


def add_external_system_routes(router: APIRouter, herder: Herder) -> None:
    """Adds connection tests and lists of tables."""
    mask = ConfigMask(herder)

    def ask(config: Mapping[str, str | None], question: SystemQuestion) -> Response:
        try:
            return json_response(herder.external_system(config, question))
        except (ConfigError, UnsupportedError) as e:
            raise BadRequestError(e.message) from e

    def ask_about(request: Request, config: Config, question: SystemQuestion) -> Response:
        name = config.get("name")
        if name:
            access_of(request).require(Role.ADMIN, name)
            config, _ = mask.keep_secrets(name, config)
        return ask(config, question)

    @router.post("/sluice/connection-test", tags=["sluice"], summary="Test the connection of a configuration")
    def test_connection(request: Request, config: GivenConfig) -> Response:
        return ask_about(request, config, SystemQuestion.CONNECTION_TEST)

    @router.post("/sluice/data-collections", tags=["sluice"], summary="List the tables that a configuration can name")
    def list_data_collections(request: Request, config: GivenConfig) -> Response:
        return ask_about(request, config, SystemQuestion.DATA_COLLECTIONS)

    @router.post("/sluice/connectors/{connector}/connection-test", tags=["sluice"], summary="Test the connection of a connector")
    def test_connection_of(connector: str) -> Response:
        return ask(herder.connector_info(connector).config, SystemQuestion.CONNECTION_TEST)

    @router.get(
        "/sluice/connector-plugins/{plugin}/external-system",
        tags=["sluice"],
        summary="Whether a plugin has connection tests, and which keys select tables",
    )
    def describe_external_system(plugin: str) -> Response:
        return ask({"connector.class": plugin}, SystemQuestion.CAPABILITIES)
