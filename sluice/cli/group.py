"""``sluice group``: consumer groups, their lag, and resetting their offsets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.cli.connection import bootstrap_options, client_properties
from sluice.cli.live_names import complete_groups
from sluice.cli.output import as_dict, emit, forms_option, notice, output_option, print_forms, print_json, print_table

if TYPE_CHECKING:
    from worker.kafka.admin import KafkaAdmin


def _admin(bootstrap_server: str, command_config: Path | None) -> KafkaAdmin:
    from worker.kafka.admin import KafkaAdmin

    return KafkaAdmin(client_properties(bootstrap_server, command_config))


@click.group()
def group() -> None:
    """List and describe consumer groups; move their offsets."""


@group.command("ls")
@bootstrap_options
@forms_option
def list_groups(bootstrap_server: str, command_config: Path | None, output: str) -> None:
    """List consumer groups and their states."""
    rows = _admin(bootstrap_server, command_config).group_names()
    value = [{"group": name, "state": state} for name, state in rows]
    print_forms(output, value, ["group", "state"], rows, name="group")


@group.command()
@click.argument("name", shell_complete=complete_groups)
@bootstrap_options
@output_option
def describe(name: str, bootstrap_server: str, command_config: Path | None, output: str) -> None:
    """Show state, committed offsets and lag of group NAME."""
    found = _admin(bootstrap_server, command_config).describe_group(name)
    if output == "json":
        print_json({**as_dict(found), "lag": sum(one.lag or 0 for one in found.partitions)})
        return
    members = "1 member" if found.members == 1 else f"{found.members} members"
    notice(f"group '{name}' is {found.state}, {members}, lag {sum(one.lag or 0 for one in found.partitions)}")
    print_table(
        ["topic", "partition", "committed", "latest", "lag", "consumer"],
        [[one.topic, one.partition, one.committed, one.latest, one.lag, one.consumer_id] for one in found.partitions],
    )


@group.command()
@click.argument("name", shell_complete=complete_groups)
@click.option(
    "--topic", "topics", multiple=True, required=True, metavar="TOPIC[:P[,P...]]", help="Partitions to move; repeatable."
)
@click.option("--to-earliest", is_flag=True, help="To the first available record.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option("--to-offset", type=click.IntRange(0), help="To this offset.")
@click.option("--by", type=int, help="By this number of records; negative moves back.")
@click.option("--dry-run/--execute", "dry_run", default=True, help="Show what would change (default), or change it.")
@bootstrap_options
@output_option
def reset(
    name: str,
    topics: tuple[str, ...],
    to_earliest: bool,
    to_latest: bool,
    to_offset: int | None,
    by: int | None,
    dry_run: bool,
    bootstrap_server: str,
    command_config: Path | None,
    output: str,
) -> None:
    """Move the offsets of group NAME, which must have no members. Offsets are limited to the range of the partition."""
    if sum((to_earliest, to_latest, to_offset is not None, by is not None)) != 1:
        raise click.UsageError("use exactly one of --to-earliest, --to-latest, --to-offset and --by")
    admin = _admin(bootstrap_server, command_config)
    keys = [key for word in topics for key in _partitions(admin, word)]
    before = admin.committed(name)
    if by is not None and (without := [key for key in keys if key not in before]):
        topic, partition = without[0]
        raise click.UsageError(f"--by needs a committed offset, and group '{name}' has none for {topic}:{partition}")
    goal = plan_offsets(admin.offsets(keys), before, earliest=to_earliest, to_offset=to_offset, by=by)
    if not dry_run:
        admin.set_group_offsets(name, goal)
    rows = [[topic, number, before.get((topic, number)), offset] for (topic, number), offset in goal.items()]
    columns = ["topic", "partition", "before", "after"]
    value = {"group": name, "executed": not dry_run, "offsets": [dict(zip(columns, row, strict=True)) for row in rows]}
    emit(output, value, columns, rows)
    if dry_run:
        notice("dry run: nothing was changed; use --execute to apply")


def plan_offsets(
    ends: Mapping[tuple[str, int], tuple[int, int]],
    before: Mapping[tuple[str, int], int],
    *,
    earliest: bool,
    to_offset: int | None,
    by: int | None,
) -> dict[tuple[str, int], int]:
    """Returns the new offset of each partition, within its (first, next) ``ends``; by default the end."""
    goal: dict[tuple[str, int], int] = {}
    for key, (first, following) in ends.items():
        if earliest:
            wanted = first
        elif to_offset is not None:
            wanted = to_offset
        elif by is not None:
            wanted = before[key] + by
        else:
            wanted = following
        goal[key] = min(max(wanted, first), following)
    return goal


def _partitions(admin: KafkaAdmin, word: str) -> list[tuple[str, int]]:
    topic, colon, numbers = word.partition(":")
    known = admin.partition_numbers(topic)
    if not colon:
        return [(topic, number) for number in known]
    try:
        wanted = [int(number) for number in numbers.split(",")]
    except ValueError:
        raise click.UsageError(f"'{word}' is not TOPIC or TOPIC:PARTITION[,PARTITION...]") from None
    if unknown := [number for number in wanted if number not in known]:
        raise click.UsageError(f"topic '{topic}' has no partition {unknown[0]}; it has {len(known)}")
    return [(topic, number) for number in wanted]
