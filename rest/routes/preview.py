"""``POST /sluice/preview``: records before and after each transformation of a configuration. Not in Apache's worker."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from connect.errors import BadRequestError
from rest.errors import UnreadableBodyError
from rest.requests import Config, as_config, read_json
from rest.responses import json_response
from rest.security.access import access_of
from rest.security.identity import Role
from rest.security.masking import keep_secrets, mask_of
from worker.herder import Herder
from worker.model import PreviewRequest

MAX_RECORDS = 50
_FORM = 'expected {"config": {...}, "records": [...]} or {"config": {...}, "sample": {"topic": "...", "limit": 5}}'
_numbers = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class _Preview:
    config: Config
    request: PreviewRequest


async def _read_preview(request: Request) -> _Preview:
    body = await read_json(request, _numbers)
    if not isinstance(body, dict):
        raise UnreadableBodyError(f"The body is not an object; {_FORM}")
    if unknown := set(body) - {"config", "records", "sample"}:
        raise BadRequestError(f'Unknown member "{min(unknown)}"; {_FORM}')
    # Once more, because numbers in a configuration are texts as they are written.
    config = as_config((await read_json(request)).get("config"), '"config"')
    records = body.get("records")
    if not isinstance(records, list | None):
        raise BadRequestError(f'"records" is not an array; {_FORM}')
    if records is not None and len(records) > MAX_RECORDS:
        raise BadRequestError(f'"records" has {len(records)} records; expected at most {MAX_RECORDS}')
    topic, limit = _sample(body.get("sample"))
    return _Preview(config, PreviewRequest(records, topic, limit))


def _sample(sample: Any) -> tuple[str | None, int]:
    default = PreviewRequest()
    if sample is None:
        return default.topic, default.limit
    if not isinstance(sample, dict) or set(sample) - {"topic", "limit"}:
        raise BadRequestError(f'"sample" is not an object of topic and limit; {_FORM}')
    topic, limit = sample.get("topic"), sample.get("limit", default.limit)
    if not isinstance(topic, str | None) or topic == "":
        raise BadRequestError(f'"topic" of "sample" is not the name of a topic; {_FORM}')
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= MAX_RECORDS:
        raise BadRequestError(f'"limit" of "sample" is {json.dumps(limit)}; expected a number from 1 to {MAX_RECORDS}')
    return topic, limit


PreviewBody = Annotated[_Preview, Depends(_read_preview)]


def add_preview_routes(router: APIRouter, herder: Herder) -> None:
    """Adds the preview of transformations."""

    @router.post("/sluice/preview", tags=["sluice"], summary="Run records through the transformations of a configuration")
    def preview(request: Request, body: PreviewBody) -> Response:
        config, name = body.config, body.config.get("name")
        if name:
            access_of(request).require(Role.ADMIN, name)
            config, _ = keep_secrets(mask_of(request), herder, name, config)
        return json_response(herder.preview(config, body.request))
