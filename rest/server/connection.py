"""One connection: uvicorn's protocol, and an end for clients that are too slow or send too much before their request is there.

Without it a client that sends a byte now and then, or that does not read its answer, keeps its connection for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD_TIMEOUT_S = 30.0
"""From the first byte of a request, or from the connection, to the end of its headers."""
WRITE_TIMEOUT_S = 60.0
"""How long a client may not read while it has an answer."""
MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers."""


class Connection(HttpToolsProtocol):
    """What uvicorn makes of an accepted connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_timer is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_timer is not None and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(431, "Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._head_timer is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        super().on_headers_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(WRITE_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        super().resume_writing()

    def _await_head(self) -> None:
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._head_is_late)

    def _head_is_late(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            # The next request has begun while this one is being answered: it has to be told first.
            self._await_head()
            return
        self._refuse(408, "Request Timeout")

    def _refuse(self, status: int, reason: str) -> None:
        self._cancel_timers()
        if self.transport.is_closing():
            return
        if self._head_bytes:
            body = f'{{"error_code":{status},"message":"HTTP {status} {reason}"}}'.encode()
            head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self.transport.close()

    def _cancel_timers(self) -> None:
        for timer in (self._head_timer, self._write_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = self._write_timer = None
