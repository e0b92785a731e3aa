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
DRAIN_TIMEOUT_S = 30.0
"""How long a client may send the rest of a body whose request has been answered."""
MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers."""


class _RejectedError(Exception):
    """Stops the parser: the request has been rejected."""


class Connection(HttpToolsProtocol):
    """An accepted connection with time and size limits."""

    def __init__(self, *args: Any, max_head_bytes: int = MAX_HEAD_BYTES, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._max_head_bytes = max_head_bytes
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._drain_timer: asyncio.TimerHandle | None = None
        self._received_bytes = 0
        """While the head is incomplete: all bytes of it so far."""
        self._head_bytes = 0
        """Of names, values, and the URL; in the body, of trailers."""
        self._is_body_complete = True
        self._is_rejected = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timers()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_rejected:
            return
        if self._head_timer is not None:
            self._received_bytes += len(data)
        super().data_received(data)
        if self._head_timer is not None and self._received_bytes > self._max_head_bytes:
            self._reject(431, "Request Header Fields Too Large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = 0
        self._is_body_complete = False
        if self._head_timer is None:
            self._start_head_timer()

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        # Counted here too, since a head that arrives in one piece is complete before its size is checked.
        self._count_head(len(name) + len(value) + 4)
        if self._head_timer is not None:
            super().on_header(name, value)
        # Else a trailer of a chunked body: dropped, or it would be taken for a header of the request.

    def on_headers_complete(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        self._head_bytes = 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_body_complete = True
        self._stop_draining()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_body_complete and not self.transport.is_closing():
            self._drain_timer = self.loop.call_later(DRAIN_TIMEOUT_S, self.transport.close)

    def send_400_response(self, msg: str) -> None:
        if not self._is_rejected:
            super().send_400_response(msg)

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._max_head_bytes:
            self._reject(431, "Request Header Fields Too Large")
            raise _RejectedError

    def _stop_draining(self) -> None:
        if self._drain_timer is not None:
            self._drain_timer.cancel()
            self._drain_timer = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(WRITE_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        super().resume_writing()

    def _start_head_timer(self) -> None:
        self._received_bytes = 0
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._on_head_timeout)

    def _on_head_timeout(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            # The next request arrived while this one is being answered: answer this one first.
            self._start_head_timer()
            return
        self._reject(408, "Request Timeout")

    def _reject(self, status: int, reason: str) -> None:
        self._cancel_timers()
        self._is_rejected = True
        if self.transport.is_closing():
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.abort()  # an answer is being written: another one must not get into it
            return
        if self._received_bytes or self._head_bytes:
            body = f'{{"error_code":{status},"message":"HTTP {status} {reason}"}}'.encode()
            head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self.transport.close()

    def _cancel_timers(self) -> None:
        for timer in (self._head_timer, self._write_timer, self._drain_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = self._write_timer = self._drain_timer = None
