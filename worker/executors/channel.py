"""Two processes that ask each other things over a socket.

A frame is four bytes of length and a message (:mod:`worker.executors.wire`): a question ``{"ask": id, "of": method, "with":
arguments}``, its answer ``{"to": id, "is": value}`` or ``{"to": id, "error": ...}``, or something told ``{"tell": method, "with":
arguments}``. What arrives is handled in the order in which it was sent. What waits to be sent is bounded, and so are frames: a
process that does not read, or sends nonsense, ends the channel and not its partner.
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
from worker.executors.wire_errors import error_from_wire, error_to_wire

log = logging.getLogger(__name__)

MOST_FRAME_BYTES = 64 * 1024 * 1024
MOST_WAITING_BYTES = 128 * 1024 * 1024
"""Of what is to be sent. A process that is so far behind does not read any more."""

_LENGTH = struct.Struct(">I")
_READ_BYTES = 256 * 1024


class ChannelClosedError(ConnectError):
    """The other process is gone, or is taken for gone."""


class Handler(Protocol):
    """What answers. Called on the channel's thread, one message after another; must not block."""

    def on_question(self, method: str, arguments: Mapping[str, Any]) -> Future[Any]:
        """The answer, as a value that can be sent."""

    def on_told(self, method: str, arguments: Mapping[str, Any]) -> None: ...

    def on_closed(self, reason: str) -> None:
        """Nothing more will come. ``reason`` is empty when the other side just ended."""


class Channel:
    """One end. Whoever makes it starts it and closes it; the other methods are for any thread."""

    def __init__(self, connection: socket.socket, handler: Handler, name: str) -> None:
        self._socket = connection
        self._handler = handler
        self._name = name
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._to_send = threading.Condition(self._lock)
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._asked: dict[int, Future[Any]] = {}
        self._closed = False
        self._reader = threading.Thread(target=self._read, name=f"{name}-in", daemon=True)
        self._writer = threading.Thread(target=self._write, name=f"{name}-out", daemon=True)

    def start(self) -> None:
        self._reader.start()
        self._writer.start()

    def ask(self, method: str, /, **arguments: Any) -> Future[Any]:
        """A question; the future has the answer, the other side's error, or ChannelClosedError."""
        future: Future[Any] = Future()
        number = next(self._numbers)
        with self._lock:
            self._asked[number] = future
        try:
            self._send({"ask": number, "of": method, "with": arguments})
        except ConnectError as e:
            with self._lock:
                self._asked.pop(number, None)
            fail(future, e)
        return future

    def tell(self, method: str, /, **arguments: Any) -> None:
        """Something that has no answer. Nobody hears it when the other side is gone."""
        try:
            self._send({"tell": method, "with": arguments})
        except ChannelClosedError:
            log.debug("%s: %s is not told, for the channel is closed", self._name, method)

    def close(self, reason: str = "") -> None:
        """Ends the channel: what waits for answers gets ChannelClosedError. May be called more than once."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            asked, self._asked = self._asked, {}
            self._waiting.clear()
            self._to_send.notify_all()
        with suppress(OSError):  # the other side was faster
            self._socket.shutdown(socket.SHUT_RDWR)
        for future in asked.values():
            fail(future, ChannelClosedError(reason or "The process of the executor has ended"))
        self._handler.on_closed(reason)

    def join(self, timeout_s: float) -> None:
        """Waits for the threads of a closed channel, and gives the socket back."""
        for thread in (self._reader, self._writer):
            if thread is not threading.current_thread() and thread.ident is not None:
                thread.join(timeout_s)
        self._socket.close()

    # --- sending

    def _send(self, message: Mapping[str, Any]) -> None:
        data = wire.encode(message)
        if len(data) > MOST_FRAME_BYTES:
            raise DataError(f"A message of {len(data)} bytes is too large to be told to another process")
        with self._lock:
            if not self._closed:
                self._waiting.append(_LENGTH.pack(len(data)) + data)
                self._waiting_bytes += _LENGTH.size + len(data)
                full = self._waiting_bytes > MOST_WAITING_BYTES
                self._to_send.notify()
            closed = self._closed
        if closed:
            raise ChannelClosedError("The process of the executor has ended")
        if full:
            self.close("it does not read what it is sent")

    def _write(self) -> None:
        while True:
            with self._lock:
                while not self._waiting and not self._closed:
                    self._to_send.wait()
                if self._closed:
                    return
                data = b"".join(self._waiting)
                self._waiting.clear()
            try:
                self._socket.sendall(data)
            except OSError:
                self.close()
                return
            with self._lock:
                self._waiting_bytes -= len(data)

    # --- receiving

    def _read(self) -> None:
        reason = ""
        try:
            while (message := self._next_message()) is not None:
                self._handle(message)
        except DataError as e:
            reason = f"it sent what makes no sense: {e.message}"
        except Exception as e:
            log.exception("What came over %s could not be handled", self._name)
            reason = f"it sent what could not be handled: {type(e).__name__}"
        self.close(reason)

    def _next_message(self) -> dict[str, Any] | None:
        header = self._exactly(_LENGTH.size)
        if header is None:
            return None
        (size,) = _LENGTH.unpack(header)
        if size > MOST_FRAME_BYTES:
            raise DataError(f"a frame of {size} bytes")
        data = self._exactly(size)
        if data is None:
            return None
        message = wire.decode(data)
        if not isinstance(message, dict):
            raise DataError("a frame that is no message")
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
            case {"ask": int(number), "of": str(method), "with": dict(arguments)}:
                answer = self._handler.on_question(method, arguments)
                answer.add_done_callback(lambda done: self._answer(number, done))
            case {"tell": str(method), "with": dict(arguments)}:
                self._handler.on_told(method, arguments)
            case {"to": int(number), "error": dict(error)}:
                self._settle_asked(number, None, error_from_wire(error))
            case {"to": int(number), "is": value}:
                self._settle_asked(number, value, None)
            case _:
                raise DataError(f"a message with {sorted(message)}")

    def _answer(self, number: int, done: Future[Any]) -> None:
        error = done.exception()
        try:
            if error is None:
                self._send({"to": number, "is": done.result()})
                return
        except ChannelClosedError:
            return
        except DataError as e:
            error = e
        with suppress(ChannelClosedError):
            self._send({"to": number, "error": error_to_wire(error)})

    def _settle_asked(self, number: int, value: Any, error: BaseException | None) -> None:
        with self._lock:
            future = self._asked.pop(number, None)
        # None: an answer that nobody asked for, or waits for, any more.
        if future is None:
            return
        if error is None:
            succeed(future, value)
        else:
            fail(future, error)
