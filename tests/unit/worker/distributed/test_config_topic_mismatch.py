"""Assignments of a leader that reads another config topic are recognized."""

from __future__ import annotations

import pytest

from worker.distributed.rebalances import is_from_another_topic
from worker.group.protocol import Assignment
from worker.model import TaskId
from worker.storage.config_state import ConfigState, apply
from worker.storage.record_codec import ConnectorRecord


def state_after(offset: int, *names: str) -> ConfigState:
    state = ConfigState()
    for name in names:
        state = apply(state, ConnectorRecord(name, {"name": name}), 0)[0]
    return apply(state, ConnectorRecord("last", {"name": "last"}), offset - 1)[0]


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        (Assignment(1, config_offset=7), False),
        (Assignment(1, config_offset=6), False),  # the leader is a little behind
        (Assignment(1, config_offset=8), True),  # it has read records that do not exist here
        (Assignment(1, config_offset=7, connectors=("mine", "last"), tasks=(TaskId("mine", 0),)), False),
        (Assignment(1, config_offset=7, connectors=("theirs",)), True),
        (Assignment(1, config_offset=7, tasks=(TaskId("theirs", 0),)), True),
        (Assignment(1, config_offset=6, connectors=("theirs",)), False),  # it may have been deleted since
        (Assignment(1, config_offset=7, revoked_connectors=("theirs",)), False),
    ],
)
def test_assignment_is_compared_with_the_config_topic_read_to_its_end(assignment: Assignment, expected: bool) -> None:
    assert is_from_another_topic(assignment, state_after(7, "mine")) is expected
