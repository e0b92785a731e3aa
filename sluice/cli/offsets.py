"""``sluice offsets``: what a connector has read or written, and where it continues."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sluice.cli.connection import bootstrap_options, client_properties
from sluice.cli.live_names import complete_names
from sluice.cli.output import emit, notice, output_option
from sluice.cli.worker import connect_to, worker_options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rest.client import ConnectClient
    from sluice.online.offset_changes import OffsetChange

F = TypeVar("F", bound=Callable[..., Any])

_NAME = click.argument("name", shell_complete=complete_names)
_TOPIC, _PARTITION, _OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"


def _change_options(function: F) -> F:
    """Options of commands that change offsets."""
    stop = click.option("--stop", is_flag=True, help="Stop the connector for the change, and then resume it.")
    dry_run = click.option("--dry-run", is_flag=True, help="Only show what would change.")
    return stop(dry_run(worker_options(output_option(function))))


@click.group()
def offsets() -> None:
    """Show and change the offsets of connectors; undo changes."""


@offsets.command("get")
@_NAME
@worker_options
@output_option
def get_offsets(name: str, url: str | None, context_name: str | None, output: str) -> None:
    """Show the offsets of a connector. With -o json, in the form that set takes."""
    with connect_to(url, context_name) as client:
        entries = client.offsets(name)
    rows = [[json.dumps(one["partition"]), json.dumps(one["offset"])] for one in entries]
    emit(output, entries, ["partition", "offset"], rows)


@offsets.command("set")
@_NAME
@click.argument("file", required=False)
@click.option("--to-time", metavar="TIME", help="For sinks: the first records at or after a time, such as 2026-11-26T08:00:00Z.")
@_change_options
@bootstrap_options
def set_offsets(
    name: str,
    file: str | None,
    to_time: str | None,
    stop: bool,
    dry_run: bool,
    url: str | None,
    context_name: str | None,
    output: str,
    bootstrap_server: str,
    command_config: Path | None,
) -> None:
    """Set offsets from FILE (- for standard input): JSON as from sluice offsets get NAME -o json. Other partitions stay.

    The offset null removes a partition. A sink's offsets can also be set to a time; that needs a connection to Kafka.
    """
    from sluice.online.offset_changes import as_offsets, read_entries

    if (file is None) == (to_time is None):
        raise click.UsageError("Give FILE or --to-time")
    with connect_to(url, context_name) as client:
        if to_time is None:
            assert file is not None
            wanted = as_offsets(read_entries(_read(file), file))
        else:
            wanted = _at_time(client, name, to_time, client_properties(bootstrap_server, command_config))
        _change(client, name, wanted, stop=stop, dry_run=dry_run, output=output)


def _read(path: str) -> str:
    from connect.errors import ConfigError

    try:
        with click.open_file(path) as file:
            return str(file.read())
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"{path} cannot be read: {e}") from e


def _at_time(client: ConnectClient, name: str, text: str, properties: Mapping[str, str]) -> dict[str, Any]:
    from connect.errors import ConfigError
    from sluice.online.offset_changes import as_offsets
    from worker.kafka.admin import KafkaAdmin

    partitions = [one["partition"] for one in client.offsets(name)]
    if not partitions or any(_TOPIC not in one for one in partitions):
        problem = "has no offsets yet" if not partitions else "is no sink: its offsets have no times"
        raise ConfigError(f"--to-time needs the offsets of a sink, and {name} {problem}")
    keys = [(str(one[_TOPIC]), int(one[_PARTITION])) for one in partitions]
    found = KafkaAdmin(properties).offsets_at(keys, _milliseconds(text))
    return as_offsets(
        [{"partition": {_TOPIC: topic, _PARTITION: number}, "offset": {_OFFSET: at}} for (topic, number), at in found.items()]
    )


def _milliseconds(text: str) -> int:
    import datetime as dt

    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"'{text}' is no time, such as 2026-11-26T08:00:00Z", param_hint="--to-time") from None
    # Without a zone, it is local time, as for other commands of a shell.
    return int(moment.timestamp() * 1000)


@offsets.command("reset")
@_NAME
@_change_options
def reset_offsets(name: str, stop: bool, dry_run: bool, url: str | None, context_name: str | None, output: str) -> None:
    """Remove all offsets: a source reads from the start, a sink where its consumer settings say."""
    with connect_to(url, context_name) as client:
        wanted = {json.dumps(one["partition"], sort_keys=True): None for one in client.offsets(name)}
        _change(client, name, wanted, stop=stop, dry_run=dry_run, output=output)


@offsets.command("undo")
@_NAME
@_change_options
def undo_offsets(name: str, stop: bool, dry_run: bool, url: str | None, context_name: str | None, output: str) -> None:
    """Restore the offsets before the last change that this command has made. A second undo restores those before the undo."""
    from sluice.online.offset_changes import as_offsets, read_entries, undo_file

    with connect_to(url, context_name) as client:
        path = undo_file(client, name)
        wanted = as_offsets(read_entries(path.read_text(encoding="utf-8"), str(path)))
        _change(client, name, wanted, stop=stop, dry_run=dry_run, output=output)


def _change(client: ConnectClient, name: str, wanted: Mapping[str, Any], *, stop: bool, dry_run: bool, output: str) -> None:
    from sluice.online.offset_changes import as_offsets, change_offsets, changes_between

    changes = changes_between(as_offsets(client.offsets(name)), wanted)
    undo = change_offsets(client, name, changes, stops=stop) if changes and not dry_run else None
    _show(name, changes, executed=undo is not None, output=output)
    if not changes:
        notice("the offsets are the same already; nothing was changed")
    elif undo is None:
        notice("dry run: nothing was changed")
    else:
        notice(f"sluice offsets undo {name} restores the offsets from before, which are in {undo}")


def _show(name: str, changes: Sequence[OffsetChange], *, executed: bool, output: str) -> None:
    value = {
        "name": name,
        "executed": executed,
        "changes": [{"partition": one.partition, "before": one.before, "after": one.after} for one in changes],
    }
    rows = [[json.dumps(part) if part is not None else None for part in (c.partition, c.before, c.after)] for c in changes]
    emit(output, value, ["partition", "before", "after"], rows)
