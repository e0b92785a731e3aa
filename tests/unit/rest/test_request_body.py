"""A cancelled request ends even if its body arrives at the same time."""

from __future__ import annotations

import asyncio

import pytest
from starlette.types import Message, Receive, Scope, Send

from rest.middleware.request_body import RequestBodyLimit
from tests.support.waiting import WAIT_S


async def _given_up(turns: int) -> bool:
    """Whether a handler that would hang ends when it is cancelled so many turns of the loop after its body has come."""
    came: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    started = asyncio.Event()

    async def receive() -> Message:
        started.set()
        return await came

    async def send(message: Message) -> None: ...

    async def hang(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await asyncio.Event().wait()

    scope = {"type": "http", "method": "PUT", "path": "/", "headers": []}
    request = asyncio.ensure_future(RequestBodyLimit(hang)(scope, receive, send))
    await started.wait()
    came.set_result({"type": "http.request", "body": b"{}", "more_body": False})
    for _ in range(turns):
        await asyncio.sleep(0)
    request.cancel()
    await asyncio.wait({request}, timeout=WAIT_S)
    ended = request.done()
    request.cancel()
    return ended


@pytest.mark.parametrize("turns", range(6))
def test_request_cancelled_while_its_body_arrives_ends(turns: int) -> None:
    assert asyncio.run(_given_up(turns))
