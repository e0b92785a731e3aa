"""``/sluice/connectors/{connector}/dead-letters``: reads, groups, and replays dead letters. Not in Apache's worker."""

from __future__ import annotations

import json
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from connect.errors import BadRequestError
from rest.errors import UnreadableBodyError
from rest.requests import query_number, read_json
from rest.responses import json_response
from rest.security.access import access_of
from rest.security.identity import Role
from worker.dead_letters.requests import MEMBERS, require_members
from worker.herder import DeadLetterOperations

_numbers = json.JSONDecoder()

Limit = Annotated[str, Query(description="How many of the newest dead letters, 20 by default, 1000 at most")]
Cause = Annotated[str, Query(description="ID of a cause, or its beginning")]
Partition = Annotated[str, Query(description="A partition of the queue")]
Offsets = Annotated[str, Query(description="Offsets in the queue, such as 5-9,12")]
Flag = Annotated[str, Query(description="`true` or anything else")]
_MAX_LIMIT = 1000


class _ReplayBody(NamedTuple):
    request: dict[str, Any]
    edits: dict[str, str | None] | None


async def _read_replay(request: Request) -> _ReplayBody:
    body = await read_json(request, _numbers)
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise UnreadableBodyError('The body is not an object; expected {"dry_run": true, "selection": {...}, "config": {...}}')
    require_members(body, [*(one for one in MEMBERS if one not in ("action", "with_trace")), "config"], "the body")
    edits = body.pop("config", None)
    if edits is not None and not (isinstance(edits, dict) and all(isinstance(one, str | None) for one in edits.values())):
        raise BadRequestError('"config" is not an object of strings; null removes a key')
    return _ReplayBody({**body, "action": "replay"}, edits)


ReplayBody = Annotated[_ReplayBody, Depends(_read_replay)]


def add_dead_letters_routes(router: APIRouter, herder: DeadLetterOperations) -> None:
    """Adds the dead letters of a connector."""

    @router.get(
        "/sluice/connectors/{connector}/dead-letters", tags=["sluice"], summary="The newest dead letters, and how many there are"
    )
    def read_letters(
        connector: str,
        limit: Limit = "",
        cause: Cause = "",
        partition: Partition = "",
        offsets: Offsets = "",
        replayed: Flag = "",
        trace: Flag = "",
    ) -> Response:
        count = query_number("limit", limit, 20, _MAX_LIMIT)
        selection = _selection(cause, partition, offsets, replayed)
        request = {"action": "list", "limit": count, "selection": selection, "with_trace": trace == "true"}
        return json_response(herder.dead_letters(connector, request, None))

    @router.get("/sluice/connectors/{connector}/dead-letters/causes", tags=["sluice"], summary="Dead letters grouped by cause")
    def read_causes(connector: str, partition: Partition = "", offsets: Offsets = "", replayed: Flag = "") -> Response:
        selection = _selection("", partition, offsets, replayed)
        return json_response(herder.dead_letters(connector, {"action": "causes", "selection": selection}, None))

    @router.post(
        "/sluice/connectors/{connector}/dead-letters/replay",
        tags=["sluice"],
        summary="Check dead letters against an edited configuration, or write them back to their topics",
    )
    def replay(request: Request, connector: str, body: ReplayBody) -> Response:
        if body.edits is not None or body.request.get("transforms") is not None:
            access_of(request).require(Role.ADMIN, connector)  # both may name code that is run
        return json_response(herder.dead_letters(connector, body.request, body.edits))


def _selection(cause: str, partition: str, offsets: str, replayed: str) -> dict[str, Any]:
    number = query_number("partition", partition, None)
    return {"cause": cause or None, "partition": number, "offsets": offsets or None, "with_replayed": replayed == "true"}
