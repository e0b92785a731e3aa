"""The eager assignor: everything is dealt out anew at each join, one after the other (protocol ``default``)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from worker.group.config_view import ConfigView, FreshConfig, newest_offset, view_to_assign_by
from worker.group.protocol import CONFIG_MISMATCH, Assignment, Protocol, WorkerMetadata
from worker.model import TaskId


def assign_eagerly(
    members: Mapping[str, WorkerMetadata], *, leader_id: str, config: ConfigView, fresh_config: FreshConfig
) -> dict[str, Assignment]:
    """All work for all members: connectors, then tasks, sorted, in turn to the members, sorted.

    One turn runs through both, so that a member that got one connector fewer gets the first task. ``members`` holds at least the
    leader. When the leader lags behind a member, all are told of the mismatch and get no work.
    """
    version, leader_url = Protocol.EAGER.version, members[leader_id].url
    view = view_to_assign_by(members, config, fresh_config)
    if view is None:
        mismatch = Assignment(version, CONFIG_MISMATCH, leader_id, leader_url, newest_offset(members))
        return dict.fromkeys(members, mismatch)
    connectors: dict[str, list[str]] = {member: [] for member in members}
    tasks: dict[str, list[TaskId]] = {member: [] for member in members}
    turn = cycle(sorted(members))
    names = sorted(view.connectors())
    for name in names:
        connectors[next(turn)].append(name)
    for name in names:
        for task in sorted(view.tasks(name)):
            tasks[next(turn)].append(task)
    return {
        member: Assignment(
            version, 0, leader_id, leader_url, view.offset, connectors=tuple(connectors[member]), tasks=tuple(tasks[member])
        )
        for member in members
    }
