"""``sluice plan`` and ``sluice apply``: bring a cluster to what connector files say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.cli.errors import BAD_USAGE, FAILED, OK
from sluice.cli.output import named_option, notice, output_option, print_json, print_names, wants_color
from sluice.cli.progress import progress
from sluice.cli.worker import connect_to, worker_options

if TYPE_CHECKING:
    from sluice.online.plan import KeyChange, Plan, PlannedConnector

CHANGES = 4
"""The exit code of ``plan --exit-code`` if the cluster differs from the files."""
_MARKS = {"create": ("+", "32"), "update": ("~", "33"), "delete": ("-", "31")}
_FILES = click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path), metavar="FILE...")
_PRUNE = click.option("--prune", is_flag=True, help="Delete connectors that no file has.")


@click.command()
@_FILES
@_PRUNE
@click.option("--exit-code", is_flag=True, help=f"Exit with {CHANGES} if the cluster differs from the files.")
@worker_options
@named_option
def plan(files: tuple[Path, ...], prune: bool, exit_code: bool, url: str | None, context_name: str | None, output: str) -> int:
    """Show what apply would change: connector files (.properties, .json, .yaml), or folders with such files.

    The worker validates what would change. Secrets are hidden. With -o name, the connectors that would change are printed. Exit
    code 2 if the worker refuses a value.
    """
    from sluice.online.plan import make_plan

    with connect_to(url, context_name) as client, progress("validating") as report:
        found = make_plan(client, files, prune=prune, on_progress=report)
    _show(found, output)
    if found.has_errors:
        return BAD_USAGE
    return CHANGES if exit_code and found.has_changes else OK


@click.command()
@_FILES
@_PRUNE
@click.option("--dry-run", is_flag=True, help="Only show what would change, as plan does.")
@click.option("--wait", is_flag=True, help="Wait until connectors and tasks run; a failed one ends the wait with its error.")
@click.option("--timeout", default=60.0, show_default=True, type=click.FloatRange(min=0), help="Seconds to wait for each.")
@worker_options
@output_option
def apply(
    files: tuple[Path, ...],
    prune: bool,
    dry_run: bool,
    wait: bool,
    timeout: float,
    url: str | None,
    context_name: str | None,
    output: str,
) -> int:
    """Create and update the connectors of files, and show what has changed.

    Nothing is changed if the worker refuses a value of any of them. A state in a file (initial_state) applies to new connectors.
    """
    from sluice.online.plan import apply_plan, make_plan

    with connect_to(url, context_name) as client:
        with progress("validating") as report:
            found = make_plan(client, files, prune=prune, on_progress=report)
        is_text = output != "json"
        if is_text or dry_run or found.has_errors:
            _show(found, output)
        if found.has_errors:
            notice("nothing was changed")
            return BAD_USAGE
        if dry_run:
            return OK
        failed = []
        with progress("waiting for connectors" if wait else "applying") as report:
            for done in apply_plan(client, found, wait_s=timeout if wait else None, on_progress=report):
                if done.error is not None:
                    failed.append((done.connector.name, done.error.message))
                    notice(f"{done.connector.action} {done.connector.name}: {done.error.message}")
                elif is_text:
                    print(f"{done.connector.action}d {done.connector.name}", flush=True)
    if not is_text:
        print_json({**found.as_json(), "failed": [{"name": name, "message": message} for name, message in failed]})
    return FAILED if failed else OK


def _show(found: Plan, output: str) -> None:
    for path in found.skipped:
        notice(f"{path}: not a connector file; skipped")
    if output == "json":
        print_json(found.as_json())
    elif output == "name":
        print_names(one.name for one in found.connectors if one.action in _MARKS)
    else:
        print("\n".join(plan_lines(found, color=wants_color(sys.stdout))))


def plan_lines(found: Plan, *, color: bool) -> Iterator[str]:
    """Yields the lines that show a plan."""
    for one in found.connectors:
        if one.action in _MARKS:
            yield from _connector_lines(one, color)
    counts = [(len(found.of(action)), text) for action, text in _COUNTED if found.of(action)]
    yield ", ".join(f"{count} {text}" for count, text in counts)


_COUNTED = (("create", "to create"), ("update", "to update"), ("delete", "to delete"), ("unchanged", "unchanged"))


def _connector_lines(one: PlannedConnector, color: bool) -> Iterator[str]:
    mark, code = _MARKS[one.action]
    at = "" if one.file is None else f"  ({one.file.path})"
    yield _paint(f"{mark} {one.action} {one.name}{at}", code, color)
    for change in one.changes:
        yield _paint(f"    {_change_text(change)}", code if change.before is None or change.after is None else "", color)
    for key, message in one.errors:
        at = "" if one.file is None else f"{one.file.location(key)}: "
        yield _paint(f"    error: {at}{key}: {message}", "1;31", color)


def _change_text(change: KeyChange) -> str:
    if change.before is None:
        return f"+ {change.key} = {change.after}"
    if change.after is None:
        return f"- {change.key} = {change.before}"
    if change.before == change.after:
        return f"~ {change.key}: another value, hidden"
    return f"~ {change.key}: {change.before} -> {change.after}"


def _paint(text: str, code: str, color: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if color and code else text
