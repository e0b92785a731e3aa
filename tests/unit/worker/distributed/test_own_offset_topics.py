"""Offsets topics of connectors are opened once, without blocking the shutdown, and closed in every case."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from connect.errors import IllegalStateError, UnreachableError
from tests.support.waiting import WAIT_S
from worker.distributed.services import OwnOffsetTopics

KEY = ("offsets", "broker:1")


class FakeTopic:
    """A topic whose start takes until the test lets it go on, or it is asked to close."""

    def __init__(self, *, hold: bool = False, fails: bool = False) -> None:
        self.starting, self.released = threading.Event(), threading.Event()
        self.starts = 0
        self.is_closed = False
        self._fails = fails
        self._asked_to_close = False
        if not hold:
            self.released.set()

    def start(self, timeout_s: float) -> None:
        self.starts += 1
        self.starting.set()
        assert self.released.wait(WAIT_S)
        if self._asked_to_close:
            raise IllegalStateError("the log was closed before it was read")
        if self._fails:
            raise UnreachableError("no broker")

    def ask_to_close(self) -> None:
        self._asked_to_close = True
        self.released.set()

    def close(self) -> None:
        self.is_closed = True


def opened(topics: OwnOffsetTopics, topic: FakeTopic) -> Any:
    return topics.open(KEY, lambda: cast(Any, topic))


def test_topic_is_started_once() -> None:
    topics, topic = OwnOffsetTopics(), FakeTopic()
    assert opened(topics, topic) is topic
    assert opened(topics, FakeTopic()) is topic
    assert topic.starts == 1


def test_concurrent_callers_share_one_start() -> None:
    topics, topic, other = OwnOffsetTopics(), FakeTopic(hold=True), FakeTopic()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(opened, topics, topic)
        assert topic.starting.wait(WAIT_S)
        second = pool.submit(opened, topics, other)
        topic.released.set()
        assert first.result(WAIT_S) is second.result(WAIT_S) is topic
    assert (topic.starts, other.starts) == (1, 0)


def test_topic_that_does_not_start_is_closed_and_the_next_call_tries_again() -> None:
    topics, topic, other = OwnOffsetTopics(), FakeTopic(fails=True), FakeTopic()
    with pytest.raises(UnreachableError):
        opened(topics, topic)
    assert topic.is_closed
    assert opened(topics, other) is other


def test_shutdown_does_not_wait_for_a_start() -> None:
    topics, topic = OwnOffsetTopics(), FakeTopic(hold=True)
    with ThreadPoolExecutor(2) as pool:
        starting = pool.submit(opened, topics, topic)
        assert topic.starting.wait(WAIT_S)
        pool.submit(topics.ask_to_close).result(WAIT_S)
        with pytest.raises(IllegalStateError):
            starting.result(WAIT_S)
    topics.close()
    assert topic.is_closed


def test_no_topic_is_opened_after_the_shutdown() -> None:
    topics, topic = OwnOffsetTopics(), FakeTopic()
    topics.close()
    with pytest.raises(IllegalStateError):
        opened(topics, topic)
    assert topic.starts == 0
