"""Notices that a client disconnects while its request is being answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.requests import Request


@asynccontextmanager
async def calling_on_disconnect(request: Request, call: Callable[[], None]) -> AsyncIterator[None]:
    """Calls ``call``, which must not block, if the client disconnects during the block."""
    await request.body()  # only the end of the connection comes after it

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        call()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait({watching})
