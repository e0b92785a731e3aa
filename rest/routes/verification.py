"""``/sluice/connectors/{connector}/verification``: the last result of ``sluice verify``. Not in Apache's worker."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from connect.errors import BadRequestError, NotFoundError
from rest.errors import UnreadableBodyError
from rest.requests import read_json
from rest.responses import json_response
from worker.herder import VerificationOperations

_MEMBERS: dict[str, tuple[type, ...]] = {
    "equal": (bool,),
    "rows": (int,),
    "differences": (int,),
    "unsettled": (int,),
    "seconds": (int, float),
}
_MAX = 2**63 - 1
_FORM = 'expected {"equal": true, "rows": 0, "differences": 0, "unsettled": 0, "seconds": 0.0, ...}'
_numbers = json.JSONDecoder()


async def _read_result(request: Request) -> dict[str, Any]:
    body = await read_json(request, _numbers)
    if not isinstance(body, dict):
        raise UnreadableBodyError(f"The body is not an object; {_FORM}")
    for name, types in _MEMBERS.items():
        value = body.get(name)
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise BadRequestError(f'"{name}" is missing or has the wrong type; {_FORM}')
        number: float = body[name]
        if not 0 <= number <= _MAX:  # false for NaN
            raise BadRequestError(f'"{name}" is {number}; expected 0 to {_MAX}')
    return body


ResultBody = Annotated[dict[str, Any], Depends(_read_result)]


def add_verification_routes(router: APIRouter, herder: VerificationOperations) -> None:
    """Adds reading and storing of results."""

    @router.get("/sluice/connectors/{connector}/verification", tags=["sluice"], summary="The last result of sluice verify")
    def get(connector: str) -> Response:
        herder.connector_info(connector)
        found, schedule = herder.verifications.get(connector), herder.verification_schedule(connector)
        if found is None and schedule is None:
            raise NotFoundError(
                f"Connector {connector} has no result of a verification; run sluice verify, or set verify.interval.ms"
            )
        shown = {} if found is None else found.as_json()
        return json_response({**shown, "name": connector, "schedule": schedule})

    @router.post("/sluice/connectors/{connector}/verification", tags=["sluice"], summary="Store a result of sluice verify")
    def store(connector: str, result: ResultBody) -> Response:
        herder.connector_info(connector)
        return json_response({**herder.verifications.store(connector, result).as_json(), "name": connector}, 201)
