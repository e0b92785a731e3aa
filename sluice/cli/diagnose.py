"""``sluice diagnose``: what is wrong with connectors, since when, why, and which command fixes it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from sluice.cli.errors import FAILED, OK
from sluice.cli.live_names import complete_names
from sluice.cli.output import named_option, notice, print_json, print_names, wants_color
from sluice.cli.worker import connect_to, worker_options
from sluice.online.connectors import select

if TYPE_CHECKING:
    from sluice.online.diagnosis import Diagnosis
    from worker.observability.diagnosis.problem import Problem

_COLORS = {"error": "1;31", "warning": "33", "note": "36"}


@click.command()
@click.argument("patterns", nargs=-1, metavar="[NAME...]", shell_complete=complete_names)
@worker_options
@named_option
def diagnose(patterns: tuple[str, ...], url: str | None, context_name: str | None, output: str) -> int:
    """Say what is wrong with connectors, since when, why, and which command fixes it; failures first.

    NAME can be a pattern such as 'shop-*'. Works with workers of Apache Kafka Connect too, and says what their REST API does not
    tell. Exit code 1 if there are problems; notes are none.
    """
    from sluice.online.diagnosis import read_diagnosis

    with connect_to(url, context_name) as client:
        names = select(client.connectors(), patterns) if patterns else None
        found = read_diagnosis(client, names[0] if names is not None and len(names) == 1 else None)
    if names is not None:
        found = found.of(names)
    _show(found, output)
    return FAILED if found.has_problems else OK


def _show(found: Diagnosis, output: str) -> None:
    if output == "json":
        print_json(found.as_json())
    elif output == "name":
        print_names(one.connector for one in found.problems if one.is_problem and one.connector)
    else:
        for line in diagnosis_lines(found, color=wants_color(sys.stdout)):
            print(line, flush=True)
    if output != "json":
        for one in found.unseen:
            notice(f"not looked at: {one}")


def diagnosis_lines(found: Diagnosis, *, color: bool) -> Iterator[str]:
    """Yields the lines that show a diagnosis: a paragraph for each problem, and a summary."""
    for one in found.problems:
        yield from _lines(one, color)
        yield ""
    counts = [(sum(one.finding.severity.value == kind for one in found.problems), kind) for kind in _COLORS]
    yield ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for count, kind in counts if count) or "nothing is wrong"


def _lines(one: Problem, color: bool) -> Iterator[str]:
    from worker.observability.stalls import instant

    severity = one.finding.severity.value
    label = f"\x1b[{_COLORS[severity]}m{severity}\x1b[0m" if color else severity
    yield f"{one.name}: {label}: {one.finding.message} [{one.finding.code}]"
    members = (
        ("since", None if one.since_ms is None else instant(one.since_ms)),
        ("cause", one.cause),
        ("fix", one.finding.suggestion),
        ("command", one.command),
    )
    for label, text in members:
        if text:
            yield f"    {label}: {text}"
