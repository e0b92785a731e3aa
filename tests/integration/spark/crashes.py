"""Crashes of the process, simulated by an exception that no code of the product catches."""

from __future__ import annotations

import pytest

from connect import crash_points


class Crash(BaseException):
    """Stands for SIGKILL."""


def crash_at(monkeypatch: pytest.MonkeyPatch, name: str, hits: int) -> None:
    """Raises Crash when a crash point is reached for the ``hits``-th time."""
    left = [hits]

    def point(reached: str) -> None:
        if reached == name:
            left[0] -= 1
            if left[0] == 0:
                raise Crash

    monkeypatch.setattr(crash_points, "point", point)
