"""Which process a connector or task goes to, and what happens to it when the process has crashed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum

WINDOW_S = 600.0
"""Crashes before this do not count."""
_QUARANTINE_GROUPS = 4
"""How many processes the connectors of one that crashed twice are split into: enough to find the cause soon, few enough for a
small machine."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one of the shared processes runs."""

    started: bool
    tasks: int
    tasks_of_connector: int
    """Of those, the tasks of the connector whose task is being placed."""
    instances: int


def place_for_task(loads: Sequence[Load]) -> int:
    """The index of the process for a task. Tasks of one connector spread over the processes: those that compute in Python need a
    core each."""
    return min(range(len(loads)), key=lambda i: (loads[i].tasks_of_connector, loads[i].tasks, not loads[i].started, i))


def place_for_instance(loads: Sequence[Load]) -> int:
    """The index of the process for a connector instance. Instances do little, so no process is started just for one."""
    return min(range(len(loads)), key=lambda i: (not loads[i].started, loads[i].instances, i))


class CrashHistory:
    """When processes crashed while which connectors ran in them. Not thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._crashes: dict[str, list[float]] = {}

    def note(self, connectors: Collection[str]) -> None:
        """Records that a process with these connectors has just crashed."""
        now = self._clock()
        for name in connectors:
            self._crashes[name] = [*self._recent(name), now]

    def count(self, connector: str) -> int:
        """The number of recent crashes."""
        return len(self._recent(connector))

    def _recent(self, connector: str) -> list[float]:
        since = self._clock() - WINDOW_S
        return [at for at in self._crashes.get(connector, ()) if at > since]


class ProcessKind(Enum):
    """Which connectors a process takes."""

    SHARED = "shared"
    """Any."""
    QUARANTINE = "quarantine"
    """Connectors that were present at several crashes."""
    DEDICATED = "dedicated"
    """One connector that asked for it."""


@dataclass(frozen=True, slots=True)
class CrashDecision:
    """What happens to the connectors of a process that has crashed."""

    restart: frozenset[str]
    """Restarted in the processes they usually go to."""
    isolate: tuple[frozenset[str], ...]
    """Restarted, each group in a quarantine process of its own."""
    failed: frozenset[str]
    """FAILED until somebody restarts them."""


def decide_after_crash(
    connectors: Collection[str], counts: Callable[[str], int], kind: ProcessKind, *, is_permanent: bool
) -> CrashDecision:
    """``counts`` returns a connector's recent crashes, this one included; ``is_permanent`` says that another start would crash
    too.

    After the first crash, all connectors restart as before. Those that were present at two crashes are quarantined in several
    groups; when the process of a group crashes, the group is split further, until a connector that is alone crashes: that one is
    the cause, and fails. A connector with a dedicated process fails at the second crash.
    """
    names = frozenset(connectors)
    if is_permanent:
        return CrashDecision(frozenset(), (), names)
    repeated = sorted(name for name in names if counts(name) >= 2)
    if kind is not ProcessKind.SHARED and len(names) == 1 and repeated:
        return CrashDecision(frozenset(), (), names)
    groups = (frozenset(repeated[start::_QUARANTINE_GROUPS]) for start in range(_QUARANTINE_GROUPS))
    return CrashDecision(names - set(repeated), tuple(group for group in groups if group), frozenset())
