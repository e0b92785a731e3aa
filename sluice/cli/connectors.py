"""``sluice get``, ``describe``, ``pause``, ``resume``, ``stop``, ``restart``, ``delete``: the connectors of a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from connect.errors import ConnectError, UnreachableError
from sluice.cli.errors import FAILED, OK
from sluice.cli.live_names import complete_names
from sluice.cli.output import forms_option, notice, output_option, print_forms, print_json, print_table
from sluice.cli.worker import connect_to, worker_options
from sluice.online.connectors import WILDCARDS, connector_row, describe_connector, select

if TYPE_CHECKING:
    from rest.client import ConnectClient

_COLUMNS = ("name", "type", "state", "tasks", "failed", "worker", "class")


_PATTERNS = click.argument("patterns", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_names)


@click.command()
@click.argument("patterns", nargs=-1, metavar="[NAME...]", shell_complete=complete_names)
@click.option("--failed", is_flag=True, help="Only connectors with a failure.")
@worker_options
@forms_option
def get(patterns: tuple[str, ...], failed: bool, url: str | None, context_name: str | None, output: str) -> None:
    """List connectors with their states, failures first. NAME can be a pattern such as 'shop-*'."""
    with connect_to(url, context_name) as client:
        expanded = client.connectors_expanded("status", "info")
    names = select(list(expanded), patterns) if patterns else sorted(expanded)
    rows = [connector_row(name, expanded[name]) for name in names]
    rows = [row for row in rows if row["failed"] or not failed]
    rows.sort(key=lambda row: (not row["failed"], row["name"]))
    print_forms(output, rows, _COLUMNS, [[_cell(row[name]) for name in _COLUMNS] for row in rows])


def _cell(value: Any) -> Any:
    return ",".join(map(str, value)) or None if isinstance(value, list) else value


@click.command()
@_PATTERNS
@worker_options
@forms_option
def describe(patterns: tuple[str, ...], url: str | None, context_name: str | None, output: str) -> None:
    """Show state, tasks, errors, configuration, topics, and offsets of connectors. Secrets are hidden."""
    with connect_to(url, context_name) as client:
        names = select(client.connectors(), patterns)
        found = [describe_connector(client, name) for name in names]
    if output != "text":
        print_forms(output, found, (), ())
        return
    for at, one in enumerate(found):
        if at:
            print()
        _print_description(one)


def _print_description(one: Mapping[str, Any]) -> None:
    connector = one["connector"]
    print(f"{one['name']}: {one['type'] or 'connector'}, {connector['state']} on {connector['worker_id']}")
    if trace := connector.get("trace"):
        print(_indented(trace))
    if one["tasks"]:
        print_table(["task", "state", "worker"], [[task["id"], task["state"], task["worker_id"]] for task in one["tasks"]])
    for task in one["tasks"]:
        if trace := task.get("trace"):
            print(f"error of task {task['id']}:\n{_indented(trace)}")
    print("config:")
    for key, value in one["config"].items():
        print(f"    {key} = {value}")
    if one["topics"]:
        print(f"topics: {', '.join(sorted(one['topics']))}")
    for entry in one["offsets"] or ():
        print(f"offset: {json.dumps(entry['partition'])} at {json.dumps(entry['offset'])}")


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines())


def _each(
    patterns: Sequence[str], url: str | None, context_name: str | None, output: str, done: str, change: Callable[..., Any]
) -> int:
    """Changes each connector; an error does not stop the others, and a worker that stops answering hides no result. ``change``
    returns what it did, if that is not ``done``."""
    results: list[dict[str, Any]] = []
    unreachable: UnreachableError | None = None
    with connect_to(url, context_name) as client:
        for name in select(client.connectors(), patterns):
            try:
                found = change(client, name)
            except UnreachableError as e:  # no other will succeed either
                unreachable = e
                break
            except ConnectError as e:
                notice(f"{name}: {e.message}")
                results.append({"name": name, "result": None, "error": e.message})
            else:
                result = found if isinstance(found, str) else done
                results.append({"name": name, "result": result, "error": None})
                if output == "text":
                    print(f"{name} {result}", flush=True)
    if output == "json" and (results or unreachable is None):
        print_json(results)
    if unreachable is not None:
        raise unreachable
    return FAILED if any(one["error"] for one in results) else OK


@click.command()
@_PATTERNS
@worker_options
@output_option
def pause(patterns: tuple[str, ...], url: str | None, context_name: str | None, output: str) -> int:
    """Pause connectors: their tasks keep what they have assigned, and wait."""
    return _each(patterns, url, context_name, output, "will pause", lambda client, name: client.pause(name))


@click.command()
@_PATTERNS
@worker_options
@output_option
def resume(patterns: tuple[str, ...], url: str | None, context_name: str | None, output: str) -> int:
    """Resume connectors that are paused or stopped."""
    return _each(patterns, url, context_name, output, "will resume", lambda client, name: client.resume(name))


@click.command()
@_PATTERNS
@worker_options
@output_option
def stop(patterns: tuple[str, ...], url: str | None, context_name: str | None, output: str) -> int:
    """Stop connectors: their tasks end, and their offsets can be changed."""
    return _each(patterns, url, context_name, output, "will stop", lambda client, name: client.stop(name))


@click.command()
@_PATTERNS
@click.option("--failed", is_flag=True, help="Only what has failed: the connector itself, and failed tasks.")
@click.option("--task", type=int, help="Only the task with this number.")
@worker_options
@output_option
def restart(
    patterns: tuple[str, ...], failed: bool, task: int | None, url: str | None, context_name: str | None, output: str
) -> int:
    """Restart connectors and all their tasks."""
    if failed and task is not None:
        raise click.UsageError("Give --failed or --task, not both")

    def change(client: ConnectClient, name: str) -> str | None:
        if task is not None:
            client.restart_task(name, task)
            return None
        plan = client.restart(name, include_tasks=True, only_failed=failed)
        return "has no failure, so nothing restarts" if failed and plan is not None and not _restarts(plan) else None

    return _each(patterns, url, context_name, output, "will restart", change)


def _restarts(plan: Mapping[str, Any]) -> bool:
    return "RESTARTING" in {one.get("state") for one in (plan.get("connector") or {}, *(plan.get("tasks") or ()))}


@click.command()
@_PATTERNS
@click.option("--yes", is_flag=True, help="Do not ask before deleting what a pattern matches.")
@worker_options
@output_option
def delete(patterns: tuple[str, ...], yes: bool, url: str | None, context_name: str | None, output: str) -> int:
    """Delete connectors. Their offsets remain: a connector with the same name continues there."""
    if not yes and any(WILDCARDS & set(pattern) for pattern in patterns):
        with connect_to(url, context_name) as client:
            names = select(client.connectors(), patterns)
        click.confirm(f"Delete {', '.join(names)}?", abort=True, err=True)
        patterns = tuple(names)
    return _each(patterns, url, context_name, output, "was deleted", lambda client, name: client.delete(name))
