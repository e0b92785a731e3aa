"""``sluice top``: what the connectors of a cluster are doing, live."""

from __future__ import annotations

import itertools
import shutil
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from sluice.cli.live_names import complete_names
from sluice.cli.output import output_option, print_json, print_table, wants_color
from sluice.cli.worker import connect_to, worker_options
from sluice.online.connectors import matching

if TYPE_CHECKING:
    from rich.console import Group

    from sluice.online.rates import ConnectorRates

_COLUMNS = ("name", "type", "state", "tasks", "failed", "records/s", "bytes/s", "lag")
_FRAME_LINES = 4
_NUMBERS_FROM = 5


@click.command()
@click.argument("patterns", nargs=-1, metavar="[NAME...]", shell_complete=complete_names)
@click.option("--interval", default=2.0, show_default=True, type=click.FloatRange(0.1), help="Seconds between two looks.")
@click.option("--count", type=click.IntRange(1), help="End after so many looks. Default: 2 without a terminal, else no end.")
@worker_options
@output_option
def top(
    patterns: tuple[str, ...], interval: float, count: int | None, url: str | None, context_name: str | None, output: str
) -> None:
    """Show states, records and bytes per second, and lag of connectors, failures first, until Ctrl-C.

    The figures come from workers of Sluice; those of Apache Kafka Connect tell states only. With -o json, each look is a line.
    Without a terminal, the table of the last look is printed.
    """
    from sluice.online.rates import RateReader

    is_live = output == "text" and wants_color(sys.stdout)
    looks = itertools.count() if count is None and (is_live or output == "json") else range(count or 2)
    pause = threading.Event()
    with connect_to(url, context_name) as client, RateReader(client) as reader:

        def choose(names: Collection[str]) -> set[str]:
            return {name for one in patterns for name in matching(names, one)} if patterns else set(names)

        def read(number: int, limit: int | None = None) -> list[ConnectorRates]:
            if number:
                pause.wait(interval)
            return reader.read(choose, limit)

        if is_live:
            _show_live(looks, read, client.url)
            return
        for number in looks:
            found = read(number)
            if output == "json":
                print_json([asdict(one) for one in found])
        if output != "json":
            print_table(_COLUMNS, [_cells(one) for one in found])


def _show_live(looks: Sequence[int] | itertools.count[int], read: Callable[..., list[ConnectorRates]], url: str) -> None:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(), screen=True, auto_refresh=False) as live:
        for number in looks:
            lines = max(1, shutil.get_terminal_size().lines - _FRAME_LINES)
            live.update(_frame(read(number, lines), lines, url), refresh=True)


def _frame(found: Sequence[ConnectorRates], lines: int, url: str) -> Group:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for at, column in enumerate(_COLUMNS):
        table.add_column(column, justify="right" if at >= _NUMBERS_FROM else "left", overflow="fold")
    for one in found[:lines]:
        style = "red" if one.failed else "dim" if one.state in ("PAUSED", "STOPPED") else ""
        table.add_row(*("" if cell is None else str(cell) for cell in _cells(one)), style=style)
    failed = sum(bool(one.failed) for one in found)
    hidden = f", {len(found) - lines} below" if len(found) > lines else ""
    return Group(Text(f"{url}: {len(found)} connectors, {failed} with failures{hidden}"), table)


def _cells(one: ConnectorRates) -> list[object]:
    figures = (None if figure is None else f"{figure:,.0f}" for figure in (one.records_per_s, one.bytes_per_s, one.lag))
    return [one.name, one.type, one.state, f"{one.running}/{one.tasks}", ",".join(one.failed) or None, *figures]
