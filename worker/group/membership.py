"""Where a member stands: in the group or out of it, with work or without, and what it told the herder last."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect.errors import DataError
from worker.group.events import Assigned, GroupEvent, Revoked
from worker.group.protocol import (
    CONFIG_MISMATCH,
    Assignment,
    Protocol,
    WorkerMetadata,
    decode_assignment,
    decode_metadata,
    encode_assignment,
)

log = logging.getLogger(__name__)

NO_GENERATION = -1

Assign = Callable[[Mapping[str, WorkerMetadata], Protocol, str], Mapping[str, Assignment]]


@dataclass(frozen=True, slots=True)
class Seat:
    """A place in the group."""

    generation: int = NO_GENERATION
    member_id: str = ""
    leader_id: str = ""
    protocol: Protocol | None = None


_NO_SEAT = Seat()


class Membership:
    """The state of one member. Changed on the IO thread alone, or while that does not run; read from any.

    After each ``Revoked`` it is on hold: the member must not join before the herder has said that its work stopped, for it would
    claim work that is about to end, and the leader would leave that with it.
    """

    def __init__(self, group_id: str, assign: Assign, events: Callable[[GroupEvent], None]) -> None:
        self._group_id = group_id
        self._assign = assign
        self._events = events
        self.seat = _NO_SEAT
        self.on_hold = False
        self.last_completed_generation = NO_GENERATION
        self.forming_generation = NO_GENERATION
        self.mismatch_rounds = 0
        self.has_ever_joined = False
        self._revocations = 0
        self._revocations_when_joining = 0

    @property
    def may_have_work(self) -> bool:
        return self.seat is not _NO_SEAT

    def assignments(self, generation: int, leader_id: str, protocol_name: str, members: Mapping[str, bytes]) -> dict[str, bytes]:
        """The leader's answers, in bytes, to what the members said in bytes. Never raises: an error is an answer too.

        A member that cannot be understood gets an answer that makes it ask again, and no work.
        """
        self.forming_generation = generation
        protocol = Protocol.of_wire_name(protocol_name)
        understood: dict[str, WorkerMetadata] = {}
        for member, data in members.items():
            try:
                understood[member] = decode_metadata(data)
            except DataError as e:
                log.warning("Member %s of worker group %s gets no work: %s", member, self._group_id, e.message)
        own = understood.get(leader_id)
        refusal = Assignment(
            protocol.version, CONFIG_MISMATCH, leader_id, own.url if own else "", own.config_offset if own else -1
        )
        answers: Mapping[str, Assignment] = {}
        try:
            answers = self._assign(understood, protocol, leader_id)
        except Exception:
            log.exception("Work could not be assigned to the members of group %s; they are to ask again", self._group_id)
        return {member: encode_assignment(answers.get(member, refusal)) for member in members}

    def joining(self) -> None:
        """What this worker says of itself is being sent."""
        self._revocations_when_joining = self._revocations

    def joined(self, generation: int, member_id: str, protocol_name: str, data: bytes) -> bool:
        """Takes the leader's answer. False when it is of no use, and the member is to join again."""
        if self._revocations != self._revocations_when_joining:
            log.debug("The answer of generation %d counts on work that has been stopped meanwhile", generation)
            return False
        try:
            protocol, assignment = Protocol.of_wire_name(protocol_name), decode_assignment(data)
        except DataError as e:
            log.warning("The leader of worker group %s sent no assignment that can be read: %s", self._group_id, e.message)
            self.mismatch_rounds += 1
            return False
        self.has_ever_joined = True
        self.last_completed_generation = generation
        self.mismatch_rounds = self.mismatch_rounds + 1 if assignment.error == CONFIG_MISMATCH else 0
        self.seat = Seat(generation, member_id, assignment.leader, protocol)
        self._events(Assigned(generation, member_id, assignment.leader, protocol, assignment))
        return True

    def revoke(self, reason: str, *, lost: bool) -> bool:
        """Tells the herder to stop everything, unless there is nothing to stop. Whether it was told."""
        if not self.may_have_work:
            return False
        self.forget()
        self.on_hold = True
        self._revocations += 1
        # The herder says it aloud.
        log.debug("Work in group %s is revoked: %s", self._group_id, reason)
        self._events(Revoked(lost, reason))
        return True

    def forget(self) -> None:
        """The seat is given up; nobody is told."""
        self.seat = _NO_SEAT
        # The outcome of rounds that this worker led is unknown from here on.
        self.last_completed_generation = NO_GENERATION
