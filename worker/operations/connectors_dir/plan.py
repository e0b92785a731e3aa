"""What has to be done for connectors to be as the files of ``connectors.dir`` say. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum


class Step(Enum):
    """What is done about a connector."""

    CREATE = "create"
    CHANGE = "change"
    ADOPT = "adopt"
    """It is as its file says already, and belongs to the file from now on."""
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A connector as its one file describes it."""

    file: str
    name: str
    config: Mapping[str, str | None] = field(repr=False)
    initial_state: str | None
    digest: str
    """Of the file's bytes."""


@dataclass(frozen=True, slots=True)
class Action:
    """One step about one connector; ``wanted`` is None for a deletion."""

    step: Step
    name: str
    wanted: Wanted | None = None


def plan(
    wanted: Collection[Wanted],
    configs: Mapping[str, Mapping[str, str | None]],
    managed: Collection[str],
    *,
    claimed: Collection[str],
    may_delete: bool,
) -> list[Action]:
    """The steps, deletions first so that what they free (a slot, a port) is free for what comes.

    ``configs`` are those that the worker has, ``managed`` the connectors whose configuration came from a file; ``claimed`` are
    names of files that cannot be read at present: what they describe stays as it is. A connector that no file made is never
    deleted, and not touched unless a file names it.
    """
    named = {one.name for one in wanted}
    steps = []
    if may_delete:
        gone = sorted(name for name in managed if name in configs and name not in named and name not in claimed)
        steps += [Action(Step.DELETE, name) for name in gone]
    for one in sorted(wanted, key=lambda one: one.file):
        there = configs.get(one.name)
        if there is None:
            steps.append(Action(Step.CREATE, one.name, one))
        elif dict(there) != dict(one.config):
            steps.append(Action(Step.CHANGE, one.name, one))
        elif one.name not in managed:
            steps.append(Action(Step.ADOPT, one.name, one))
    return steps
