"""Groups dead letters by cause: stage, class, error, field, and the message without the values of single records."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from worker.dead_letters.hints import hint_for
from worker.dead_letters.letters import DeadLetter

MAX_CAUSES = 1000
OTHER = "other"
"""The ID of the group of all other causes. No cause has it, so it selects nothing."""
_ID_CHARACTERS = 8
_HEAD_BYTES = 64
_MAX_MESSAGE = 300
_FIELD = re.compile(
    r"""\bfields?:?\s+(?:'([^']+)'|"([^"]+)"|`([^`]+)`|([A-Za-z_][\w.$\[\]]*))|\bcolumn\s+"?([A-Za-z_]\w*)"?""", re.I
)
_NO_FIELD = frozenset(
    ("is", "of", "in", "to", "for", "the", "a", "an", "and", "or", "with", "not", "has", "does", "did", "must", "cannot", "named",
     "type", "value", "values")
)  # fmt: skip
_VALUES = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.I), "<uuid>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"), "<time>"),
    (re.compile(r"'[^']*'"), "'...'"),
    (re.compile(r"\bvalue \([^)]*\)", re.I), "value (...)"),
    (re.compile(r'"[^"]*"'), '"..."'),
    (re.compile(r"\b0x[0-9a-f]+\b|\b(?=\w*\d)[0-9a-f]{12,}\b", re.I), "<hex>"),
    (re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w])"), "<number>"),
)  # fmt: skip


class CauseKey(NamedTuple):
    """What the dead letters of one cause have in common."""

    stage: str | None
    class_name: str | None
    transform: str | None
    """The alias of the transformation, if the configuration has just one of that class."""
    exception_class: str | None
    field: str | None
    message: str | None

    @property
    def id(self) -> str:
        """A short ID that is the same in every run."""
        text = "\0".join(part or "" for part in self)
        return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_ID_CHARACTERS]


def cause_of(letter: DeadLetter, config: Mapping[str, str | None]) -> CauseKey:
    """Returns the cause of a dead letter of a connector with this configuration."""
    context = letter.context
    message = context.message
    return CauseKey(
        context.stage,
        context.class_name,
        _alias_of(context.class_name, config) if context.stage == "TRANSFORMATION" else None,
        context.exception_class,
        None if message is None else find_field(message),
        None if message is None else normalize_message(message),
    )


def normalize_message(message: str) -> str:
    """Returns the message with placeholders for quoted texts, numbers, times, and IDs."""
    first = message.strip().split("\n", 1)[0][: 4 * _MAX_MESSAGE]
    for pattern, placeholder in _VALUES:
        first = pattern.sub(placeholder, first)
    return first[:_MAX_MESSAGE]


def find_field(message: str) -> str | None:
    """Returns the field or column that a message names."""
    for found in _FIELD.finditer(message):
        name = next(group for group in found.groups() if group is not None).rstrip(".")
        if name.lower() not in _NO_FIELD:
            return name
    return None


def _alias_of(class_name: str | None, config: Mapping[str, str | None]) -> str | None:
    if class_name is None:
        return None
    simple = re.split(r"[.:]", class_name)[-1]
    aliases = [alias.strip() for alias in (config.get("transforms") or "").split(",") if alias.strip()]
    types = {alias: (config.get(f"transforms.{alias}.type") or "").strip() for alias in aliases}
    same = [alias for alias, name in types.items() if name == class_name or re.split(r"[.:]", name)[-1] == simple]
    return same[0] if len(same) == 1 else None


class _Example(NamedTuple):
    """What is shown of one dead letter."""

    partition: int
    offset: int
    message: str | None
    origin: tuple[str, int, int] | None
    head: bytes | None
    """The beginning of its value, for the hint."""

    @classmethod
    def of(cls, letter: DeadLetter) -> _Example:
        stored = letter.stored
        head = None if stored.value is None else stored.value[:_HEAD_BYTES]
        return cls(stored.partition, stored.offset, letter.context.message, letter.origin, head)


@dataclass(slots=True)
class _Group:
    example: _Example
    count: int = 0
    first_ms: int | None = None
    last_ms: int | None = None

    def add(self, letter: DeadLetter) -> None:
        at_ms = letter.stored.timestamp_ms
        self.count += 1
        self.example = _Example.of(letter)
        if at_ms is not None:
            self.first_ms = at_ms if self.first_ms is None else min(self.first_ms, at_ms)
            self.last_ms = at_ms if self.last_ms is None else max(self.last_ms, at_ms)


class CauseGroups:
    """Counts dead letters by cause: by the first :data:`MAX_CAUSES` that occur, and those of all others together, so that a queue
    whose messages are all different does not fill the memory."""

    def __init__(self, config: Mapping[str, str | None]) -> None:
        self._config = config
        self._groups: dict[CauseKey, _Group] = {}
        self._other: _Group | None = None

    def add(self, letters: Iterable[DeadLetter]) -> None:
        for letter in letters:
            self._group_of(letter).add(letter)

    def _group_of(self, letter: DeadLetter) -> _Group:
        key = cause_of(letter, self._config)
        group = self._groups.get(key)
        if group is not None:
            return group
        if len(self._groups) < MAX_CAUSES:
            group = self._groups[key] = _Group(_Example.of(letter))
            return group
        if self._other is None:
            self._other = _Group(_Example.of(letter))
        return self._other

    def as_json(self) -> list[dict[str, Any]]:
        """Returns the causes, the most frequent first; the group of other causes is the last one."""
        found = sorted(self._groups.items(), key=lambda one: (-one[1].count, one[0].id))
        shown = [_cause_json(key, group, self._config) for key, group in found]
        if self._other is not None:
            nothing = CauseKey(None, None, None, None, None, None)
            other = _cause_json(nothing, self._other, self._config)
            shown.append({**other, "id": OTHER, "hint": f"These have causes beyond the first {MAX_CAUSES}: solve those first"})
        return shown


def _cause_json(key: CauseKey, group: _Group, config: Mapping[str, str | None]) -> dict[str, Any]:
    example = group.example
    return {
        "id": key.id,
        "count": group.count,
        "first_ms": group.first_ms,
        "last_ms": group.last_ms,
        "stage": key.stage,
        "class": key.class_name,
        "transform": key.transform,
        "exception_class": key.exception_class,
        "field": key.field,
        "message": key.message,
        "hint": hint_for(key.stage, key, example.head, config),
        "example": {
            "partition": example.partition,
            "offset": example.offset,
            "message": example.message,
            "origin": None if example.origin is None else list(example.origin),
        },
    }
