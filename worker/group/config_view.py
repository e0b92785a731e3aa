"""What an assignor knows of the configuration: the connectors and tasks there are at one offset of the config topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from worker.group.protocol import WorkerMetadata
from worker.model import TaskId


class ConfigView(Protocol):
    """An immutable snapshot of the config topic."""

    @property
    def offset(self) -> int:
        """How far the topic was read: the last record's offset plus one; -1 before the first."""

    def connectors(self) -> Sequence[str]:
        """Names of the configured connectors, in any order."""

    def tasks(self, name: str) -> Sequence[TaskId]:
        """Tasks of a connector, in any order; none while they are not completely written."""


FreshConfig = Callable[[], ConfigView]
"""Gives the newest snapshot at hand. Called on the thread that keeps the member in its group, so it must not wait."""


def newest_offset(members: Mapping[str, WorkerMetadata]) -> int:
    """How far the member that read most has read."""
    return max(metadata.config_offset for metadata in members.values())


def view_to_assign_by(members: Mapping[str, WorkerMetadata], config: ConfigView, fresh_config: FreshConfig) -> ConfigView | None:
    """The leader's snapshot if it knows all that any member knows, else a newer one; None when that is behind too.

    A leader that assigned from older knowledge would take work away that another member was rightly told to do.
    """
    wanted = newest_offset(members)
    if config.offset >= wanted:
        return config
    config = fresh_config()
    return config if config.offset >= wanted else None
