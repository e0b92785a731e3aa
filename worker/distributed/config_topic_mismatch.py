"""Detects that workers of a group read different config topics, for instance because two clusters use the same group.id."""

from __future__ import annotations

import logging

from worker.config.distributed_config import DistributedSettings
from worker.group.protocol import Assignment
from worker.storage.config_state import ConfigState

log = logging.getLogger(__name__)

_MISMATCHES_BEFORE_ERROR = 3


def is_from_another_topic(assignment: Assignment, state: ConfigState) -> bool:
    """Returns whether a leader that reads this worker's config topic, of which ``state`` is the end, cannot have sent this."""
    if state.offset != assignment.config_offset:
        return state.offset < assignment.config_offset
    assigned = {*assignment.connectors, *(task.connector for task in assignment.tasks)}
    return not all(state.contains(name) for name in assigned)


def log_another_topic(settings: DistributedSettings, leader_url: str, leaders_offset: int, own_offset: int) -> None:
    """Logs that an assignment :func:`is_from_another_topic`."""
    log.error(
        "The leader of group %s, %s, reads another config topic than %s: it has read its own to offset %d, this one ends at %d "
        "and lacks what it assigns. Either two clusters use the same group.id: give each its own. Or the topic was deleted and "
        "created again: restart all workers. This worker runs nothing and stays out of the group for %g s "
        "(worker.unsync.backoff.ms)",
        settings.group_id, leader_url, settings.config_topic.name, leaders_offset, own_offset,
        settings.unsync_backoff_ms / 1000,
    )  # fmt: skip


def log_repeated_mismatch(settings: DistributedSettings, mismatches: int) -> None:
    """Logs an error once several rebalances in a row have failed because the leader had not read what another member has."""
    if mismatches == _MISMATCHES_BEFORE_ERROR:
        log.error(
            "The workers of group %s repeatedly disagree on the end of config topic %s. If this persists, two clusters with "
            "different config topics use the same group.id: give each its own",
            settings.group_id,
            settings.config_topic.name,
        )
