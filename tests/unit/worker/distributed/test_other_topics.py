"""A leader's answer that does not come from this worker's config topic is known as such."""

from __future__ import annotations

import pytest

from worker.distributed.config_topic_mismatch import comes_from_another_topic
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
    ("answer", "expected"),
    [
        (Assignment(1, config_offset=7), False),
        (Assignment(1, config_offset=6), False),  # the leader is a little behind
        (Assignment(1, config_offset=8), True),  # it has read what is not there
        (Assignment(1, config_offset=7, connectors=("mine", "last"), tasks=(TaskId("mine", 0),)), False),
        (Assignment(1, config_offset=7, connectors=("theirs",)), True),
        (Assignment(1, config_offset=7, tasks=(TaskId("theirs", 0),)), True),
        (Assignment(1, config_offset=6, connectors=("theirs",)), False),  # it may have been deleted since
        (Assignment(1, config_offset=7, revoked_connectors=("theirs",)), False),
    ],
)
def test_an_answer_is_compared_with_the_topic_read_to_its_end(answer: Assignment, expected: bool) -> None:
    assert comes_from_another_topic(answer, state_after(7, "mine")) is expected
