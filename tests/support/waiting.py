"""How tests wait: for a condition, with one deadline that no busy machine reaches.

A test that passes does not take longer because its deadline is late, so there is one, far away. Shorter limits belong to the
product's own settings.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

WAIT_S = 120.0
"""How long a test waits for something that takes moments on a quiet machine."""

_PAUSE_S = 0.02


class Deadline:
    """A point in time after which a test gives up: for loops that do something while they wait."""

    def __init__(self, what: str, explain: Callable[[], Any] = str, timeout_s: float = WAIT_S) -> None:
        """``what`` is awaited; ``explain`` returns what to show if it does not come."""
        self._what = what
        self._explain = explain
        self._timeout_s = timeout_s
        self._end = time.monotonic() + timeout_s

    def check(self) -> None:
        """Fails the test after the deadline."""
        assert time.monotonic() < self._end, f"waited {self._timeout_s:g} s for {self._what}\n{self._explain()}"


def eventually(
    claim: Callable[[], Any], what: str, explain: Callable[[], Any] = str, *, timeout_s: float = WAIT_S, pause_s: float = _PAUSE_S
) -> None:
    """Waits until the claim is true."""
    deadline = Deadline(what, explain, timeout_s)
    while not claim():
        deadline.check()
        time.sleep(pause_s)


def call_with_timeout(call: Callable[[], T], what: str) -> T:
    """Runs a call that a bug could block forever in a thread. Returns its result or raises its error.

    Fails after the deadline and abandons the thread.
    """
    returned: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            returned.append(call())
        except BaseException as e:
            raised.append(e)

    thread = threading.Thread(target=run, name=what, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert not thread.is_alive(), f"{what} did not return"
    if raised:
        raise raised[0]
    return returned[0]
