"""Calls and notifications between two processes over a socket.

A frame is four bytes of length and a message (:mod:`worker.executors.wire`): a call ``{"call": id, "method": name, "arguments":
{...}}``, its answer ``{"to": id, "result": value}`` or ``{"to": id, "error": ...}``, or a notification ``{"notify": name,
"arguments": {...}}``. Messages are handled in the order in which they were sent. Frames and the send queue are bounded: a process
that does not read, or sends invalid messages, ends the channel and not its peer.
"""

from __future__ import annotations

import itertools
import logging
import socket
import struct
import threading
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol

from connect.errors import ConnectError, DataError
from worker.executors import wire
from worker.executors.futures import fail, succeed
from worker.executors.wire import error_from_wire, error_to_wire

log = logging.getLogger(__name__)

MAX_FRAME_BYTES = 64 * 1024 * 1024
MAX_QUEUED_BYTES = 128 * 1024 * 1024
"""Limit of the send queue. A process that is so far behind no longer reads."""

_LENGTH = struct.Struct(">I")
_READ_BYTES = 256 * 1024


class ChannelClosedError(ConnectError):
    """The other process has ended, or is treated as if it had."""


class Handler(Protocol):
    """Serves calls. Called on the channel's thread, one message after another; must not block."""

    def on_call(self, method: str, arguments: Mapping[str, Any]) -> Future[Any]:
        """Returns the answer, a value that can be sent."""

    def on_notification(self, method: str, arguments: Mapping[str, Any]) -> None: ...

    def on_closed(self, reason: str) -> None:
        """The channel is closed. ``reason`` is empty when the other side ended normally."""


class Channel:
    """One end of a channel. Its owner starts and closes it; the other methods are safe from any thread."""

    def __init__(self, connection: socket.socket, handler: Handler, name: str) -> None:
        self._socket = connection
        self._handler = handler
        self._name = name
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._to_send = threading.Condition(self._lock)
        self._queued: deque[bytes] = deque()
        self._queued_bytes = 0
        self._calls: dict[int, Future[Any]] = {}
        self._closed = False
        self._reader = threading.Thread(target=self._read, name=f"{name}-in", daemon=True)
        self._writer = threading.Thread(target=self._write, name=f"{name}-out", daemon=True)

    def start(self) -> None:
        self._reader.start()
        self._writer.start()

    def call(self, method: str, /, **arguments: Any) -> Future[Any]:
        """Sends a call; the future has the answer, the other side's error, or ChannelClosedError."""
        future: Future[Any] = Future()
        number = next(self._numbers)
        with self._lock:
            self._calls[number] = future
        try:
            self._send({"call": number, "method": method, "arguments": arguments})
        except ConnectError as e:
            with self._lock:
                self._calls.pop(number, None)
            fail(future, e)
        return future

    def notify(self, method: str, /, **arguments: Any) -> None:
        """Sends a message without an answer. It is dropped when the other side has ended."""
        try:
            self._send({"notify": method, "arguments": arguments})
        except ChannelClosedError:
            log.debug("%s: notification %s is dropped because the channel is closed", self._name, method)

    def close(self, reason: str = "") -> None:
        """Closes the channel: open calls fail with ChannelClosedError. May be called more than once."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            calls, self._calls = self._calls, {}
            self._queued.clear()
            self._to_send.notify_all()
        with suppress(OSError):  # the other side closed it first
            self._socket.shutdown(socket.SHUT_RDWR)
        for future in calls.values():
            fail(future, ChannelClosedError(reason or "The process of the executor has ended"))
        self._handler.on_closed(reason)

    def join(self, timeout_s: float) -> None:
        """Waits for the threads of a closed channel, and releases the socket."""
        for thread in (self._reader, self._writer):
            if thread is not threading.current_thread() and thread.ident is not None:
                thread.join(timeout_s)
        self._socket.close()

    # --- sending

    def _send(self, message: Mapping[str, Any]) -> None:
        data = wire.encode(message)
        if len(data) > MAX_FRAME_BYTES:
            raise DataError(f"A message of {len(data)} bytes is too large to be sent to another process")
        with self._lock:
            if not self._closed:
                self._queued.append(_LENGTH.pack(len(data)) + data)
                self._queued_bytes += _LENGTH.size + len(data)
                full = self._queued_bytes > MAX_QUEUED_BYTES
                self._to_send.notify()
            closed = self._closed
        if closed:
            raise ChannelClosedError("The process of the executor has ended")
        if full:
            self.close("it does not read its messages")

    def _write(self) -> None:
        while True:
            with self._lock:
                while not self._queued and not self._closed:
                    self._to_send.wait()
                if self._closed:
                    return
                data = b"".join(self._queued)
                self._queued.clear()
            try:
                self._socket.sendall(data)
            except OSError:
                self.close()
                return
            with self._lock:
                self._queued_bytes -= len(data)

    # --- receiving

    def _read(self) -> None:
        reason = ""
        try:
            while (message := self._next_message()) is not None:
                self._handle(message)
        except DataError as e:
            reason = f"it sent an invalid message: {e.message}"
        except Exception as e:
            log.exception("Handling a message from %s failed", self._name)
            reason = f"it sent a message that could not be handled: {type(e).__name__}"
        self.close(reason)

    def _next_message(self) -> dict[str, Any] | None:
        header = self._exactly(_LENGTH.size)
        if header is None:
            return None
        (size,) = _LENGTH.unpack(header)
        if size > MAX_FRAME_BYTES:
            raise DataError(f"a frame of {size} bytes")
        data = self._exactly(size)
        if data is None:
            return None
        message = wire.decode(data)
        if not isinstance(message, dict):
            raise DataError("a frame without a message")
        return message

    def _exactly(self, size: int) -> bytes | None:
        parts = []
        while size:
            try:
                part = self._socket.recv(min(size, _READ_BYTES))
            except OSError:
                return None
            if not part:
                return None
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _handle(self, message: Mapping[str, Any]) -> None:
        match message:
            case {"call": int(number), "method": str(method), "arguments": dict(arguments)}:
                answer = self._handler.on_call(method, arguments)
                answer.add_done_callback(lambda done: self._answer(number, done))
            case {"notify": str(method), "arguments": dict(arguments)}:
                self._handler.on_notification(method, arguments)
            case {"to": int(number), "error": dict(error)}:
                self._complete_call(number, None, error_from_wire(error))
            case {"to": int(number), "result": value}:
                self._complete_call(number, value, None)
            case _:
                raise DataError(f"a message with {sorted(message)}")

    def _answer(self, number: int, done: Future[Any]) -> None:
        error = done.exception()
        try:
            if error is None:
                self._send({"to": number, "result": done.result()})
                return
        except ChannelClosedError:
            return
        except DataError as e:
            error = e
        with suppress(ChannelClosedError):
            self._send({"to": number, "error": error_to_wire(error)})

    def _complete_call(self, number: int, value: Any, error: BaseException | None) -> None:
        with self._lock:
            future = self._calls.pop(number, None)
        # None: the answer of a call that nobody waits for.
        if future is None:
            return
        if error is None:
            succeed(future, value)
        else:
            fail(future, error)
