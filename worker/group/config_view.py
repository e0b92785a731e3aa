"""An assignor's view of the configuration: the connectors and tasks at one offset of the config topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from worker.group.protocol import WorkerMetadata
from worker.model import TaskId


class ConfigView(Protocol):
    """An immutable snapshot of the config topic."""

    @property
    def offset(self) -> int:
        """The last record's offset plus one; -1 before the first."""

    def connectors(self) -> Sequence[str]:
        """Names of the configured connectors, in any order."""

    def tasks(self, name: str) -> Sequence[TaskId]:
        """Tasks of a connector, in any order; none while they are not written completely."""


FreshConfig = Callable[[], ConfigView]
"""Returns the newest available snapshot. Called on the thread that sends heartbeats, so it must not block."""


def newest_offset(members: Mapping[str, WorkerMetadata]) -> int:
    """Returns the highest config offset of all members."""
    return max(metadata.config_offset for metadata in members.values())


def view_for_assignment(
    members: Mapping[str, WorkerMetadata], config: ConfigView, fresh_config: FreshConfig
) -> ConfigView | None:
    """Returns the leader's snapshot if no member has read more, else a newer one; None if that is behind too.

    A leader that assigned by an older configuration would revoke instances that another member was rightly assigned.
    """
    required = newest_offset(members)
    if config.offset >= required:
        return config
    config = fresh_config()
    return config if config.offset >= required else None
