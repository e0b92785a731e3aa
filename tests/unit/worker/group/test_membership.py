"""What a member makes of what it hears."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from worker.group.events import Assigned, GroupEvent, Revoked
from worker.group.member import redirect_library_logs
from worker.group.membership import Membership
from worker.group.protocol import (
    CONFIG_MISMATCH,
    Assignment,
    Protocol,
    WorkerMetadata,
    decode_assignment,
    encode_assignment,
    encode_metadata,
)


def nobody(members: Mapping[str, WorkerMetadata], protocol: Protocol, leader: str) -> Mapping[str, Assignment]:
    raise AssertionError("not asked for")


class Recorded:
    """A membership and what it told."""

    def __init__(self) -> None:
        self.events: list[GroupEvent] = []
        self.membership = Membership("g", nobody, self.events.append)

    def join(self, generation: int = 1, error: int = 0, data: bytes | None = None) -> bool:
        answer = encode_assignment(Assignment(2, error, "m2", "u", 3)) if data is None else data
        self.membership.joining()
        return self.membership.joined(generation, "m1", "sessioned", answer)


def test_assignment_is_reported() -> None:
    recorded = Recorded()
    assert recorded.join(7)
    assert recorded.events == [Assigned(7, "m1", "m2", Protocol.SESSIONED, Assignment(2, 0, "m2", "u", 3))]
    state = recorded.membership.state
    assert (state.generation, state.member_id, state.leader_id, state.protocol) == (7, "m1", "m2", Protocol.SESSIONED)
    assert recorded.membership.last_completed_generation == 7
    assert not recorded.membership.on_hold


def test_removal_is_reported_once_and_puts_the_member_on_hold() -> None:
    recorded = Recorded()
    membership = recorded.membership
    assert not membership.revoke("nothing was ever assigned", lost=True)
    recorded.join()
    assert membership.revoke("why", lost=True)
    assert not membership.revoke("again", lost=True)
    assert recorded.events[1:] == [Revoked(True, "why")]
    assert membership.on_hold
    assert (membership.state.generation, membership.last_completed_generation) == (-1, -1)


def test_assignment_for_metadata_from_before_a_revocation_is_ignored() -> None:
    recorded = Recorded()
    recorded.join(1)
    recorded.membership.joining()
    recorded.membership.revoke("why", lost=True)
    # The leader assumes instances that have stopped since.
    assert not recorded.membership.joined(2, "m1", "sessioned", encode_assignment(Assignment(2)))
    assert len(recorded.events) == 2
    assert recorded.join(3)


def test_consecutive_mismatches_are_counted() -> None:
    recorded = Recorded()
    counts = []
    for error in (CONFIG_MISMATCH, CONFIG_MISMATCH, 0, CONFIG_MISMATCH):
        recorded.join(error=error)
        counts.append(recorded.membership.consecutive_mismatches)
    assert counts == [1, 2, 0, 1]


@pytest.mark.parametrize("data", [b"", b"\xff\xff\xff"])
def test_unreadable_assignment_is_rejected(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    recorded = Recorded()
    assert not recorded.join(data=data)
    assert recorded.events == []
    assert "sent an unreadable assignment" in caplog.text


def test_member_with_unreadable_metadata_gets_a_mismatch(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[object] = []

    def assign(members: Mapping[str, WorkerMetadata], protocol: Protocol, leader: str) -> Mapping[str, Assignment]:
        asked.append((dict(members), protocol, leader, membership.forming_generation))
        return {member: Assignment(2, 0, leader, "u1", 5, ("a",)) for member in members}

    membership = Membership("g", assign, list[GroupEvent]().append)
    own = WorkerMetadata("u1", 5)
    said = {"m1": encode_metadata(own, Protocol.SESSIONED), "m2": b"\x01"}
    answers = {member: decode_assignment(data) for member, data in membership.assignments(4, "m1", "sessioned", said).items()}
    assert asked == [({"m1": own}, Protocol.SESSIONED, "m1", 4)]
    assert answers["m1"].connectors == ("a",)
    assert answers["m2"] == Assignment(2, CONFIG_MISMATCH, "m1", "u1", 5)
    assert "Member m2 of worker group g is not assigned anything" in caplog.text


def test_error_of_the_assignor_is_logged_and_all_members_get_a_mismatch(caplog: pytest.LogCaptureFixture) -> None:
    def assign(members: Mapping[str, WorkerMetadata], protocol: Protocol, leader: str) -> Mapping[str, Assignment]:
        raise ValueError("a defect")

    membership = Membership("g", assign, list[GroupEvent]().append)
    said = {"m1": encode_metadata(WorkerMetadata("u1", 5), Protocol.EAGER)}
    answers = membership.assignments(4, "m1", "default", said)
    assert decode_assignment(answers["m1"]) == Assignment(0, CONFIG_MISMATCH, "m1", "u1", 5)
    assert "a defect" in caplog.text


def test_library_messages_are_logged_at_debug_level_only() -> None:
    redirect_library_logs()
    redirect_library_logs()
    library = logging.getLogger("kafka.net.connection")
    ours = logging.getLogger("worker.group.member")
    recorded: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = recorded.append  # type: ignore[method-assign, assignment]  # the shortest handler
    ours.addHandler(handler)
    level = ours.level
    try:
        ours.setLevel(logging.INFO)
        library.error("the connection is lost")
        assert recorded == []
        ours.setLevel(logging.DEBUG)
        library.error("the connection is %s", "lost")
        # The library's DEBUG messages contain credentials byte by byte.
        library.debug("Send: b'...'")
        assert [(record.levelno, record.getMessage()) for record in recorded] == [
            (logging.DEBUG, "kafka.net.connection: the connection is lost")
        ]
    finally:
        ours.setLevel(level)
        ours.removeHandler(handler)
