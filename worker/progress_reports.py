"""Reports of long work, for whoever shows its progress."""

from __future__ import annotations

from collections.abc import Callable

OnProgress = Callable[[int, int | None, str], None]
"""Takes what is done, the total (None if it is unknown), and the current item."""


def ignore_progress(done: int, total: int | None, at: str) -> None:
    """Reports nothing."""
