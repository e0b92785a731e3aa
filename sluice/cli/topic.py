"""``sluice topic``: topics and their records."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.cli.connection import bootstrap_options, client_properties, key_values
from sluice.cli.live_names import complete_topics
from sluice.cli.output import (
    as_dict,
    emit,
    format_document,
    forms_option,
    lines_option,
    notice,
    output_option,
    print_forms,
    print_json,
    print_table,
)
from sluice.cli.progress import progress
from worker.progress_reports import OnProgress, ignore_progress

if TYPE_CHECKING:
    from worker.kafka.admin import KafkaAdmin


def _admin(bootstrap_server: str, command_config: Path | None) -> KafkaAdmin:
    from worker.kafka.admin import KafkaAdmin

    return KafkaAdmin(client_properties(bootstrap_server, command_config))


@click.group()
def topic() -> None:
    """List, create, describe, alter and delete topics; read and write their records."""


@topic.command("ls")
@click.option("--internal", is_flag=True, help="Include topics whose names start with two underscores.")
@bootstrap_options
@forms_option
def list_topics(internal: bool, bootstrap_server: str, command_config: Path | None, output: str) -> None:
    """List topics by name."""
    names = _admin(bootstrap_server, command_config).topic_names()
    names = [name for name in names if internal or not name.startswith("__")]
    if output == "json":
        print_json(names)
        return
    print_forms("yaml" if output == "yaml" else "name", [{"name": name} for name in names], (), ())


@topic.command()
@click.argument("name")
@click.option("--partitions", type=click.IntRange(1), default=1, show_default=True)
@click.option("--replication-factor", type=click.IntRange(1), default=1, show_default=True)
@click.option("--config", "configs", multiple=True, callback=key_values, metavar="KEY=VALUE", help="Topic config; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="Not an error if the topic exists.")
@bootstrap_options
@output_option
def create(
    name: str,
    partitions: int,
    replication_factor: int,
    configs: dict[str, str],
    if_not_exists: bool,
    bootstrap_server: str,
    command_config: Path | None,
    output: str,
) -> None:
    """Create topic NAME."""
    from connect.errors import AlreadyExistsError

    created = True
    try:
        _admin(bootstrap_server, command_config).create_topic(name, partitions, replication_factor, configs)
    except AlreadyExistsError:
        if not if_not_exists:
            raise
        created = False
    _done(output, {"topic": name, "created": created}, f"topic '{name}' {'created' if created else 'already exists'}")


@topic.command()
@click.argument("name", shell_complete=complete_topics)
@bootstrap_options
@output_option
def describe(name: str, bootstrap_server: str, command_config: Path | None, output: str) -> None:
    """Show partitions, replicas, offsets and changed configs of topic NAME."""
    found = _admin(bootstrap_server, command_config).describe_topic(name)
    if output == "json":
        print_json(as_dict(found))
        return
    for key, value in found.configs.items():
        notice(f"{key}={value}")
    print_table(
        ["partition", "leader", "replicas", "in sync", "earliest", "latest", "records"],
        [
            [
                one.partition,
                one.leader,
                _ids(one.replicas),
                _ids(one.in_sync),
                one.earliest,
                one.latest,
                one.latest - one.earliest,
            ]
            for one in found.partitions
        ],
    )


@topic.command()
@click.argument("name", shell_complete=complete_topics)
@click.option("--config", "configs", multiple=True, callback=key_values, metavar="KEY=VALUE", help="Set a config; repeatable.")
@click.option("--delete-config", "deleted", multiple=True, metavar="KEY", help="Reset to the broker's default; repeatable.")
@click.option("--partitions", type=click.IntRange(1), help="Increase to this number of partitions.")
@bootstrap_options
@output_option
def alter(
    name: str,
    configs: dict[str, str],
    deleted: tuple[str, ...],
    partitions: int | None,
    bootstrap_server: str,
    command_config: Path | None,
    output: str,
) -> None:
    """Change configs of topic NAME, or add partitions."""
    changes: dict[str, str | None] = {**configs, **dict.fromkeys(deleted)}
    if not changes and partitions is None:
        raise click.UsageError("nothing to alter: use --config, --delete-config, or --partitions")
    admin = _admin(bootstrap_server, command_config)
    if partitions is not None:
        admin.add_partitions(name, partitions)
    if changes:
        admin.alter_configs(name, changes)
    _done(output, {"topic": name, "altered": True}, f"topic '{name}' altered")


@topic.command()
@click.argument("name", shell_complete=complete_topics)
@bootstrap_options
@output_option
def delete(name: str, bootstrap_server: str, command_config: Path | None, output: str) -> None:
    """Delete topic NAME and all its records."""
    _admin(bootstrap_server, command_config).delete_topic(name)
    _done(output, {"topic": name, "deleted": True}, f"topic '{name}' deleted")


@topic.command()
@click.argument("name", shell_complete=complete_topics)
@bootstrap_options
@output_option
def offsets(name: str, bootstrap_server: str, command_config: Path | None, output: str) -> None:
    """Show the first and the next offset of each partition of topic NAME."""
    found = _admin(bootstrap_server, command_config).describe_topic(name).partitions
    rows = [[name, one.partition, one.earliest, one.latest] for one in found]
    columns = ["topic", "partition", "earliest", "latest"]
    emit(output, [dict(zip(columns, row, strict=True)) for row in rows], columns, rows)


@topic.command()
@click.argument("name", shell_complete=complete_topics)
@click.option("--from-beginning", is_flag=True, help="From the first record; by default only new records.")
@click.option("--max-messages", type=click.IntRange(1), help="Stop after this number of records.")
@click.option("--timeout-ms", type=click.IntRange(0), help="Stop when no record has arrived for this time.")
@click.option("--partition", type=click.IntRange(0), help="Only this partition.")
@click.option("--offset", type=click.IntRange(0), help="Start at this offset; needs --partition.")
@click.option(
    "--property",
    "properties",
    multiple=True,
    callback=key_values,
    metavar="KEY=VALUE",
    help="print.key, print.value, print.partition, print.offset, print.timestamp, print.headers, key.separator, null.literal.",
)
@bootstrap_options
@lines_option
def consume(
    name: str,
    from_beginning: bool,
    max_messages: int | None,
    timeout_ms: int | None,
    partition: int | None,
    offset: int | None,
    properties: dict[str, str],
    bootstrap_server: str,
    command_config: Path | None,
    output: str,
) -> None:
    """Print records of topic NAME like kafka-console-consumer, one value per line; with -o json, one object per line, and
    with -o yaml, one document per record."""
    from sluice.cli.topic import formatter
    from worker.kafka.console import consume as read

    if offset is not None and partition is None:
        raise click.UsageError("--offset needs --partition")
    show = formatter(output, properties)
    count, total = 0, max_messages

    def limit(waiting: int) -> None:
        nonlocal total
        total = waiting if max_messages is None else min(waiting, max_messages)

    # On a terminal, the records themselves show the progress.
    is_shown = not sys.stdout.isatty()
    records = read(
        client_properties(bootstrap_server, command_config),
        name,
        from_beginning=from_beginning,
        partition=partition,
        offset=offset,
        max_messages=max_messages,
        timeout_ms=timeout_ms,
        on_start=limit if is_shown else None,
    )
    try:
        with progress(f"records of {name}") if is_shown else nullcontext(ignore_progress) as report:
            for record in records:
                count += 1  # before the write: a reader of the record may interrupt immediately
                sys.stdout.buffer.write(show(record))
                sys.stdout.buffer.flush()
                report(count, None if total is None else max(total, count), "")
    except KeyboardInterrupt:  # the usual way to stop
        notice(f"Processed a total of {count} messages")
        raise
    notice(f"Processed a total of {count} messages")


@topic.command()
@click.argument("name", shell_complete=complete_topics)
@click.option("--partition", type=click.IntRange(0), help="Write to this partition.")
@click.option(
    "--property",
    "properties",
    multiple=True,
    callback=key_values,
    metavar="KEY=VALUE",
    help="parse.key, key.separator (default: tab), null.marker.",
)
@bootstrap_options
@output_option
def produce(
    name: str,
    partition: int | None,
    properties: dict[str, str],
    bootstrap_server: str,
    command_config: Path | None,
    output: str,
) -> None:
    """Write the lines of stdin to topic NAME like kafka-console-producer, one record per line."""
    from sluice.cli.topic import parse_lines
    from worker.kafka.console import produce as write

    clients = client_properties(bootstrap_server, command_config)
    # Lines that are typed need no progress.
    with nullcontext(ignore_progress) if sys.stdin.isatty() else progress(f"writing to {name}", in_bytes=True) as report:
        records = parse_lines(_reported(sys.stdin.buffer, _size_of_stdin(), report), properties)
        count = write(clients, name, records, partition=partition)
    _done(output, {"topic": name, "records": count}, f"{count} records written to '{name}'")


def _size_of_stdin() -> int | None:
    """None if it is no file."""
    try:
        found = os.fstat(sys.stdin.fileno())
    except (OSError, ValueError):  # replaced by something that is no file
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _reported(lines: Iterable[bytes], total: int | None, report: OnProgress) -> Iterator[bytes]:
    """Yields the lines, and reports their size."""
    done = 0
    for line in lines:
        done += len(line)
        yield line
        report(done, total, "")


def _done(output: str, value: dict[str, object], text: str) -> None:
    if output == "json":
        print_json(value)
    else:
        notice(text)


def _ids(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))


if TYPE_CHECKING:
    from worker.kafka.stored_records import KafkaRecord

_FLAGS = ("print.timestamp", "print.partition", "print.offset", "print.headers", "print.key", "print.value")
_CONSUME = {*_FLAGS, "key.separator", "line.separator", "headers.separator", "null.literal"}
_PRODUCE = {"parse.key", "key.separator", "null.marker"}


def formatter(output: str, properties: Mapping[str, str]) -> Callable[[KafkaRecord], bytes]:
    """Returns a function from record to bytes for stdout: Kafka's DefaultMessageFormatter, or JSON lines.

    Fields have the order of Kafka's tool: timestamp, partition, offset, headers, key, value. Values are written as raw bytes.
    Raises a usage error for an unknown property.
    """
    _check(properties, _CONSUME)
    if output == "json":
        return _json_line
    wanted = [name for name in _FLAGS if properties.get(name, str(name == "print.value")).lower() == "true"]
    separator = properties.get("key.separator", "\t").encode()
    between_headers = properties.get("headers.separator", ",").encode()
    end = properties.get("line.separator", "\n").encode()
    null = properties.get("null.literal", "null").encode()

    def or_null(data: bytes | None) -> bytes:
        return null if data is None else data

    def headers(record: KafkaRecord) -> bytes:
        pairs = [name.encode() + b":" + or_null(value) for name, value in record.headers]
        return between_headers.join(pairs) if pairs else b"NO_HEADERS"

    def timestamp(record: KafkaRecord) -> bytes:
        return b"NO_TIMESTAMP" if record.timestamp_ms is None else f"CreateTime:{record.timestamp_ms}".encode()

    fields: dict[str, Callable[[KafkaRecord], bytes]] = {
        "print.timestamp": timestamp,
        "print.partition": lambda record: f"Partition:{record.partition}".encode(),
        "print.offset": lambda record: f"Offset:{record.offset}".encode(),
        "print.headers": headers,
        "print.key": lambda record: or_null(record.key),
        "print.value": lambda record: or_null(record.value),
    }
    chosen = [fields[name] for name in wanted]
    return lambda record: separator.join([field(record) for field in chosen]) + end


def _json_line(record: KafkaRecord) -> bytes:
    value = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(one)] for name, one in record.headers],
    }
    return format_document(value).encode()


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def parse_lines(lines: Iterable[bytes], properties: Mapping[str, str]) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yields (key, value) of each line like Kafka's LineMessageReader. Checks the properties now, the lines on iteration."""
    _check(properties, _PRODUCE)
    return _pairs(lines, properties)


def _pairs(lines: Iterable[bytes], properties: Mapping[str, str]) -> Iterator[tuple[bytes | None, bytes | None]]:
    with_key = properties.get("parse.key", "false").lower() == "true"
    separator = properties.get("key.separator", "\t").encode()
    marker = properties["null.marker"].encode() if "null.marker" in properties else None

    def or_none(data: bytes) -> bytes | None:
        return None if data == marker else data

    for number, line in enumerate(lines, 1):
        text = line.rstrip(b"\n").rstrip(b"\r")
        if not with_key:
            yield None, or_none(text)
            continue
        key, found, value = text.partition(separator)
        if not found:
            raise click.UsageError(
                f"line {number} has no key separator '{separator.decode()}': {text.decode('utf-8', 'replace')}"
            )
        yield or_none(key), or_none(value)


def _check(properties: Mapping[str, str], known: set[str]) -> None:
    for name in properties:
        if name not in known:
            raise click.UsageError(f"unknown property '{name}'; expected one of {', '.join(sorted(known))}")
