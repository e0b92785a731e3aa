"""Formats and parses records as lines, by the properties of Kafka's console tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from worker.kafka.console import ConsoleRecord

_FLAGS = ("print.timestamp", "print.partition", "print.offset", "print.headers", "print.key", "print.value")
_CONSUME = {*_FLAGS, "key.separator", "line.separator", "headers.separator", "null.literal"}
_PRODUCE = {"parse.key", "key.separator", "null.marker"}


def formatter(output: str, properties: Mapping[str, str]) -> Callable[[ConsoleRecord], bytes]:
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

    def headers(record: ConsoleRecord) -> bytes:
        pairs = [name.encode() + b":" + or_null(value) for name, value in record.headers]
        return between_headers.join(pairs) if pairs else b"NO_HEADERS"

    def timestamp(record: ConsoleRecord) -> bytes:
        return b"NO_TIMESTAMP" if record.timestamp_ms is None else f"CreateTime:{record.timestamp_ms}".encode()

    fields: dict[str, Callable[[ConsoleRecord], bytes]] = {
        "print.timestamp": timestamp,
        "print.partition": lambda record: f"Partition:{record.partition}".encode(),
        "print.offset": lambda record: f"Offset:{record.offset}".encode(),
        "print.headers": headers,
        "print.key": lambda record: or_null(record.key),
        "print.value": lambda record: or_null(record.value),
    }
    chosen = [fields[name] for name in wanted]
    return lambda record: separator.join([field(record) for field in chosen]) + end


def _json_line(record: ConsoleRecord) -> bytes:
    value = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(one)] for name, one in record.headers],
    }
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


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
