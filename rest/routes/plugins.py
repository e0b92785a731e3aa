"""``/connector-plugins``: available plugins, their keys, and validation of configurations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from connect.config.parsing import HIDDEN
from connect.errors import BadRequestError, ConnectError
from rest.requests import CONFIG_SCHEMA, Config, ConfigBody
from rest.responses import json_response
from rest.routes.connectors import Flag, parse_java_boolean
from rest.security.access import access_of
from rest.security.identity import Role
from rest.security.masking import keep_secrets, mask_of
from worker.config.secrets import secrets_in_url
from worker.errors.trace import java_name
from worker.herder import ConnectorReader, PluginCatalog


class _Plugins(ConnectorReader, PluginCatalog, Protocol):
    """The parts of the herder that these routes use."""


def add_plugins_routes(router: APIRouter, herder: _Plugins) -> None:
    """Adds the resource ``/connector-plugins``."""

    @router.get("/connector-plugins", tags=["plugins"], summary="Plugins that are available on this worker")
    def list_plugins(connectorsOnly: Flag = "true") -> Response:
        return json_response(herder.plugins(connectors_only=parse_java_boolean(connectorsOnly or "true")))

    @router.get("/connector-plugins/{plugin}/config", tags=["plugins"], summary="The keys of a plugin")
    def plugin_config(plugin: str, version: Annotated[str | None, Query()] = None) -> Response:
        return json_response(herder.plugin_config(plugin, version))

    @router.put(
        "/connector-plugins/{plugin}/config/validate",
        tags=["plugins"],
        summary="Validate a configuration",
        openapi_extra=CONFIG_SCHEMA,
    )
    def validate(request: Request, plugin: str, config: ConfigBody) -> Response:
        name = config.get("name")
        given = config
        hidden: list[str] = []
        if name:
            access_of(request).require(Role.ADMIN, name)
            config, hidden = keep_secrets(mask_of(request), herder, name, given)
        stored = {key: value for key in hidden if (value := config[key])}
        included = config.get("connector.class")
        if included is not None and not _stem(included).endswith(_stem(plugin)):
            raise BadRequestError(f"Included connector type {included} does not match request type {plugin}")
        try:
            infos = herder.validate(plugin, config)
        except ConnectError as e:
            # Apache does not unwrap errors of its herder thread here: 500 with the Java name of the error (recordings
            # validate-empty and validate-unknown-class; also for a client override of the wrong type).
            raise ConnectError(f"{java_name(e)}: {_without_values(e.message, stored, given)}") from e
        _hide_values(infos, stored, given)
        return json_response(infos)


def _hide_values(infos: Mapping[str, Any], stored: Mapping[str, str], given: Config) -> None:
    """Promise 9: shows stored values that replaced hidden ones as the client sent them."""
    for info in infos["configs"]:
        value = info["value"]
        if value is not None and (key := value["name"]) in stored:
            value["value"] = given[key]
            value["errors"] = [_without_values(error, {key: stored[key]}, given) for error in value["errors"]]


def _without_values(text: str, stored: Mapping[str, str], given: Config) -> str:
    for key, value in stored.items():
        text = text.replace(value, given[key] or "")
        for secret in secrets_in_url(value):
            text = text.replace(secret, HIDDEN)
    return text


def _stem(name: str) -> str:
    stem = name.removesuffix("Connector")
    return stem or name
