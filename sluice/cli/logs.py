"""``sluice logs``: the recent log lines of a connector, from all workers of its cluster."""

from __future__ import annotations

import datetime as dt
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.durations import parse_duration_s
from sluice.cli.live_names import complete_names
from sluice.cli.output import notice, output_option, print_json, wants_color
from sluice.cli.worker import connect_to, worker_options
from sluice.online.connectors import require_sluice

if TYPE_CHECKING:
    from rest.client import ConnectClient

_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
_COLORS = {"WARN": "33", "ERROR": "31", "FATAL": "31;1", "DEBUG": "2", "TRACE": "2"}
_WAIT_MS = 10_000


@click.command()
@click.argument("name", shell_complete=complete_names)
@click.option("-f", "--follow", is_flag=True, help="Continue with new lines until Ctrl-C.")
@click.option("--task", type=click.IntRange(0), help="Only lines of the task with this number.")
@click.option("--level", type=click.Choice(_LEVELS, case_sensitive=False), help="Lowest level that is shown.")
@click.option("--since", metavar="TIME", help="Only lines since a time, 2026-11-26T08:00:00Z, or for a duration, 10m.")
@click.option("-n", "--lines", default=100, show_default=True, type=click.IntRange(0, 1000), help="How many earlier lines.")
@worker_options
@output_option
def logs(
    name: str,
    follow: bool,
    task: int | None,
    level: str | None,
    since: str | None,
    lines: int,
    url: str | None,
    context_name: str | None,
    output: str,
) -> None:
    """Show the recent log lines of connector NAME from all workers of its cluster. Workers of Sluice only.

    Workers keep the last lines of their connectors in memory, a few megabytes together; the logs of the workers have all of them.
    With -o json, each line is a JSON object.
    """
    filters: dict[str, Any] = {"level": level or "", "task": task, "since_ms": 0 if since is None else since_to_ms(since)}
    with connect_to(url, context_name) as client:
        answer = _ask(client, name, limit=lines, **filters)
        _show(answer, output, newest=lines)
        told = _tell_unavailable(answer, set())
        while follow:
            answer = _ask(client, name, after=answer["next"], limit=1000, wait_ms=_WAIT_MS, **filters)
            if answer["has_gap"]:
                notice("lines are missing here: they were discarded before they could be read")
            _show(answer, output)
            told = _tell_unavailable(answer, told)


def _ask(client: ConnectClient, name: str, **query: Any) -> dict[str, Any]:
    return require_sluice(client, lambda: client.logs(name, **query), "keeps no lines of single connectors (read its log files)")


def _tell_unavailable(answer: Mapping[str, Any], told: set[str]) -> set[str]:
    for worker_id in sorted(set(answer["unavailable"]) - told):
        notice(f"worker {worker_id} does not respond; its lines are missing")
    return set(answer["unavailable"])


def _show(answer: Mapping[str, Any], output: str, newest: int | None = None) -> None:
    found = answer["lines"]
    shown = found if newest is None else found[max(0, len(found) - newest) :]
    for line in shown:
        if output == "json":
            print_json(line)
        else:
            print(format_line(line, color=wants_color(sys.stdout)), flush=True)


def format_line(line: Mapping[str, Any], *, color: bool) -> str:
    """Returns a line in the layout of a worker's log, with the worker in front of the message."""
    at = dt.datetime.fromtimestamp(line["at_ms"] / 1000)
    where = "" if line["task"] is None else f"task {line['task']}: "
    level = line["level"]
    shown = f"\x1b[{_COLORS[level]}m{level}\x1b[0m" if color and level in _COLORS else level
    stamp = f"{at:%Y-%m-%d %H:%M:%S},{line['at_ms'] % 1000:03}"
    text = f"[{stamp}] {shown} {line['worker_id']} {where}{line['message']} ({line['logger']})"
    return text if line["trace"] is None else f"{text}\n{line['trace']}"


def since_to_ms(text: str) -> int:
    """Returns a time in ms since 1970 for an ISO time (local without a zone), or a duration before now such as ``10m``."""
    if (duration_s := parse_duration_s(text)) is not None:
        return int((time.time() - duration_s) * 1000)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"'{text}' is neither a time, such as 2026-11-26T08:00:00Z, nor a duration, such as 10m", param_hint="--since"
        ) from None
    return int(moment.timestamp() * 1000)
