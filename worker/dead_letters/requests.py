"""Requests about dead letters in the form of REST's JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from connect.errors import BadRequestError
from worker.dead_letters.letters import LetterSelection, parse_offsets

MEMBERS = ("action", "selection", "limit", "with_trace", "dry_run", "to", "check", "transforms", "include_superseded", "next")
CONVERTERS = ("key.converter", "value.converter", "header.converter")
_TRANSFORMS = ("transforms", "predicates")


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
    transforms: Mapping[str, str] | None = field(repr=False)
    """Keys of transformations that change dead letters before they are replayed, and of converters for these."""
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
            parse_transforms(request.get("transforms")),
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
        raise BadRequestError('"selection" has a member of the wrong type; cause and offsets are strings, partition is a number')
    try:
        ranges = parse_offsets(offsets) if offsets else None
    except ValueError:
        raise BadRequestError(f"Offsets '{offsets}' are not of the form 5-9,12") from None
    return LetterSelection(cause or None, partition, ranges, parse_flag(plain, "with_replayed", False))


def parse_transforms(plain: Any) -> dict[str, str] | None:
    """Returns the keys of a replay's transformations. Raises BadRequestError, also for other keys of a connector: a replay reads
    those from the connector's configuration."""
    if plain is None:
        return None
    if not isinstance(plain, Mapping) or not all(isinstance(one, str) for one in plain.values()):
        raise BadRequestError('"transforms" is not an object of strings')
    for key in plain:
        if not any(key == name or key.startswith(f"{name}.") for name in (*_TRANSFORMS, *CONVERTERS)):
            raise BadRequestError(
                f"{key} does not belong to the transformations of a replay; expected transforms, predicates, "
                f"{', '.join(CONVERTERS)}, and the keys below them"
            )
    if not str(plain.get("transforms", "")).strip():
        raise BadRequestError("The transformations of a replay have no key transforms, which lists them")
    for role in CONVERTERS:
        if role not in plain and (below := [key for key in plain if key.startswith(f"{role}.")]):
            raise BadRequestError(f"{min(below)} has no effect without {role}: a converter is replaced with all of its settings")
    return dict(plain)


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
