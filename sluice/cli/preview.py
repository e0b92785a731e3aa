"""``sluice preview``: runs records through a connector's transformations and converters, offline."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from connect.errors import ConfigError, ConnectError, DataError
from sluice.cli.output import output_option, wants_color

if TYPE_CHECKING:
    from connect.record import ConnectRecord
    from worker.preview.conversion import Message, PreviewConverters
    from worker.preview.errors import PreviewFailure
    from worker.preview.plan import PreviewPlan
    from worker.preview.transform_runner import Outcome, TransformRunner, TransformStep

_SAMPLES = 3


@click.command()
@click.argument("connector", type=click.Path())
@click.option("--records", metavar="FILE|-", help="Input, one JSON value per line: whole records or plain values.")
@click.option("--stages", is_flag=True, help="Show what each transformation does.")
@click.option("--worker", "worker_file", metavar="FILE", help="Worker file with the default converters.")
@click.option("--raw", is_flag=True, help="Lines are message values as stored in the topic; converters decode them first.")
@click.option("--base64", "is_base64", is_flag=True, help="With --raw: keys and values are base64, for binary data.")
@click.option("--key-separator", metavar="TEXT", help="With --raw: the part of a line before TEXT is the message key.")
@click.option("--topic", help="Topic of records that do not name one. Default: the connector's first topic.")
@output_option
def preview(
    connector: str,
    records: str | None,
    stages: bool,
    worker_file: str | None,
    raw: bool,
    is_base64: bool,
    key_separator: str | None,
    topic: str | None,
    output: str,
) -> None:
    """Run records through the transformations and converters of the file CONNECTOR, without a broker or a running connector.

    Lines of --records are JSON: whole records (topic, key, value, ... as printed by -o json), or other values, which become
    records without schema. Without --records, connectors that can generate sample records show some.

    Records that fail or are dropped are shown and do not fail this command; an invalid configuration ends it with exit code 2.
    """
    from connect.plugins import Plugins
    from worker.preview.errors import CONFIGURE, build_failure
    from worker.preview.plan import PreviewPlan
    from worker.preview.transform_runner import TransformRunner

    if (is_base64 or key_separator is not None) and not raw:
        raise click.UsageError("--base64 and --key-separator need --raw")
    plugins = Plugins.discover()
    plan = PreviewPlan.read(connector, worker_file, plugins, topic=topic)
    if records is None:
        inputs: Iterator[ConnectRecord | PreviewFailure] = iter(plan.samples(_SAMPLES))
    else:
        converters = plan.converters() if raw else None
        inputs = _inputs(records, plan, converters, is_base64, key_separator)
    show = _json_printer(stages, plan) if output == "json" else _text_printer(stages, plan)
    try:
        runner = TransformRunner(plan.config, plugins)
    except ConnectError as e:
        if output == "json":
            failure = build_failure(e, CONFIGURE, _alias_of(e))
            for _ in inputs:
                print_line({"record": None, "error": {**failure.as_json(), "message": plan.mask.mask(failure.message)}})
        raise ConfigError(plan.mask.mask(f"{plan.location(e)}: {e.message}")) from e
    try:
        for given in inputs:
            show(given, runner)
    finally:
        runner.close()
        plan.close()


def _alias_of(error: ConnectError) -> str | None:
    key = error.key if isinstance(error, ConfigError) else None
    return key.split(".")[1] if key is not None and key.startswith("transforms.") else None


def _inputs(
    records: str, plan: PreviewPlan, converters: PreviewConverters | None, is_base64: bool, key_separator: str | None
) -> Iterator[ConnectRecord | PreviewFailure]:
    """Yields the record of each line, or why it is invalid. Skips blank lines unless they are raw."""
    from worker.preview.errors import READ, build_failure
    from worker.preview.record_lines import parse_record_line

    try:
        file = click.open_file(records, "rb")
    except OSError as e:
        raise ConfigError(f"{records}: cannot read the file: {e.strerror or e}") from e
    with file:
        position = 0
        for number, line in enumerate(file, start=1):
            data = line.rstrip(b"\r\n")
            if not data.strip() and converters is None:
                continue
            try:
                if converters is None:
                    yield parse_record_line(data.decode("utf-8"), plan.defaults, position)
                else:
                    yield converters.read(_message(data, plan.defaults.topic, is_base64, key_separator), position)
            except UnicodeDecodeError as e:
                yield build_failure(DataError(f"line {number}: not UTF-8: {e.reason} at byte {e.start}"), READ)
            except DataError as e:
                yield build_failure(DataError(f"line {number}: {e.message}"), READ)
            position += 1


def _message(data: bytes, topic: str, is_base64: bool, key_separator: str | None) -> Message:
    from worker.preview.conversion import Message

    key: bytes | None = None
    value: bytes = data
    if key_separator:
        before, found, after = data.partition(key_separator.encode())
        if not found:
            raise DataError(f"no key separator {key_separator!r}")
        key, value = before, after
    if is_base64:
        try:
            key = None if key is None else base64.b64decode(key, validate=True)
            value = base64.b64decode(value, validate=True)
        except ValueError as e:
            raise DataError(f"not base64: {e}") from e
    return Message(topic, key, value)


def _text_printer(stages: bool, plan: PreviewPlan) -> Callable[[ConnectRecord | PreviewFailure, TransformRunner], None]:
    from sluice.cli.preview_text import PreviewText

    text = PreviewText(stages=stages, converters=plan.output_converters(), color=wants_color(sys.stdout))
    return lambda given, runner: print(text.of(given, runner), flush=True)


def _json_printer(stages: bool, plan: PreviewPlan) -> Callable[[ConnectRecord | PreviewFailure, TransformRunner], None]:
    from worker.preview.errors import PreviewFailure
    from worker.preview.transform_runner import Outcome

    converters = plan.output_converters() if stages else None

    def show(given: ConnectRecord | PreviewFailure, runner: TransformRunner) -> None:
        outcome = Outcome(None, given) if isinstance(given, PreviewFailure) else runner.apply(given, with_steps=stages)
        print_line(_as_json(outcome, stages, converters))

    return show


def _as_json(outcome: Outcome, stages: bool, converters: PreviewConverters | None) -> dict[str, Any]:
    from worker.preview.errors import PreviewFailure

    record = _record_json(outcome.record)
    failure = record if isinstance(record, PreviewFailure) else outcome.failure
    node: dict[str, Any] = {
        "record": None if isinstance(record, PreviewFailure) else record,
        "error": failure and failure.as_json(),
    }
    if stages:
        node["stages"] = [_step_json(step) for step in outcome.steps]
        if converters is not None and outcome.record is not None and failure is None:
            message = converters.write(outcome.record)
            node["message"] = None if isinstance(message, PreviewFailure) else _message_json(message)
            if isinstance(message, PreviewFailure):
                node["error"] = message.as_json()
    return node


def _record_json(record: ConnectRecord | None) -> dict[str, Any] | PreviewFailure | None:
    """Returns the record as JSON, or why it has none: user functions may return anything."""
    from connect.record_format import record_to_json
    from worker.preview.errors import APPLY, build_failure

    try:
        return None if record is None else record_to_json(record)
    except DataError as e:
        return build_failure(e, APPLY)


def _step_json(step: TransformStep) -> dict[str, Any]:
    record = _record_json(step.record)
    return {
        "transform": step.alias,
        "class": step.transformation,
        "predicate": step.predicate,
        "ran": step.ran,
        "record": record if isinstance(record, dict) else None,
    }


def _message_json(message: Message) -> dict[str, Any]:
    return {
        "topic": message.topic,
        "key": _bytes_json(message.key),
        "value": _bytes_json(message.value),
        "headers": [{"key": name, **(_bytes_json(data) or {"base64": None})} for name, data in message.headers],
    }


def _bytes_json(data: bytes | None) -> dict[str, str] | None:
    if data is None:
        return None
    shown = {"base64": base64.b64encode(data).decode()}
    with suppress(UnicodeDecodeError):
        shown["text"] = data.decode("utf-8")
    return shown


def print_line(value: object) -> None:
    """Prints one JSON document on a line of stdout, in ASCII, so that Unicode line separators do not break the line."""
    print(json.dumps(value), flush=True)
