"""``/connector-plugins``: what the worker can run, the keys of each, and the check of a configuration."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from connect.errors import BadRequestError, ConnectError
from rest.requests import CONFIG_SCHEMA, ConfigBody
from rest.responses import json_answer
from rest.routes.connectors import Flag, java_boolean
from worker.errors.trace import java_name
from worker.herder import Herder


def add_plugins_routes(router: APIRouter, herder: Herder) -> None:
    """The resource ``/connector-plugins``."""

    @router.get("/connector-plugins", tags=["plugins"], summary="What this worker can run")
    def list_plugins(connectorsOnly: Flag = "true") -> Response:
        return json_answer(herder.plugins(connectors_only=java_boolean(connectorsOnly or "true")))

    @router.get("/connector-plugins/{plugin}/config", tags=["plugins"], summary="The keys of a plugin")
    def plugin_config(plugin: str, version: Annotated[str | None, Query()] = None) -> Response:
        return json_answer(herder.plugin_config(plugin, version))

    @router.put(
        "/connector-plugins/{plugin}/config/validate",
        tags=["plugins"],
        summary="Check a configuration without using it",
        openapi_extra=CONFIG_SCHEMA,
    )
    def validate(plugin: str, config: ConfigBody) -> Response:
        included = config.get("connector.class")
        if included is not None and not _stem(included).endswith(_stem(plugin)):
            raise BadRequestError(f"Included connector type {included} does not match request type {plugin}")
        try:
            return json_answer(herder.validate(plugin, config))
        except ConnectError as e:
            # Apache does not unwrap what failed on its herder thread here: 500 with the Java name of the error
            # (recordings validate-empty and validate-unknown-class; a client override of the wrong type is another case).
            raise ConnectError(f"{java_name(e)}: {e.message}") from e


def _stem(name: str) -> str:
    stem = name.removesuffix("Connector")
    return stem or name
