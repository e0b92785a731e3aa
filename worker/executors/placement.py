"""Where connectors and tasks go among a worker's processes, and what becomes of them when a process has ended. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum

WINDOW_S = 600.0
"""Crashes longer ago than this say nothing any more."""
_SUSPECTS_APART = 4
"""Into how many processes the connectors of one that crashed twice are split: as few as find the culprit soon, and as many as a
machine can bear."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one of the shared processes has to do."""

    started: bool
    tasks: int
    tasks_of_connector: int
    """Of those, the ones of the connector whose task is to be placed."""
    instances: int


def place_for_task(loads: Sequence[Load]) -> int:
    """Two tasks of one connector go to two processes: if they compute in Python, each needs a core of its own."""
    return min(range(len(loads)), key=lambda i: (loads[i].tasks_of_connector, loads[i].tasks, not loads[i].started, i))


def place_for_instance(loads: Sequence[Load]) -> int:
    """Instances do little: no process is started for them alone while there is one."""
    return min(range(len(loads)), key=lambda i: (not loads[i].started, loads[i].instances, i))


class CrashHistory:
    """When a process ended under which connectors. Not safe for several threads at once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._crashes: dict[str, list[float]] = {}

    def note(self, connectors: Collection[str]) -> None:
        """A process with these connectors has just ended."""
        now = self._clock()
        for name in connectors:
            self._crashes[name] = [*self._recent(name), now]

    def count(self, connector: str) -> int:
        """How many there were lately."""
        return len(self._recent(connector))

    def _recent(self, connector: str) -> list[float]:
        since = self._clock() - WINDOW_S
        return [at for at in self._crashes.get(connector, ()) if at > since]


class HouseKind(Enum):
    """Whose a process is."""

    SHARED = "shared"
    """Anybody's."""
    SUSPECTS = "suspects"
    """Of connectors that were there when processes ended."""
    OWN = "own"
    """Of one connector that asked for it."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What becomes of the connectors of a process that has ended."""

    again: frozenset[str]
    """Started anew, where connectors of their kind go."""
    apart: tuple[frozenset[str], ...]
    """Started anew, each of these sets in a process of its own."""
    failed: frozenset[str]


def aftermath(connectors: Collection[str], counts: Callable[[str], int], kind: HouseKind, *, final: bool) -> Aftermath:
    """``counts`` are crashes lately, this one included; ``final`` says that another start would end the same.

    After the first crash all go on together. Those that were there in a second one are split up; where it happens again, the
    connectors of that process are split up once more, until one is left alone with it: that one did it, and fails. A connector
    with a process of its own fails at the second.
    """
    names = frozenset(connectors)
    if final:
        return Aftermath(frozenset(), (), names)
    suspects = sorted(name for name in names if counts(name) >= 2)
    if kind is not HouseKind.SHARED and len(names) == 1 and suspects:
        return Aftermath(frozenset(), (), names)
    parts = (frozenset(suspects[start::_SUSPECTS_APART]) for start in range(_SUSPECTS_APART))
    return Aftermath(names - set(suspects), tuple(part for part in parts if part), frozenset())
