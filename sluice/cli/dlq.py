"""``sluice dlq``: dead letters of connectors: list, show, group by cause, and replay."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from connect.errors import ConfigError
from sluice.cli.connection import DEFAULT_BOOTSTRAP, client_properties, key_values
from sluice.cli.dead_letter_text import check_lines, letter_lines, plugin_text, short_text, summary, time_text
from sluice.cli.errors import FAILED, OK
from sluice.cli.live_names import complete_names
from sluice.cli.output import forms_option, notice, output_option, print_forms, print_json
from sluice.cli.progress import progress, waiting
from sluice.cli.worker import connect_to, worker_options

if TYPE_CHECKING:
    from rest.client import ConnectClient
    from sluice.online.dead_letters import DeadLetterAccess

F = TypeVar("F", bound=Callable[..., Any])

_NAME = click.argument("name", shell_complete=complete_names)
_WAIT_S = 60.0


def _kafka_options(function: F) -> F:
    """Options for reading the queue from here instead of through the worker."""
    server = click.option(
        "--bootstrap-server",
        help="Read the queue from these Kafka brokers instead of through the worker. Needed for workers of Apache Kafka Connect; "
        "default for them: SLUICE_BOOTSTRAP_SERVERS, or localhost:9092.",
    )
    config = click.option(
        "--command-config",
        type=click.Path(path_type=Path),
        help="Properties file with client settings, for example for security.",
    )
    worker = click.option(
        "--worker", "worker_file", type=click.Path(path_type=Path), help="Worker file with the default converters."
    )
    return server(config(worker(function)))


def _selection_options(function: F) -> F:
    cause = click.option("--cause", "--group", "cause", metavar="CAUSE", help="Only this cause; see sluice dlq group.")
    partition = click.option("--partition", type=click.IntRange(0), help="Only this partition of the queue.")
    offsets = click.option("--offsets", metavar="N-M,...", help="Only these offsets of the queue.")
    return cause(partition(offsets(function)))


def _access(
    client: ConnectClient, name: str, bootstrap_server: str | None, command_config: Path | None, worker_file: Path | None
) -> DeadLetterAccess:
    from sluice.online.dead_letters import DeadLetterAccess

    def properties() -> dict[str, str]:
        server = bootstrap_server or os.environ.get("SLUICE_BOOTSTRAP_SERVERS") or DEFAULT_BOOTSTRAP
        return client_properties(server, command_config)

    return DeadLetterAccess(client, name, properties, worker_file, local=bootstrap_server is not None)


@click.group()
def dlq() -> None:
    """Show the dead letters of connectors, group them by cause, and replay them."""


@dlq.command("ls")
@worker_options
@_kafka_options
@forms_option
def list_queues(
    url: str | None,
    context_name: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    worker_file: Path | None,
    output: str,
) -> None:
    """List the connectors that have a dead letter queue, with its size."""
    from connect.errors import NotFoundError
    from sluice.online.dead_letters import connectors_with_queues

    found = []
    with connect_to(url, context_name) as client, progress("reading queues") as report:
        queues = connectors_with_queues(client)
        for done, (name, topic) in enumerate(queues.items()):
            report(done, len(queues), name)
            try:
                access = _access(client, name, bootstrap_server, command_config, worker_file)
                answer = access.letters(limit=1, selection={"with_replayed": True})
            except NotFoundError:  # the topic is created with the first task
                answer = {"records": 0, "left": 0, "newest_ms": None}
            row = {"records": answer["records"], "left": answer["left"], "newest": time_text(answer["newest_ms"])}
            found.append({"name": name, "topic": topic, **row})
    columns = ["name", "topic", "records", "left", "newest"]
    print_forms(output, found, columns, [[one[column] for column in columns] for one in found])


@dlq.command()
@_NAME
@_selection_options
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="How many of the newest ones.")
@click.option("--all", "shows_all", is_flag=True, help="Also those that were replayed.")
@click.option("--trace", is_flag=True, help="With the stack traces.")
@worker_options
@_kafka_options
@output_option
def show(
    name: str,
    cause: str | None,
    partition: int | None,
    offsets: str | None,
    limit: int,
    shows_all: bool,
    trace: bool,
    url: str | None,
    context_name: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    worker_file: Path | None,
    output: str,
) -> None:
    """Show the newest dead letters of connector NAME: where each came from, why it failed, and what is in it.

    Keys and values are decoded by the connector's converters where these can. With -o json, each dead letter is a line.
    """
    selection = {"cause": cause, "partition": partition, "offsets": offsets, "with_replayed": shows_all}
    with connect_to(url, context_name) as client:
        access = _access(client, name, bootstrap_server, command_config, worker_file)
        with waiting("reading the queue"):
            answer = access.letters(limit=limit, selection=selection, with_trace=trace)
    for letter in answer["letters"]:
        if output == "json":
            print_json(letter)
        else:
            print("\n".join(letter_lines(letter)), flush=True)
    _tell_incomplete(answer)
    if output != "json":
        notice(f"{len(answer['letters'])} shown; {answer['topic']} has {answer['records']}, of which {answer['left']} are left")


@dlq.command()
@_NAME
@click.option("--partition", type=click.IntRange(0), help="Only this partition of the queue.")
@click.option("--offsets", metavar="N-M,...", help="Only these offsets of the queue.")
@click.option("--all", "shows_all", is_flag=True, help="Also those that were replayed.")
@worker_options
@_kafka_options
@forms_option
def group(
    name: str,
    partition: int | None,
    offsets: str | None,
    shows_all: bool,
    url: str | None,
    context_name: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    worker_file: Path | None,
    output: str,
) -> None:
    """Group the dead letters of connector NAME by cause, the most frequent first, with a hint for each."""
    selection = {"partition": partition, "offsets": offsets, "with_replayed": shows_all}
    with connect_to(url, context_name) as client:
        access = _access(client, name, bootstrap_server, command_config, worker_file)
        if access.is_local:
            with progress("reading") as report:
                answer = access.causes(selection, report)
        else:  # the worker reads it, and answers at the end
            with waiting("reading the queue"):
                answer = access.causes(selection)
    causes = [{"name": one["id"], **one} for one in answer["causes"]]
    rows = [
        [one["id"], one["count"], time_text(one["first_ms"]), time_text(one["last_ms"]), one["stage"], plugin_text(one),
         one["field"], short_text(one["message"])]
        for one in causes
    ]  # fmt: skip
    print_forms(output, causes, ["cause", "count", "first", "last", "stage", "plugin", "field", "message"], rows)
    _tell_incomplete(answer)
    if output == "text":
        for one in causes:
            if one["hint"]:
                notice(f"{one['id']}: {one['hint']}")


@dlq.command()
@_NAME
@_selection_options
@click.option("--config", "config_file", type=click.Path(), help="File with an edited configuration of the connector.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", callback=key_values, help="Edit of its configuration.")
@click.option(
    "--transforms",
    "transforms_file",
    metavar="FILE",
    type=click.Path(),
    help="File with transformations (transforms=...) that change each record before it is replayed.",
)
@click.option("--dry-run", is_flag=True, help="Only check which would pass now, and show each before and after.")
@click.option("--apply", "is_applied", is_flag=True, help="Give the connector the edited configuration first.")
@click.option("--to", metavar="TOPIC", help="Write to this topic instead of the original ones.")
@click.option("--limit", type=click.IntRange(1), help="At most so many dead letters, the oldest first.")
@click.option("--no-check", is_flag=True, help="Replay without checking, also what would fail again.")
@click.option("--include-superseded", is_flag=True, help="Also those whose topic has a newer record of the same key.")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@worker_options
@_kafka_options
@output_option
def replay(
    name: str,
    cause: str | None,
    partition: int | None,
    offsets: str | None,
    config_file: str | None,
    changes: Mapping[str, str],
    transforms_file: str | None,
    dry_run: bool,
    is_applied: bool,
    to: str | None,
    limit: int | None,
    no_check: bool,
    include_superseded: bool,
    yes: bool,
    url: str | None,
    context_name: str | None,
    bootstrap_server: str | None,
    command_config: Path | None,
    worker_file: Path | None,
    output: str,
) -> int:
    """Write dead letters of connector NAME back to their topics, in the order of the queue, so that it reads them again.

    Each is first run through the connector's converters and transformations; what would fail again stays in the queue. --config
    and --set check against an edited configuration; --transforms changes the records themselves. An interrupted replay continues
    where it ended, without duplicates.
    """
    selection = {"cause": cause, "partition": partition, "offsets": offsets}
    request: dict[str, Any] = {
        "dry_run": True, "selection": selection, "to": to, "check": not no_check, "include_superseded": include_superseded,
    }  # fmt: skip
    if transforms_file is not None:
        request["transforms"] = read_transforms(transforms_file)
    with connect_to(url, context_name) as client:
        live = client.config(name)
        edits = _edits(live, config_file, changes)
        if edits and not dry_run and not is_applied:
            raise click.UsageError(
                f"Connector {name} has another configuration ({', '.join(sorted(edits))}), with which records would fail again: "
                "use --dry-run, or --apply to change it first"
            )
        access = _access(client, name, bootstrap_server, command_config, worker_file)
        if dry_run or not yes:
            with progress("checking") as report:
                checked = access.replay(request, edits, report, limit)
            if dry_run:
                _show_checks(checked, output)
                return OK
            if not _count_to_replay(checked):
                _show_checks(checked, output)
                return OK if not checked["checked"] else FAILED
            notice(summary(checked))
            where = f"topic {to}" if to else "their topics"
            click.confirm(f"Replay {_count_to_replay(checked)} dead letters into {where}?", abort=True, err=True)
        if edits:
            client.patch_config(name, edits)
            client.wait_for(name, timeout_s=_WAIT_S)
        with progress("replaying") as report:
            done = access.replay({**request, "dry_run": False}, {}, report, limit)
    if output == "json":
        print_json(done)
    else:
        print(f"{done['replayed']} of {done['checked']} dead letters were replayed", flush=True)
        notice(summary(done))
    return OK if not done["checked"] or _count_to_replay(done) else FAILED


def _edits(live: Mapping[str, str | None], config_file: str | None, changes: Mapping[str, str]) -> dict[str, str | None]:
    """Returns what differs from the connector's configuration; None removes a key."""
    edits: dict[str, str | None] = dict(changes)
    if config_file is not None:
        from connect.config.connector_file import parse_connector_file

        wanted = parse_connector_file(config_file).config
        if "connector.class" not in wanted:
            raise ConfigError(f"{config_file} is not a connector configuration: it has no connector.class; use --set for edits")
        edits = {**dict.fromkeys(live), **wanted, **edits}
    return {key: value for key, value in edits.items() if key != "name" and value != live.get(key)}


def read_transforms(path: str) -> dict[str, str]:
    """Returns the keys of a file with transformations for a replay. Raises ConfigError."""
    from connect.config.connector_file import parse_connector_file
    from connect.errors import BadRequestError
    from worker.dead_letters.requests import parse_transforms

    found = parse_connector_file(path).config
    try:
        return parse_transforms({key: value for key, value in found.items() if key != "name" and value is not None}) or {}
    except BadRequestError as e:
        raise ConfigError(f"{path}: {e.message}") from e


def _count_to_replay(answer: Mapping[str, Any]) -> int:
    return sum(answer["verdicts"].get(verdict, 0) for verdict in ("passes", "unverified", "unchecked", "dropped"))


def _show_checks(answer: Mapping[str, Any], output: str) -> None:
    if output == "json":
        print_json(answer)
        return
    for one in answer["letters"]:
        print("\n".join(check_lines(one)), flush=True)
    notice(summary(answer))


def _tell_incomplete(answer: Mapping[str, Any]) -> None:
    if not answer["complete"]:
        notice("the queue is too long to be read within one request: this is a part of it; --bootstrap-server reads all of it")
