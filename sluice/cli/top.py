"""``sluice top``: what the connectors of a cluster are doing, live."""

from __future__ import annotations

import itertools
import shutil
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import click

from sluice.cli.live_names import complete_names
from sluice.cli.output import output_option, print_json, print_table, wants_color
from sluice.cli.worker import connect_to, worker_options
from sluice.online.connectors import matching

if TYPE_CHECKING:
    from rich.text import Text

    from sluice.online.rates import ConnectorRates

_COLUMNS = ("name", "type", "state", "tasks", "failed", "records/s", "bytes/s", "lag")
_FRAME_LINES = 3
"""Of the screen: head, header, and keys."""
_NUMBERS_FROM = 5
_SEPARATOR = "  "
_MIN_NAME = 8
_MAX_FAILED = 10
_KEYS = "q quit  f failures only  arrows, space, b, g scroll"


@click.command()
@click.argument("patterns", nargs=-1, metavar="[NAME...]", shell_complete=complete_names)
@click.option("--interval", default=2.0, show_default=True, type=click.FloatRange(0.1), help="Seconds between two looks.")
@click.option("--count", type=click.IntRange(1), help="End after so many looks. Default: 2 without a terminal, else no end.")
@worker_options
@output_option
def top(
    patterns: tuple[str, ...], interval: float, count: int | None, url: str | None, context_name: str | None, output: str
) -> None:
    """Show states, records and bytes per second, and lag of connectors, failures first, until q or Ctrl-C.

    The figures come from workers of Sluice; those of Apache Kafka Connect tell states only. With -o json, each look is a line.
    Without a terminal, the table of the last look is printed.
    """
    from sluice.online.rates import RateReader

    is_live = output == "text" and wants_color(sys.stdout)
    looks = itertools.count() if count is None and output == "json" else range(count or 2)
    pause = threading.Event()
    with connect_to(url, context_name) as client, RateReader(client) as reader:

        def choose(names: Collection[str]) -> set[str]:
            return {name for one in patterns for name in matching(names, one)} if patterns else set(names)

        if is_live:
            _show_live(count, interval, lambda first, limit: reader.read(choose, limit, first), client.url)
            return
        for number in looks:
            if number:
                pause.wait(interval)
            found = reader.read(choose)
            if output == "json":
                print_json([asdict(one) for one in found])
        if output != "json":
            print_table(_COLUMNS, [_cells(one) for one in found])


@dataclass(slots=True)
class TopView:
    """What is on the screen, and where in the list it begins. Pure: keys and figures come from outside."""

    url: str
    lines: int = 1
    """Rows that fit."""
    first: int = 0
    only_failures: bool = False
    found: Sequence[ConnectorRates] = ()
    problem: str | None = None
    """Why the figures are old."""

    @property
    def shown(self) -> Sequence[ConnectorRates]:
        return [one for one in self.found if one.failed] if self.only_failures else self.found

    def press(self, key: str) -> bool:
        """Applies a key. Returns False for the one that ends the command."""
        moves = {"up": -1, "down": 1, "page up": -self.lines, "page down": self.lines, "start": -self.first}
        if key == "f":
            self.only_failures, self.first = not self.only_failures, 0
        self._move(self.first + moves.get(key, 0))
        return key != "q"

    def refresh(self, read: Callable[[int, int], list[ConnectorRates]], lines: int) -> None:
        """Reads again. ``read`` takes the first row on the screen, and how many fit; failures come first, so that their places in
        the list are those among all connectors."""
        self.update(read(self.first, lines), lines)

    def update(self, found: Sequence[ConnectorRates], lines: int) -> None:
        self.found, self.lines, self.problem = found, lines, None
        self._move(self.first)

    def _move(self, first: int) -> None:
        self.first = max(0, min(first, len(self.shown) - self.lines))

    def frame(self, width: int) -> Text:
        """Returns what is drawn: each row has one line, however narrow the terminal is."""
        from rich.text import Text

        failed = sum(bool(one.failed) for one in self.found)
        below = len(self.shown) - self.first - self.lines
        parts = [f"{len(self.found)} connectors", f"{failed} with failures"]
        parts += [f"{self.first} above"] if self.first else []
        parts += [f"{below} below"] if below > 0 else []
        head = (f"{', '.join(parts)}  {self.url}", "") if self.problem is None else (self.problem, "bold red")
        header, *rows = _fitted(
            [_COLUMNS, *(_short_cells(one) for one in self.shown[self.first : self.first + self.lines])], width
        )
        lines = [head, (header, "bold")]
        for row, one in zip(rows, self.shown[self.first :], strict=False):
            lines.append((row, "red" if one.failed else "dim" if one.state in ("PAUSED", "STOPPED") else ""))
        lines.append((_KEYS, "dim"))
        return Text("\n").join(Text(_cut(line, width), style) for line, style in lines)


def _fitted(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Returns the rows as lines that fit: names are cut, and before much of them is, the type is left out."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(_COLUMNS))]
    chosen = list(range(len(_COLUMNS)))
    if sum(widths) + len(_SEPARATOR) * (len(chosen) - 1) > width:
        chosen.remove(_COLUMNS.index("type"))
    others = sum(widths[at] for at in chosen[1:]) + len(_SEPARATOR) * (len(chosen) - 1)
    widths[0] = min(widths[0], max(_MIN_NAME, width - others))

    def cell(row: Sequence[str], at: int) -> str:
        text = _cut(row[at], widths[at])
        return text.rjust(widths[at]) if at >= _NUMBERS_FROM else text.ljust(widths[at])

    return [_SEPARATOR.join(cell(row, at) for at in chosen) for row in rows]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


def _short_cells(one: ConnectorRates) -> list[str]:
    failed = ",".join(one.failed)
    if len(failed) > _MAX_FAILED:
        failed = f"{len(one.failed)} tasks"
    figures = (_short_number(figure) for figure in (one.records_per_s, one.bytes_per_s, one.lag))
    return [one.name, one.type or "-", one.state, f"{one.running}/{one.tasks}", failed or "-", *figures]


def _short_number(number: float | None) -> str:
    """Returns a number with at most six characters, such as ``12.3M``."""
    if number is None:
        return "-"
    for unit in ("", "k", "M", "G"):
        if round(number, 1) < 1000:
            return f"{number:.1f}{unit}" if unit else f"{number:.0f}"
        number /= 1000
    return f"{number:.1f}T"


def _show_live(
    number_of_looks: int | None, interval_s: float, read: Callable[[int, int], list[ConnectorRates]], url: str
) -> None:
    """Draws until the last look, q, or Ctrl-C. A worker that stops answering is asked again, and the screen says so."""
    from rich.console import Console
    from rich.live import Live

    from connect.errors import UnreachableError
    from sluice.cli.keys import Keys

    view = TopView(url)
    looks = 0
    # Before the screen is switched, so that a worker that never answered is an error as in other commands.
    view.refresh(read, _room())
    with Keys() as keys, Live(view.frame(_columns()), console=Console(), screen=True, auto_refresh=False) as live:
        while True:
            live.update(view.frame(_columns()), refresh=True)
            looks += 1
            if looks == number_of_looks:
                return
            due = time.monotonic() + interval_s
            while (left_s := due - time.monotonic()) > 0:
                if (key := keys.wait(left_s)) is not None:
                    if not view.press(key):
                        return
                    live.update(view.frame(_columns()), refresh=True)
            try:
                view.refresh(read, _room())
            except UnreachableError as e:
                view.problem = f"{e.message}; asking again"


def _columns() -> int:
    return shutil.get_terminal_size().columns


def _room() -> int:
    return max(1, shutil.get_terminal_size().lines - _FRAME_LINES)


def _cells(one: ConnectorRates) -> list[object]:
    figures = (None if figure is None else f"{figure:,.0f}" for figure in (one.records_per_s, one.bytes_per_s, one.lag))
    return [one.name, one.type, one.state, f"{one.running}/{one.tasks}", ",".join(one.failed) or None, *figures]
