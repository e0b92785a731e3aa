"""Limits of request bodies: their size, and how long a client may pause while sending."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rest.errors import BodyTooLargeError, BodyTooSlowError, error_status
from rest.responses import error_response

DEFAULT_MAX_BYTES = 10 * 1024 * 1024
IDLE_TIMEOUT_S = 30.0
"""Jetty's idle timeout."""
TOTAL_TIMEOUT_S = 80.0
"""For a whole body, however steadily it trickles in. Below the request timeout."""


class RequestBodyLimit:
    """Returns 413 for a body that is too large, 408 for a client that stopped sending.

    The server reads and drops the rest of such a body, so that a client that is still sending gets the response instead of a
    broken connection.
    """

    def __init__(
        self,
        app: ASGIApp,
        max_bytes: int = DEFAULT_MAX_BYTES,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        total_timeout_s: float = TOTAL_TIMEOUT_S,
    ) -> None:
        self.app = app
        self._max_bytes = max_bytes
        self._idle_timeout_s = idle_timeout_s
        self._total_timeout_s = total_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"")
        if declared.isdigit() and int(declared) > self._max_bytes:
            error = BodyTooLargeError(self._max_bytes)
            await error_response(error_status(error), error.message)(scope, receive, send)
            return
        await self.app(scope, self._limit(receive), send)

    def _limit(self, receive: Receive) -> Receive:
        size = 0
        complete = False
        until: float | None = None

        async def receive_limited() -> Message:
            nonlocal size, complete, until
            if complete:
                return await receive()  # waits for the client to disconnect, however long that takes
            now = asyncio.get_running_loop().time()
            until = now + self._total_timeout_s if until is None else until
            is_last_wait = until - now < self._idle_timeout_s
            try:
                # Not wait_for: before Python 3.12 it loses a cancellation that arrives together with a message, and the call
                # would hang after the request timeout.
                async with asyncio.timeout(max(0.0, until - now) if is_last_wait else self._idle_timeout_s):
                    message = await receive()
            except TimeoutError as e:
                if is_last_wait:
                    raise BodyTooSlowError(f"it has not arrived within {self._total_timeout_s:g} s") from e
                raise BodyTooSlowError(f"nothing received for {self._idle_timeout_s:g} s") from e
            size += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if size > self._max_bytes:
                raise BodyTooLargeError(self._max_bytes)
            return message

        return receive_limited
