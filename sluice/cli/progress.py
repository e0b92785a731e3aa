"""Progress of long work on stderr: a bar on a terminal, plain lines at long intervals elsewhere.

stdout is left alone. With NO_COLOR there are lines, so that nothing contains escape codes.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sluice.cli.output import notice, wants_color
from worker.progress_reports import OnProgress

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

_LINE_INTERVAL_S = 10.0
_DRAW_INTERVAL_S = 0.1


@contextmanager
def progress(title: str, *, in_bytes: bool = False, clock: Callable[[], float] = time.monotonic) -> Iterator[OnProgress]:
    """Shows progress during the block. Yields a function that reports it; nothing is shown before its first call.

    Without a terminal, a line is printed at most every ten seconds, and none for work that ends before that.
    """
    if wants_color(sys.stderr):
        yield from _bar(title, in_bytes, clock)
    else:
        yield _Lines(title, in_bytes, clock).show


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Shows during the block that work without a known end continues, and for how long: a spinner on a terminal, a line elsewhere
    every ten seconds."""
    if wants_color(sys.stderr):
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        with _drawn(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as shown:
            shown.add_task(title, total=None)
            yield
        return
    ended = threading.Event()
    reporter = threading.Thread(target=_report_waiting, args=(title, ended), name="progress", daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()


def _report_waiting(title: str, ended: threading.Event, interval_s: float = _LINE_INTERVAL_S) -> None:
    started_at = time.monotonic()
    while not ended.wait(interval_s):
        notice(f"{title}: {time.monotonic() - started_at:.0f} s")


def _drawn(*columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    # Gone at the end: what is left on the terminal is the result. What is printed during the block goes above the bar, unless
    # stdout is a file or a pipe, which rich would otherwise replace with the terminal.
    console = Console(stderr=True, highlight=False)
    return Progress(*columns, console=console, transient=True, redirect_stdout=sys.stdout.isatty())


def _bar(title: str, in_bytes: bool, clock: Callable[[], float]) -> Iterator[OnProgress]:
    from rich.markup import escape
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    amount = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        amount,
        TimeElapsedColumn(),
        TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("{task.fields[at]}"),
    )
    with _drawn(*columns) as shown:
        task = shown.add_task(escape(title), total=None, at="", visible=False)
        drawn_at: float | None = None

        def show(done: int, total: int | None, at: str) -> None:
            nonlocal drawn_at
            now = clock()
            # A report for each record costs a look at the clock only.
            if drawn_at is None or now - drawn_at >= _DRAW_INTERVAL_S or done == total:
                drawn_at = now
                shown.update(task, completed=done, total=total, at=escape(at), visible=True)

        yield show


class _Lines:
    """Progress without a terminal."""

    def __init__(self, title: str, in_bytes: bool, clock: Callable[[], float]) -> None:
        self._title = title
        self._in_bytes = in_bytes
        self._clock = clock
        self._due = clock() + _LINE_INTERVAL_S

    def show(self, done: int, total: int | None, _: str) -> None:
        now = self._clock()
        if now < self._due:
            return
        self._due = now + _LINE_INTERVAL_S
        of = "" if total is None else f" of {self._amount(total)} ({done / total if total else 1:.0%})"
        notice(f"{self._title}: {self._amount(done)}{of}")

    def _amount(self, number: int) -> str:
        return f"{number / 1_000_000:,.1f} MB" if self._in_bytes else f"{number:,}"
