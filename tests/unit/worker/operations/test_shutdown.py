"""Components of a worker close in bounded time."""

from __future__ import annotations

import threading

import pytest

from connect.errors import UnreachableError
from worker.operations.shutdown import close_all


def test_components_close_in_parallel_and_one_that_hangs_is_named_and_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    hold, closed = threading.Event(), threading.Event()
    try:
        assert close_all({"the tap": hold.wait, "the sink": closed.set}, 0.2) == ["the tap"]
    finally:
        hold.set()
    assert closed.is_set()
    assert [record.getMessage() for record in caplog.records] == [
        "The worker shuts down without closing the tap, which did not close within 0.2 s"
    ]


def test_failure_of_one_component_is_logged_and_others_still_close(caplog: pytest.LogCaptureFixture) -> None:
    def unreachable() -> None:
        raise UnreachableError("no broker answers")

    def broken() -> None:
        raise ValueError("unheard of")

    closed = threading.Event()
    assert close_all({"the tap": unreachable, "the drain": broken, "the sink": closed.set}, 20) == []
    assert closed.is_set()
    assert [record.getMessage() for record in caplog.records] == ["no broker answers", "Closing the drain failed"]
