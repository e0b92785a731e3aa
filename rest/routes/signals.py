"""``/sluice/connectors/{connector}/signals``: signals to the running tasks of a connector. Not in Apache's worker."""

from __future__ import annotations

import json
import uuid
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from connect.errors import BadRequestError, IllegalStateError, NotLeaderError
from rest.errors import UnreadableBodyError
from rest.requests import read_json
from rest.responses import json_response
from worker.herder import SignalOperations
from worker.model import TaskId, TaskSignal

_FORM = 'expected {"id": "...", "type": "...", "data": {...}}; id and data are optional'
_numbers = json.JSONDecoder()


async def _read_signal(request: Request) -> TaskSignal:
    body = await read_json(request, _numbers)
    if not isinstance(body, dict):
        raise UnreadableBodyError(f"The body is not an object; {_FORM}")
    for name, types in (("id", str), ("type", str), ("data", (dict, str))):
        if not isinstance(body.get(name), (types, type(None))):
            raise BadRequestError(f'"{name}" has the wrong type; {_FORM}')
    if unknown := set(body) - {"id", "type", "data"}:
        raise BadRequestError(f'Unknown member "{min(unknown)}"; {_FORM}')
    if not body.get("type"):
        raise BadRequestError(f'"type" is missing; {_FORM}')
    data: Any = body.get("data")
    return TaskSignal(body.get("id") or str(uuid.uuid4()), body["type"], json.dumps(data) if isinstance(data, dict) else data)


SignalBody = Annotated[TaskSignal, Depends(_read_signal)]


def add_signals_routes(router: APIRouter, herder: SignalOperations) -> None:
    """Adds signals to connectors whose tasks take them."""

    @router.post(
        "/sluice/connectors/{connector}/signals",
        tags=["sluice"],
        summary="Send a signal to a connector's tasks, such as execute-snapshot to a CDC source",
    )
    def send(connector: str, signal: SignalBody) -> Response:
        sent: list[int] = []
        elsewhere: NotLeaderError | None = None
        for number, _ in herder.connector_status(connector).tasks:
            try:
                if herder.signal_task(TaskId(connector, number), signal):
                    sent.append(number)
            except NotLeaderError as e:
                elsewhere = e
        if not sent:
            raise elsewhere or IllegalStateError(f"No task of connector {connector} runs at the moment; try again in a moment")
        return json_response({"id": signal.id, "tasks": sent}, 202)
