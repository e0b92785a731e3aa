"""Calls that must come back, where a fault would have them wait for ever. No stopwatch: a busy machine may take its time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT_S = 30.0


def within_limits(call: Callable[[], T], what: str) -> T:
    """What the call returns, or raises. Fails when it has done neither in half a minute; its thread is left to itself then."""
    returned: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(call())
        except BaseException as e:
            raised.append(e)

    thread = threading.Thread(target=run, name=what, daemon=True)
    thread.start()
    thread.join(LIMIT_S)
    assert not thread.is_alive(), f"{what} does not come back"
    if raised:
        raise raised[0]
    return returned[0]
