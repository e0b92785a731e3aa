"""uvicorn's connection with limits for slow clients and large request headers.

Without them, a client that sends a byte now and then, or does not read its response, holds its connection forever.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD_TIMEOUT_S = 30.0
"""From the first byte of a request, or from connecting, to the end of its headers."""
WRITE_TIMEOUT_S = 60.0
"""How long a client may leave a response unread."""
MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers."""


class Connection(HttpToolsProtocol):
    """An accepted connection with time and size limits."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_timer is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_timer is not None and self._head_bytes > MAX_HEAD_BYTES:
            self._reject(431, "Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._head_timer is None:
            self._start_head_timer()

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

    def _start_head_timer(self) -> None:
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._on_head_timeout)

    def _on_head_timeout(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            # The next request arrived while this one is being answered: answer this one first.
            self._start_head_timer()
            return
        self._reject(408, "Request Timeout")

    def _reject(self, status: int, reason: str) -> None:
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
