"""Runs calls that a bug could block forever. The limit is generous: a busy machine may be slow."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT_S = 30.0


def call_with_timeout(call: Callable[[], T], what: str) -> T:
    """Runs the call in a thread and returns its result or raises its error. Fails after 30 s and abandons the thread."""
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
    assert not thread.is_alive(), f"{what} did not return"
    if raised:
        raise raised[0]
    return returned[0]
