"""Previews as text: a record's fields, the changes of each transformation, the message that a source writes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence

from connect.record import ConnectRecord
from worker.preview.conversion import Message, PreviewConverters
from worker.preview.errors import PreviewFailure
from worker.preview.record_diff import FieldChange, FieldValue, diff_records, flatten_record
from worker.preview.transform_runner import Outcome, TransformRunner

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
