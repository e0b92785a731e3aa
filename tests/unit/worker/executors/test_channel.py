"""Calls, answers, and notifications over a socket, and peers that misbehave."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from connect.errors import BadRequestError, ConnectError, DataError
from tests.support.waiting import WAIT_S
from worker.executors import channel as channels
from worker.executors import wire
from worker.executors.channel import Channel, ChannelClosedError
from worker.executors.futures import failed, outcome


class Handler:
    def __init__(self) -> None:
        self.notifications: list[tuple[str, Mapping[str, Any]]] = []
        self.closed = threading.Event()
        self.reason = ""
        self.unanswered: Future[Any] = Future()

    def on_call(self, method: str, arguments: Mapping[str, Any]) -> Future[Any]:
        if method == "fail":
            return failed(BadRequestError("rejected"))
        if method == "never":
            return self.unanswered
        if method == "unserializable":
            return outcome(object)
        return outcome(lambda: [method, arguments])

    def on_notification(self, method: str, arguments: Mapping[str, Any]) -> None:
        if method == "wrong":
            raise DataError("unknown message")
        self.notifications.append((method, arguments))

    def on_closed(self, reason: str) -> None:
        self.reason = reason
        self.closed.set()


class Pair:
    def __init__(self) -> None:
        self.local, self.remote = Handler(), Handler()
        one, self.raw = socket.socketpair()
        self.channel = Channel(one, self.local, "test")
        self.channel.start()
        self.other: Channel | None = None

    def connect(self) -> Channel:
        self.other = Channel(self.raw, self.remote, "other")
        self.other.start()
        return self.channel

    def close(self) -> None:
        for one in (self.channel, self.other):
            if one is not None:
                one.close()
                one.join(WAIT_S)
        self.raw.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    created = Pair()
    yield created
    created.close()


def test_calls_are_answered_and_notifications_arrive_in_order(pair: Pair) -> None:
    channel = pair.connect()
    for number in range(100):
        channel.notify("note", number=number)
    assert channel.call("echo", a=b"\x00").result(WAIT_S) == ["echo", {"a": b"\x00"}]
    assert [arguments["number"] for _, arguments in pair.remote.notifications] == list(range(100))
    with pytest.raises(BadRequestError, match="rejected"):
        channel.call("fail").result(WAIT_S)
    with pytest.raises(ConnectError, match="cannot be sent"):
        channel.call("unserializable").result(WAIT_S)


def test_open_calls_fail_when_the_channel_closes(pair: Pair) -> None:
    channel = pair.connect()
    waiting = channel.call("never")
    assert pair.other is not None
    pair.other.close()
    with pytest.raises(ChannelClosedError):
        waiting.result(WAIT_S)
    with pytest.raises(ChannelClosedError):
        channel.call("echo").result(WAIT_S)
    channel.notify("note")
    assert pair.local.closed.wait(WAIT_S)
    assert pair.local.reason == ""


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">I", 2**31),
        struct.pack(">I", 3) + b"[1]",
        struct.pack(">I", 2) + b"{{",
        struct.pack(">I", 9) + b'{"call":1}',
    ],
)
def test_invalid_message_closes_the_channel_with_a_reason(pair: Pair, sent: bytes) -> None:
    pair.raw.sendall(sent)
    assert pair.local.closed.wait(WAIT_S)
    assert "it sent an invalid message" in pair.local.reason


def test_message_unknown_to_the_handler_closes_the_channel(pair: Pair) -> None:
    data = wire.encode({"notify": "wrong", "arguments": {}})
    pair.raw.sendall(struct.pack(">I", len(data)) + data)
    assert pair.local.closed.wait(WAIT_S)
    assert "unknown message" in pair.local.reason


def test_answer_without_a_call_is_ignored(pair: Pair) -> None:
    channel = pair.connect()
    data = wire.encode({"to": 77, "result": 1})
    assert pair.other is not None
    pair.other._send({"to": 77, "result": data})
    assert pair.other.call("echo").result(WAIT_S) == ["echo", {}]
    assert channel.call("echo").result(WAIT_S) == ["echo", {}]


def test_peer_that_does_not_read_is_dropped_and_blocks_nobody(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "MAX_QUEUED_BYTES", 1_000_000)
    for _ in range(100):
        pair.channel.notify("note", text="x" * 100_000)
        if pair.local.closed.is_set():
            break
    assert pair.local.closed.is_set()
    assert pair.local.reason == "it does not read its messages"


def test_only_messages_that_are_too_large_are_rejected(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = pair.connect()
    monkeypatch.setattr(channels, "MAX_FRAME_BYTES", 1000)
    with pytest.raises(DataError, match="too large"):
        channel.call("echo", text="x" * 2000).result(WAIT_S)
    assert channel.call("echo").result(WAIT_S) == ["echo", {}]
