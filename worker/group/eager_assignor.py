"""The eager assignor: reassigns everything, round-robin, at each rebalance (protocol ``default``)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from worker.group.config_view import ConfigView, FreshConfig, newest_offset, view_for_assignment
from worker.group.protocol import CONFIG_MISMATCH, Assignment, Protocol, WorkerMetadata
from worker.model import TaskId


def assign_eagerly(
    members: Mapping[str, WorkerMetadata], *, leader_id: str, config: ConfigView, fresh_config: FreshConfig
) -> dict[str, Assignment]:
    """Assigns connectors, then tasks, both sorted, to the sorted members in turn.

    The turn continues from connectors to tasks, so a member with one connector fewer gets the first task. ``members`` contains at
    least the leader. If the leader is behind a member, all get a mismatch and nothing is assigned.
    """
    version, leader_url = Protocol.EAGER.version, members[leader_id].url
    view = view_for_assignment(members, config, fresh_config)
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
