"""Computes the steps that make the connectors match the files of ``connectors.dir``. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum


class Step(Enum):
    """A kind of change to a connector."""

    CREATE = "create"
    CHANGE = "change"
    ADOPT = "adopt"
    """It matches its file already, and the file manages it from now on."""
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class DesiredConnector:
    """A connector as its file describes it."""

    file: str
    name: str
    config: Mapping[str, str | None] = field(repr=False)
    initial_state: str | None
    digest: str
    """SHA-256 of the file."""


@dataclass(frozen=True, slots=True)
class Action:
    """A step for one connector; ``desired`` is None for a deletion."""

    step: Step
    name: str
    desired: DesiredConnector | None = None


def plan(
    desired: Collection[DesiredConnector],
    configs: Mapping[str, Mapping[str, str | None]],
    managed: Collection[str],
    *,
    claimed: Collection[str],
    may_delete: bool,
) -> list[Action]:
    """Returns the steps, deletions first, because they may free resources (a slot, a port) that other connectors need.

    ``configs`` are the worker's configurations, ``managed`` the connectors whose configuration came from a file, ``claimed`` the
    connectors of all files, including unreadable ones, which stay as they are. A connector that was not created from a file is
    never deleted, and changed only if a file names it.
    """
    named = {one.name for one in desired}
    steps = []
    if may_delete:
        deleted = sorted(name for name in managed if name in configs and name not in named and name not in claimed)
        steps += [Action(Step.DELETE, name) for name in deleted]
    for one in sorted(desired, key=lambda one: one.file):
        config = configs.get(one.name)
        if config is None:
            steps.append(Action(Step.CREATE, one.name, one))
        elif dict(config) != dict(one.config):
            steps.append(Action(Step.CHANGE, one.name, one))
        elif one.name not in managed:
            steps.append(Action(Step.ADOPT, one.name, one))
    return steps
