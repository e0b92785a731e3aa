"""Requests about dead letters in the form of REST's JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from connect.errors import BadRequestError
from worker.dead_letters.letters import LetterSelection, parse_offsets

MEMBERS = ("action", "selection", "limit", "with_trace", "dry_run", "to", "check", "include_superseded", "next")


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """What to replay, and how."""

    selection: LetterSelection
    dry_run: bool
    limit: int
    """How many selected dead letters to look at."""
    to: str | None
    """Another topic than the original one."""
    is_checked: bool
    """Whether to leave those that would fail again."""
    include_superseded: bool
    start: Mapping[int, int]
    """Where to continue, by partition of the queue."""

    @classmethod
    def parse(cls, request: Mapping[str, Any]) -> ReplayRequest:
        """Raises BadRequestError."""
        start = request.get("next") or {}
        if not isinstance(start, Mapping) or not all(str(key).isdecimal() and isinstance(one, int) for key, one in start.items()):
            raise BadRequestError('"next" is not that of an earlier response')
        to = request.get("to")
        if to is not None and not (isinstance(to, str) and to):
            raise BadRequestError('"to" is not the name of a topic')
        return cls(
            parse_selection(request.get("selection")),
            parse_flag(request, "dry_run", True),
            parse_number(request, "limit", 1000),
            to,
            parse_flag(request, "check", True),
            parse_flag(request, "include_superseded", False),
            {int(key): one for key, one in start.items()},
        )


def parse_selection(plain: Any) -> LetterSelection:
    """Returns the selection of a request. Raises BadRequestError."""
    if plain is None:
        return LetterSelection()
    if not isinstance(plain, Mapping):
        raise BadRequestError('"selection" is not an object')
    require_members(plain, ("cause", "partition", "offsets", "with_replayed"), '"selection"')
    cause, partition, offsets = plain.get("cause"), plain.get("partition"), plain.get("offsets")
    if not isinstance(cause, str | None) or not isinstance(partition, int | None) or not isinstance(offsets, str | None):
        raise BadRequestError('"selection" has a member of the wrong type; cause and offsets are texts, partition is a number')
    try:
        ranges = parse_offsets(offsets) if offsets else None
    except ValueError:
        raise BadRequestError(f"Offsets '{offsets}' are not of the form 5-9,12") from None
    return LetterSelection(cause or None, partition, ranges, parse_flag(plain, "with_replayed", False))


def require_members(plain: Mapping[str, Any], known: Collection[str], what: str) -> None:
    """Raises BadRequestError for an unknown member."""
    if unknown := set(plain) - set(known):
        raise BadRequestError(f'Unknown member "{min(unknown)}" of {what}; expected {", ".join(known)}')


def parse_number(request: Mapping[str, Any], name: str, default: int) -> int:
    value = request.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadRequestError(f'"{name}" is not a number from 0')
    return value


def parse_flag(request: Mapping[str, Any], name: str, default: bool) -> bool:
    value = request.get(name, default)
    if not isinstance(value, bool):
        raise BadRequestError(f'"{name}" is neither true nor false')
    return value
