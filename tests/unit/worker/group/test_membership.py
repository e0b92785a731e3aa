"""What a member makes of what it hears."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from worker.group.events import Assigned, GroupEvent, Revoked
from worker.group.library_logging import quieten
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


class Heard:
    """A membership and what it told."""

    def __init__(self) -> None:
        self.events: list[GroupEvent] = []
        self.membership = Membership("g", nobody, self.events.append)

    def join(self, generation: int = 1, error: int = 0, data: bytes | None = None) -> bool:
        answer = encode_assignment(Assignment(2, error, "m2", "u", 3)) if data is None else data
        self.membership.joining()
        return self.membership.joined(generation, "m1", "sessioned", answer)


def test_an_answer_is_told() -> None:
    heard = Heard()
    assert heard.join(7)
    assert heard.events == [Assigned(7, "m1", "m2", Protocol.SESSIONED, Assignment(2, 0, "m2", "u", 3))]
    seat = heard.membership.seat
    assert (seat.generation, seat.member_id, seat.leader_id, seat.protocol) == (7, "m1", "m2", Protocol.SESSIONED)
    assert heard.membership.last_completed_generation == 7
    assert not heard.membership.on_hold


def test_falling_out_is_told_once_and_holds_the_member_back() -> None:
    heard = Heard()
    membership = heard.membership
    assert not membership.revoke("nothing was ever assigned", lost=True)
    heard.join()
    assert membership.revoke("why", lost=True)
    assert not membership.revoke("again", lost=True)
    assert heard.events[1:] == [Revoked(True, "why")]
    assert membership.on_hold
    assert (membership.seat.generation, membership.last_completed_generation) == (-1, -1)


def test_an_answer_to_what_was_said_before_a_revocation_is_dropped() -> None:
    heard = Heard()
    heard.join(1)
    heard.membership.joining()
    heard.membership.revoke("why", lost=True)
    # The leader counts on work that has stopped since.
    assert not heard.membership.joined(2, "m1", "sessioned", encode_assignment(Assignment(2)))
    assert len(heard.events) == 2
    assert heard.join(3)


def test_rounds_of_mismatch_are_counted_until_one_is_without() -> None:
    heard = Heard()
    counts = []
    for error in (CONFIG_MISMATCH, CONFIG_MISMATCH, 0, CONFIG_MISMATCH):
        heard.join(error=error)
        counts.append(heard.membership.mismatch_rounds)
    assert counts == [1, 2, 0, 1]


@pytest.mark.parametrize("data", [b"", b"\xff\xff\xff"])
def test_an_answer_that_cannot_be_read_is_asked_for_again(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard()
    assert not heard.join(data=data)
    assert heard.events == []
    assert "sent no assignment that can be read" in caplog.text


def test_the_leader_answers_all_also_whom_it_cannot_understand(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[object] = []

    def assign(members: Mapping[str, WorkerMetadata], protocol: Protocol, leader: str) -> Mapping[str, Assignment]:
        asked.append((dict(members), protocol, leader, membership.forming_generation))
        return {member: Assignment(2, 0, leader, "u1", 5, ("a",)) for member in members}

    membership = Membership("g", assign, [].append)
    own = WorkerMetadata("u1", 5)
    said = {"m1": encode_metadata(own, Protocol.SESSIONED), "m2": b"\x01"}
    answers = {member: decode_assignment(data) for member, data in membership.assignments(4, "m1", "sessioned", said).items()}
    assert asked == [({"m1": own}, Protocol.SESSIONED, "m1", 4)]
    assert answers["m1"].connectors == ("a",)
    assert answers["m2"] == Assignment(2, CONFIG_MISMATCH, "m1", "u1", 5)
    assert "Member m2 of worker group g gets no work" in caplog.text


def test_an_error_of_the_assignor_is_logged_and_all_are_told_to_ask_again(caplog: pytest.LogCaptureFixture) -> None:
    def assign(members: Mapping[str, WorkerMetadata], protocol: Protocol, leader: str) -> Mapping[str, Assignment]:
        raise ValueError("a defect")

    membership = Membership("g", assign, [].append)
    said = {"m1": encode_metadata(WorkerMetadata("u1", 5), Protocol.EAGER)}
    answers = membership.assignments(4, "m1", "default", said)
    assert decode_assignment(answers["m1"]) == Assignment(0, CONFIG_MISMATCH, "m1", "u1", 5)
    assert "a defect" in caplog.text


def test_the_library_speaks_at_debug_level_alone() -> None:
    quieten()
    quieten()
    library = logging.getLogger("kafka.net.connection")
    ours = logging.getLogger("worker.group.library_logging")
    heard: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = heard.append  # type: ignore[method-assign]  # the shortest handler there is
    ours.addHandler(handler)
    level = ours.level
    try:
        ours.setLevel(logging.INFO)
        library.error("the connection is lost")
        assert heard == []
        ours.setLevel(logging.DEBUG)
        library.error("the connection is %s", "lost")
        # There it quotes logins byte by byte.
        library.debug("Send: b'...'")
        assert [(record.levelno, record.getMessage()) for record in heard] == [
            (logging.DEBUG, "kafka.net.connection: the connection is lost")
        ]
    finally:
        ours.setLevel(level)
        ours.removeHandler(handler)
