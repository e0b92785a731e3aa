"""``sluice preview``: runs records through a connector's transformations and converters, offline."""

from __future__ import annotations

import base64
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from connect.errors import ConfigError, ConnectError, DataError
from connect.record import ConnectRecord
from sluice.cli.output import format_document, lines_option, wants_color
from worker.preview.conversion import Message, PreviewConverters
from worker.preview.errors import PreviewFailure
from worker.preview.record_diff import FieldChange, FieldValue, diff_records, flatten_record
from worker.preview.transform_runner import Outcome, TransformRunner

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
@lines_option
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
    from sluice.cli.preview import PreviewText

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
    """Prints one JSON document on a line of stdout, or a YAML document."""
    print(format_document(value, ascii=True), end="", flush=True)


_COLORS = {"+": "32", "-": "31", "~": "33"}
_BOLD, _DIM, _RED = "1", "2", "31"
_NARROWEST = 40


class PreviewText:
    """Renders records, numbered from 1. On a terminal, lines are colored and truncated to its width."""

    def __init__(self, *, stages: bool, converters: PreviewConverters | None, color: bool) -> None:
        self._stages = stages
        self._converters = converters
        self._color = color
        self._width = max(shutil.get_terminal_size().columns, _NARROWEST) if color else None
        self._count = 0

    def of(self, given: ConnectRecord | PreviewFailure, runner: TransformRunner) -> str:
        """Returns the text of one input: a record, or why it is invalid."""
        self._count += 1
        lines = list(self._lines(given, runner))
        return "\n".join(lines) + "\n"

    def _lines(self, given: ConnectRecord | PreviewFailure, runner: TransformRunner) -> Iterator[str]:
        yield self._line(f"record {self._count}", _BOLD)
        if isinstance(given, PreviewFailure):
            yield self._failed(given)
            return
        before = flatten_record(given)
        yield from self._record(before)
        outcome = runner.apply(given, with_steps=True)
        if self._stages:
            yield from self._by_stage(before, outcome)
        elif outcome.record is not None and outcome.steps:
            yield self._line("after all transformations", _BOLD)
            yield from self._changes(diff_records(before, flatten_record(outcome.record)))
        if outcome.failure is not None:
            yield self._failed(outcome.failure)
        elif outcome.record is None:
            yield self._dropped(outcome)
        elif self._converters is not None:
            yield from self._written(self._converters, outcome.record)

    def _by_stage(self, before: Mapping[str, FieldValue], outcome: Outcome) -> Iterator[str]:
        for step in outcome.steps:
            yield self._line(f"{step.alias} ({step.transformation})", _BOLD)
            if not step.ran:
                yield self._line(f"  skipped: predicate {step.predicate} is false", _DIM)
            elif step.record is not None:
                after = flatten_record(step.record)
                yield from self._changes(diff_records(before, after))
                before = after

    def _dropped(self, outcome: Outcome) -> str:
        by = outcome.dropped_by
        assert by is not None  # steps are always requested here
        why = "" if by.predicate is None else f", because predicate {by.predicate} is true"
        return self._line(f"  dropped by {by.alias} ({by.transformation}){why}", _COLORS["~"])

    def _failed(self, failure: PreviewFailure) -> str:
        return self._line(f"  failed: {_where(failure)}{failure.message} [{failure.java_class}]", _RED)

    def _record(self, fields: Mapping[str, FieldValue]) -> Iterator[str]:
        name_width = max(map(len, fields))
        kind_width = max(len(field.kind) for field in fields.values())
        for path, field in fields.items():
            yield self._line(f"  {path:<{name_width}}  {field.kind:<{kind_width}}  {field.text}".rstrip())

    def _changes(self, changes: Sequence[FieldChange]) -> Iterator[str]:
        if not changes:
            yield self._line("  no change", _DIM)
            return
        width = max(len(change.path) for change in changes)
        for change in changes:
            sides = [str(field) for field in (change.before, change.after) if field is not None]
            yield self._line(f"  {change.mark} {change.path:<{width}}  {' -> '.join(sides)}".rstrip(), _COLORS[change.mark])

    def _written(self, converters: PreviewConverters, record: ConnectRecord) -> Iterator[str]:
        message = converters.write(record)
        if isinstance(message, PreviewFailure):
            yield self._failed(message)
            return
        yield self._line(f"written to topic {message.topic}", _BOLD)
        yield from map(self._line, _message_lines(message, converters.names))

    def _line(self, text: str, style: str = "") -> str:
        text = _printable(text)
        if self._width is not None and len(text) > self._width:
            text = text[: self._width - 1] + "…"
        return f"\x1b[{style}m{text}\x1b[0m" if self._color and style else text


def _where(failure: PreviewFailure) -> str:
    step = failure.transform or (failure.stage if failure.stage.endswith("converter") else None)
    places = [place for place in (step, failure.field and f"field {failure.field}") if place]
    return f"{', '.join(places)}: " if places else ""


def _message_lines(message: Message, names: tuple[str, str]) -> Iterator[str]:
    parts = [("key", message.key, names[0]), ("value", message.value, names[1])]
    parts += [(f"header {name}", data, "") for name, data in message.headers]
    width = max(len(name) for name, _, _ in parts)
    for name, data, converter in parts:
        if data is None:
            yield f"  {name:<{width}}  null"
        else:
            size = f"{len(data)} byte" if len(data) == 1 else f"{len(data)} bytes"
            about = ", ".join(part for part in (converter, size) if part)
            yield f"  {name:<{width}}  {_text(data)}  ({about})"


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.hex(" ")


def _printable(text: str) -> str:
    """Returns the text on one line, without terminal control characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


__all__ = ["PreviewText"]
