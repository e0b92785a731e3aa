"""Signs that workers of a group read different config topics, as those of two clusters do that share a group.id by mistake."""

from __future__ import annotations

import logging

from worker.config.distributed_config import DistributedSettings
from worker.group.protocol import Assignment
from worker.storage.config_state import ConfigState

log = logging.getLogger(__name__)

_MISMATCHES_TOLD = 3


def comes_from_another_topic(answer: Assignment, state: ConfigState) -> bool:
    """Whether a leader that reads the config topic, which is read to its end here, could not have given this answer."""
    if state.offset != answer.config_offset:
        return state.offset < answer.config_offset
    given = {*answer.connectors, *(task.connector for task in answer.tasks)}
    return not all(state.contains(name) for name in given)


def tell_of_another_topic(settings: DistributedSettings, leader_url: str, leaders_offset: int, own_offset: int) -> None:
    """After an answer that :func:`comes_from_another_topic`."""
    log.error(
        "The leader of group %s, %s, reads another config topic than %s: it has read its own to offset %d, this one ends at %d "
        "and lacks what it deals out. Either two clusters use one group.id: give each a group.id of its own. Or the topic was "
        "deleted and made anew: restart all workers. This one runs nothing and stays out of the group for %g s "
        "(worker.unsync.backoff.ms)",
        settings.group_id, leader_url, settings.config_topic.name, leaders_offset, own_offset,
        settings.unsync_backoff_ms / 1000,
    )  # fmt: skip


def tell_of_mismatch(settings: DistributedSettings, rounds: int) -> None:
    """So many rounds one after the other ended because the leader had not read what another member has."""
    if rounds == _MISMATCHES_TOLD:
        log.error(
            "The workers of group %s do not agree on how far the config topic %s goes, again and again. If this lasts, two "
            "clusters with different config topics use one group.id: give each a group.id of its own",
            settings.group_id,
            settings.config_topic.name,
        )
