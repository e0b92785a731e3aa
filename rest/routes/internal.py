"""Requests from workers to their leader, signed with the cluster's session key (KIP-507, KIP-618)."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from connect.errors import BadRequestError
from rest.forwarding.leader_client import ALGORITHM_HEADER, SIGNATURE_HEADER
from rest.requests import read_configs, read_json
from rest.responses import empty_response
from worker.config.distributed_config import hash_name
from worker.herder import ClusterInternal
from worker.model import RequestSignature

_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=]")


async def _signature(request: Request) -> RequestSignature:
    headers = request.headers
    signature, algorithm = headers.get(SIGNATURE_HEADER), headers.get(ALGORITHM_HEADER)
    if signature is not None and algorithm is not None:
        _check(signature, algorithm)
    return RequestSignature(await request.body(), signature, algorithm)


def _check(signature: str, algorithm: str) -> None:
    """Validates both headers even if this worker does not need them, as Apache does. Raises BadRequestError."""
    if hash_name(algorithm) is None:
        raise BadRequestError(f"Algorithm {algorithm} not available")
    if invalid := _NOT_BASE64.search(signature):
        raise BadRequestError(f"Illegal base64 character {ord(invalid[0]):x}")
    try:
        base64.b64decode(signature, validate=True)
    except binascii.Error as e:
        raise BadRequestError(f"{SIGNATURE_HEADER} is not base64: {e}") from e


Signature = Annotated[RequestSignature, Depends(_signature)]
TaskConfigs = Annotated[list[dict[str, str]], Depends(read_configs)]


@dataclass(frozen=True, slots=True)
class _Turn:
    worker: str
    done: bool


async def _read_turn(request: Request) -> _Turn:
    body = await read_json(request)
    if not isinstance(body, dict) or not isinstance(body.get("worker"), str) or not isinstance(body.get("done"), bool):
        raise BadRequestError('The body of a turn is not {"worker": "...", "done": true|false}')
    return _Turn(body["worker"], body["done"])


TurnBody = Annotated[_Turn, Depends(_read_turn)]


def add_internal_routes(router: APIRouter, herder: ClusterInternal) -> None:
    """Adds the requests between workers, which the OpenAPI document omits."""

    @router.post("/connectors/{connector}/tasks", include_in_schema=False)
    def put_task_configs(connector: str, configs: TaskConfigs, signature: Signature) -> Response:
        herder.put_task_configs(connector, configs, signature)
        return empty_response(204)

    @router.put("/sluice/connectors/{connector}/reload-turn", include_in_schema=False)
    def take_reload_turn(connector: str, body: TurnBody, signature: Signature) -> Response:
        herder.take_reload_turn(body.worker, signature, done=body.done)
        return empty_response(204)

    @router.put("/connectors/{connector}/fence", include_in_schema=False)
    def fence(connector: str, signature: Signature) -> Response:
        herder.fence_zombies(connector, signature)
        return empty_response(204)
