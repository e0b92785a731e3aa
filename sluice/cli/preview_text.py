"""Previews as text: a record's fields, the changes of each transformation, the message that a source writes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence

from connect.record import ConnectRecord
from worker.preview.conversion import Conversion, Message
from worker.preview.errors import Failure
from worker.preview.record_diff import Change, Leaf, changes_between, leaves_of
from worker.preview.transform_steps import Outcome, Transforming

_COLORS = {"+": "32", "-": "31", "~": "33"}
_BOLD, _DIM, _RED = "1", "2", "31"
_NARROWEST = 40


class PreviewText:
    """Renders records, numbered from 1. On a terminal, lines are colored and truncated to its width."""

    def __init__(self, *, stages: bool, conversion: Conversion | None, color: bool) -> None:
        self._stages = stages
        self._conversion = conversion
        self._color = color
        self._width = max(shutil.get_terminal_size().columns, _NARROWEST) if color else None
        self._count = 0

    def of(self, given: ConnectRecord | Failure, transforming: Transforming) -> str:
        """Returns the text of one input: a record, or why it is invalid."""
        self._count += 1
        lines = list(self._lines(given, transforming))
        return "\n".join(lines) + "\n"

    def _lines(self, given: ConnectRecord | Failure, transforming: Transforming) -> Iterator[str]:
        yield self._line(f"record {self._count}", _BOLD)
        if isinstance(given, Failure):
            yield self._failed(given)
            return
        before = leaves_of(given)
        yield from self._record(before)
        outcome = transforming.outcome(given, with_passages=True)
        if self._stages:
            yield from self._by_stage(before, outcome)
        elif outcome.record is not None and outcome.passages:
            yield self._line("after all transformations", _BOLD)
            yield from self._changes(changes_between(before, leaves_of(outcome.record)))
        if outcome.failure is not None:
            yield self._failed(outcome.failure)
        elif outcome.record is None:
            yield self._dropped(outcome)
        elif self._conversion is not None:
            yield from self._written(self._conversion, outcome.record)

    def _by_stage(self, before: Mapping[str, Leaf], outcome: Outcome) -> Iterator[str]:
        for passage in outcome.passages:
            yield self._line(f"{passage.alias} ({passage.transformation})", _BOLD)
            if not passage.ran:
                yield self._line(f"  skipped: predicate {passage.predicate} is false", _DIM)
            elif passage.record is not None:
                after = leaves_of(passage.record)
                yield from self._changes(changes_between(before, after))
                before = after

    def _dropped(self, outcome: Outcome) -> str:
        by = outcome.dropped_by
        assert by is not None  # passages are always requested here
        why = "" if by.predicate is None else f", because predicate {by.predicate} is true"
        return self._line(f"  dropped by {by.alias} ({by.transformation}){why}", _COLORS["~"])

    def _failed(self, failure: Failure) -> str:
        return self._line(f"  failed: {_where(failure)}{failure.message} [{failure.java_class}]", _RED)

    def _record(self, leaves: Mapping[str, Leaf]) -> Iterator[str]:
        name_width = max(map(len, leaves))
        kind_width = max(len(leaf.kind) for leaf in leaves.values())
        for path, leaf in leaves.items():
            yield self._line(f"  {path:<{name_width}}  {leaf.kind:<{kind_width}}  {leaf.text}".rstrip())

    def _changes(self, changes: Sequence[Change]) -> Iterator[str]:
        if not changes:
            yield self._line("  no change", _DIM)
            return
        width = max(len(change.path) for change in changes)
        for change in changes:
            sides = [str(leaf) for leaf in (change.before, change.after) if leaf is not None]
            yield self._line(f"  {change.mark} {change.path:<{width}}  {' -> '.join(sides)}".rstrip(), _COLORS[change.mark])

    def _written(self, conversion: Conversion, record: ConnectRecord) -> Iterator[str]:
        message = conversion.write(record)
        if isinstance(message, Failure):
            yield self._failed(message)
            return
        yield self._line(f"written to topic {message.topic}", _BOLD)
        yield from map(self._line, _message_lines(message, conversion.names))

    def _line(self, text: str, style: str = "") -> str:
        text = _printable(text)
        if self._width is not None and len(text) > self._width:
            text = text[: self._width - 1] + "…"
        return f"\x1b[{style}m{text}\x1b[0m" if self._color and style else text


def _where(failure: Failure) -> str:
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
