"""Calls of a process that may not have been started yet: they wait for its channel."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from worker.executors.channel import Channel, ChannelClosedError
from worker.executors.futures import fail, pass_on


class PendingCalls:
    """The calls of one process. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0
        self._waiting: list[tuple[Callable[[Channel], None], Future[Any] | None]] = []
        self._channel: Channel | None = None
        self._ended = False

    @property
    def has_open_calls(self) -> bool:
        """Whether a caller waits for an answer."""
        return self._open > 0

    @property
    def channel(self) -> Channel | None:
        """The channel, once what waited for it was sent."""
        with self._lock:
            return self._channel

    def call(self, method: str, arguments: dict[str, Any]) -> Future[Any]:
        """The future has the answer, the process's error, or ChannelClosedError when the process ends first."""
        outer: Future[Any] = Future()
        with self._lock:
            self._open += 1
        outer.add_done_callback(self._on_done)
        self._send(lambda channel: pass_on(channel.call(method, **arguments), outer, lambda value: value), outer)
        return outer

    def notify(self, method: str, arguments: dict[str, Any]) -> None:
        """Sends a message without an answer. It is dropped when the process has ended."""
        self._send(lambda channel: channel.notify(method, **arguments), None)

    def connect(self, channel: Channel) -> None:
        """Sends what has waited, in its order; from then on calls go to the channel directly."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._channel = channel
                    return
                waiting, self._waiting = self._waiting, []
            for send, _ in waiting:
                send(channel)

    def end(self) -> None:
        """The process has ended: calls that wait fail, and so do later ones."""
        with self._lock:
            self._ended = True
            waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            if future is not None:
                fail(future, _ended_error())

    def _send(self, send: Callable[[Channel], None], waits: Future[Any] | None) -> None:
        with self._lock:
            channel = self._channel
            if channel is None and not self._ended:
                self._waiting.append((send, waits))
                return
        if channel is not None:
            send(channel)
        elif waits is not None:
            fail(waits, _ended_error())

    def _on_done(self, _: Future[Any]) -> None:
        with self._lock:
            self._open -= 1


def _ended_error() -> ChannelClosedError:
    return ChannelClosedError("The process of the executor has ended")
