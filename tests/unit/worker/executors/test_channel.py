"""Two ends of a socket: questions, answers, and partners that misbehave."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from connect.errors import BadRequestError, ConnectError, DataError
from worker.executors import channel as channels
from worker.executors import wire
from worker.executors.channel import Channel, ChannelClosedError
from worker.executors.futures import failed, outcome


class Partner:
    def __init__(self) -> None:
        self.told: list[tuple[str, Mapping[str, Any]]] = []
        self.closed = threading.Event()
        self.reason = ""
        self.unanswered: Future[Any] = Future()

    def on_question(self, method: str, arguments: Mapping[str, Any]) -> Future[Any]:
        if method == "fail":
            return failed(BadRequestError("not so"))
        if method == "never":
            return self.unanswered
        if method == "odd":
            return outcome(object)
        return outcome(lambda: [method, arguments])

    def on_told(self, method: str, arguments: Mapping[str, Any]) -> None:
        if method == "wrong":
            raise DataError("not that")
        self.told.append((method, arguments))

    def on_closed(self, reason: str) -> None:
        self.reason = reason
        self.closed.set()


class Pair:
    def __init__(self) -> None:
        self.here, self.there = Partner(), Partner()
        one, self.raw = socket.socketpair()
        self.channel = Channel(one, self.here, "test")
        self.channel.start()
        self.other: Channel | None = None

    def connect(self) -> Channel:
        self.other = Channel(self.raw, self.there, "other")
        self.other.start()
        return self.channel

    def close(self) -> None:
        for one in (self.channel, self.other):
            if one is not None:
                one.close()
                one.join(5)
        self.raw.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def test_questions_are_answered_and_what_is_told_arrives_in_order(pair: Pair) -> None:
    channel = pair.connect()
    for number in range(100):
        channel.tell("note", number=number)
    assert channel.ask("echo", a=b"\x00").result(30) == ["echo", {"a": b"\x00"}]
    assert [arguments["number"] for _, arguments in pair.there.told] == list(range(100))
    with pytest.raises(BadRequestError, match="not so"):
        channel.ask("fail").result(30)
    with pytest.raises(ConnectError, match="cannot be told"):
        channel.ask("odd").result(30)


def test_what_waits_for_an_answer_hears_of_the_end(pair: Pair) -> None:
    channel = pair.connect()
    waiting = channel.ask("never")
    assert pair.other is not None
    pair.other.close()
    with pytest.raises(ChannelClosedError):
        waiting.result(30)
    with pytest.raises(ChannelClosedError):
        channel.ask("echo").result(30)
    channel.tell("note")
    assert pair.here.closed.wait(30)
    assert pair.here.reason == ""


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">I", 2**31),
        struct.pack(">I", 3) + b"[1]",
        struct.pack(">I", 2) + b"{{",
        struct.pack(">I", 9) + b'{"ask":1}',
    ],
)
def test_nonsense_ends_the_channel_and_says_so(pair: Pair, sent: bytes) -> None:
    pair.raw.sendall(sent)
    assert pair.here.closed.wait(30)
    assert "it sent what makes no sense" in pair.here.reason


def test_what_a_handler_does_not_know_ends_the_channel(pair: Pair) -> None:
    data = wire.encode({"tell": "wrong", "with": {}})
    pair.raw.sendall(struct.pack(">I", len(data)) + data)
    assert pair.here.closed.wait(30)
    assert "not that" in pair.here.reason


def test_an_answer_that_nobody_asked_for_is_left_out(pair: Pair) -> None:
    channel = pair.connect()
    data = wire.encode({"to": 77, "is": 1})
    assert pair.other is not None
    pair.other._send({"to": 77, "is": data})
    assert pair.other.ask("echo").result(30) == ["echo", {}]
    assert channel.ask("echo").result(30) == ["echo", {}]


def test_who_does_not_read_is_given_up_and_holds_up_nobody(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "MOST_WAITING_BYTES", 1_000_000)
    for _ in range(100):
        pair.channel.tell("note", text="x" * 100_000)
        if pair.here.closed.is_set():
            break
    assert pair.here.closed.is_set()
    assert pair.here.reason == "it does not read what it is sent"


def test_a_message_that_is_too_large_is_refused_and_others_are_not(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = pair.connect()
    monkeypatch.setattr(channels, "MOST_FRAME_BYTES", 1000)
    with pytest.raises(DataError, match="too large"):
        channel.ask("echo", text="x" * 2000).result(30)
    assert channel.ask("echo").result(30) == ["echo", {}]
