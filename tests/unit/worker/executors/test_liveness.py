"""When an executor process counts as hanging, and calls that wait for a process to start."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, cast

import pytest

from worker.executors.channel import Channel, ChannelClosedError
from worker.executors.liveness import Liveness
from worker.executors.pending_calls import PendingCalls


def test_unanswered_ping_is_hanging_after_the_timeout() -> None:
    liveness = Liveness(3.0)
    liveness.on_ping(10.0)
    assert not liveness.is_answered
    assert [liveness.is_hanging(now) for now in (11.0, 12.0, 13.0, 13.1)] == [False, False, False, True]


def test_answered_ping_is_not_hanging() -> None:
    liveness = Liveness(3.0)
    liveness.on_ping(10.0)
    liveness.on_answer()
    assert liveness.is_answered
    assert not liveness.is_hanging(99.0)


def test_time_in_which_nobody_checked_does_not_count() -> None:
    liveness = Liveness(3.0)
    liveness.on_ping(10.0)
    # Frozen for 90 s: the answer may wait in the socket.
    assert not liveness.is_hanging(100.0)
    assert not liveness.is_hanging(101.0)
    assert liveness.is_hanging(102.0)


class FakeChannel:
    def __init__(self) -> None:
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def call(self, method: str, /, **arguments: Any) -> Future[Any]:
        self.sent.append((method, arguments))
        answer: Future[Any] = Future()
        answer.set_result(f"answer to {method}")
        return answer

    def notify(self, method: str, /, **arguments: Any) -> None:
        self.sent.append((method, arguments))


def test_calls_wait_for_the_channel_and_keep_their_order() -> None:
    calls, channel = PendingCalls(), FakeChannel()
    first = calls.call("a", {"x": 1})
    calls.notify("b", {})
    assert not first.done()
    assert calls.has_open_calls
    calls.connect(cast(Channel, channel))
    calls.notify("c", {})
    assert channel.sent == [("a", {"x": 1}), ("b", {}), ("c", {})]
    assert first.result(0) == "answer to a"
    assert not calls.has_open_calls


def test_calls_fail_when_the_process_ends_before_it_started() -> None:
    calls = PendingCalls()
    waiting = calls.call("a", {})
    calls.end()
    for call in (waiting, calls.call("b", {})):
        with pytest.raises(ChannelClosedError):
            call.result(0)
    calls.notify("c", {})
    assert not calls.has_open_calls
