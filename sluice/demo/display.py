"""The demo's progress output on stderr: a progress bar on a terminal, periodic lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_PLAIN_INTERVAL_S = 5.0


class Display:
    """Prints steps and their progress. ``quiet`` prints nothing."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
        self._quiet = quiet
        self._started = time.monotonic()

    def step(self, text: str) -> None:
        """Prints the start of a step."""
        self._console.print(f"[dim]{time.monotonic() - self._started:6.1f} s[/dim]  {text}")

    def note(self, text: str) -> None:
        self._console.print(f"          {text}", markup=False)

    @contextmanager
    def bar(self, text: str, total: float) -> Iterator[Bar]:
        """Shows progress during the block; ``total`` has the unit of ``update``."""
        if self._console.is_terminal and not self._quiet:
            columns = (
                TextColumn("          {task.description}"),
                BarColumn(bar_width=30),
                TaskProgressColumn(),
                TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
            )
            with Progress(*columns, console=self._console, transient=True) as progress:
                yield _RichBar(progress, progress.add_task(text, total=total, note=""))
        else:
            yield _PlainBar(self, text, total)


class Bar(Protocol):
    """Progress of a step."""

    def update(self, done: float, total: float, note: str) -> None:
        """Reports the work done so far and the total; ``note`` is shown beside it."""


class _RichBar(Bar):
    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def update(self, done: float, total: float, note: str) -> None:
        self._progress.update(self._task, completed=min(done, total), total=total, note=note)


class _PlainBar(Bar):
    def __init__(self, display: Display, text: str, total: float) -> None:
        self._display = display
        self._text = text
        self._due = time.monotonic()
        self._begun = time.monotonic()

    def update(self, done: float, total: float, note: str) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _PLAIN_INTERVAL_S
        rate = done / (now - self._begun) if now > self._begun else 0
        # No estimate at first: Spark is still warming up.
        left = f", about {max(0.0, total - done) / rate:.0f} s left" if done > total / 10 else ""
        self._display.note(f"{self._text}: {done / total if total else 1:.0%} ({note}{left})")


def is_terminal() -> bool:
    """Returns whether stderr is a terminal."""
    return sys.stderr.isatty()
