"""The end of a worker's parts."""

from __future__ import annotations

import threading

import pytest

from connect.errors import UnreachableError
from worker.operations.shutdown import close_all


def test_parts_are_closed_side_by_side_and_one_that_hangs_is_named_and_left(caplog: pytest.LogCaptureFixture) -> None:
    hold, closed = threading.Event(), threading.Event()
    try:
        assert close_all({"the tap": hold.wait, "the sink": closed.set}, 0.2) == ["the tap"]
    finally:
        hold.set()
    assert closed.is_set()
    assert [record.getMessage() for record in caplog.records] == [
        "The worker ends without the tap, which is not closed after 0.2 s"
    ]


def test_a_part_that_fails_is_told_of_and_keeps_no_other(caplog: pytest.LogCaptureFixture) -> None:
    def unreachable() -> None:
        raise UnreachableError("no broker answers")

    def broken() -> None:
        raise ValueError("unheard of")

    closed = threading.Event()
    assert close_all({"the tap": unreachable, "the drain": broken, "the sink": closed.set}, 20) == []
    assert closed.is_set()
    assert [record.getMessage() for record in caplog.records] == ["no broker answers", "Closing the drain failed"]
