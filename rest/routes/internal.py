"""Requests of workers to their leader, signed with the cluster's session key (KIP-507, KIP-618)."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from connect.errors import BadRequestError
from rest.requests import read_configs
from rest.responses import empty_answer
from worker.config.distributed_config import hash_name
from worker.herder import Herder
from worker.model import RequestSignature

SIGNATURE_HEADER = "X-Connect-Authorization"
ALGORITHM_HEADER = "X-Connect-Request-Signature-Algorithm"
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=]")


async def _signature(request: Request) -> RequestSignature:
    headers = request.headers
    signature, algorithm = headers.get(SIGNATURE_HEADER), headers.get(ALGORITHM_HEADER)
    if signature is not None and algorithm is not None:
        _check(signature, algorithm)
    return RequestSignature(await request.body(), signature, algorithm)


def _check(signature: str, algorithm: str) -> None:
    """Both headers are read before anybody asks whether this worker has a use for them, as in Apache's."""
    if hash_name(algorithm) is None:
        raise BadRequestError(f"Algorithm {algorithm} not available")
    if strange := _NOT_BASE64.search(signature):
        raise BadRequestError(f"Illegal base64 character {ord(strange[0]):x}")
    try:
        base64.b64decode(signature, validate=True)
    except binascii.Error as e:
        raise BadRequestError(f"{SIGNATURE_HEADER} is not base64: {e}") from e


Signature = Annotated[RequestSignature, Depends(_signature)]
TaskConfigs = Annotated[list[dict[str, str]], Depends(read_configs)]


def add_internal_routes(router: APIRouter, herder: Herder) -> None:
    """What operators have no use for: the OpenAPI document leaves it out."""

    @router.post("/connectors/{connector}/tasks", include_in_schema=False)
    def put_task_configs(connector: str, configs: TaskConfigs, signature: Signature) -> Response:
        herder.put_task_configs(connector, configs, signature)
        return empty_answer(204)

    @router.put("/connectors/{connector}/fence", include_in_schema=False)
    def fence(connector: str, signature: Signature) -> Response:
        herder.fence_zombies(connector, signature)
        return empty_answer(204)
