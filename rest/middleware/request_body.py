"""Bounds of a request's body: how long it may be, and how long a client may take between two pieces of it."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rest.errors import BodyTooLargeError, BodyTooSlowError, status_of
from rest.responses import error_answer

DEFAULT_MAX_BYTES = 10 * 1024 * 1024
IDLE_TIMEOUT_S = 30.0
"""As Jetty's idle timeout."""


class RequestBody:
    """Answers 413 to a body that is too long, 408 to a client that has stopped sending.

    What is left of such a body is read and dropped by the server: a client that is still sending then gets the answer instead of
    a connection that breaks.
    """

    def __init__(self, app: ASGIApp, max_bytes: int = DEFAULT_MAX_BYTES, idle_timeout_s: float = IDLE_TIMEOUT_S) -> None:
        self.app = app
        self._max_bytes = max_bytes
        self._idle_timeout_s = idle_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"")
        if announced.isdigit() and int(announced) > self._max_bytes:
            error = BodyTooLargeError(self._max_bytes)
            await error_answer(status_of(error), error.message)(scope, receive, send)
            return
        await self.app(scope, self._bounded(receive), send)

    def _bounded(self, receive: Receive) -> Receive:
        size = 0
        complete = False

        async def receive_bounded() -> Message:
            nonlocal size, complete
            if complete:
                return await receive()  # waits for the client to go, however long that takes
            try:
                # Not wait_for, which until Python 3.12 forgets a cancellation that comes together with a message: the call would
                # go on, and hang, after the request timeout.
                async with asyncio.timeout(self._idle_timeout_s):
                    message = await receive()
            except TimeoutError as e:
                raise BodyTooSlowError(self._idle_timeout_s) from e
            size += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if size > self._max_bytes:
                raise BodyTooLargeError(self._max_bytes)
            return message

        return receive_bounded
