"""The state of a group member: its generation, and what it reported to the herder last."""

from __future__ import annotations

import logging
import time
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
class GroupState:
    """A member's current generation."""

    generation: int = NO_GENERATION
    member_id: str = ""
    leader_id: str = ""
    protocol: Protocol | None = None


_NOT_A_MEMBER = GroupState()


class Membership:
    """The state of one member. Changed only by the IO thread, or while that does not run; any thread may read it.

    After each ``Revoked`` it is on hold: the member must not join before the herder has confirmed that its instances stopped.
    It would otherwise claim instances that are about to end, and the leader would leave them assigned to it.
    """

    def __init__(self, group_id: str, assign: Assign, events: Callable[[GroupEvent], None]) -> None:
        self._group_id = group_id
        self._assign = assign
        self._events = events
        self.state = _NOT_A_MEMBER
        self.on_hold = False
        self.last_completed_generation = NO_GENERATION
        self.forming_generation = NO_GENERATION
        self.consecutive_mismatches = 0
        self.has_ever_joined = False
        self.joining_since: float | None = None
        """``time.monotonic()`` of the last request to join."""
        self._revocations = 0
        self._revocations_when_joining = 0

    @property
    def may_own_instances(self) -> bool:
        return self.state is not _NOT_A_MEMBER

    def assignments(self, generation: int, leader_id: str, protocol_name: str, members: Mapping[str, bytes]) -> dict[str, bytes]:
        """Encodes the leader's assignments for the members' encoded metadata. Never raises.

        A member whose metadata cannot be read is not assigned anything, and has to join again.
        """
        self.forming_generation = generation
        protocol = Protocol.of_wire_name(protocol_name)
        decoded: dict[str, WorkerMetadata] = {}
        for member, data in members.items():
            try:
                decoded[member] = decode_metadata(data)
            except DataError as e:
                log.warning("Member %s of worker group %s is not assigned anything: %s", member, self._group_id, e.message)
        own = decoded.get(leader_id)
        refusal = Assignment(
            protocol.version, CONFIG_MISMATCH, leader_id, own.url if own else "", own.config_offset if own else -1
        )
        assignments: Mapping[str, Assignment] = {}
        try:
            assignments = self._assign(decoded, protocol, leader_id)
        except Exception:
            log.exception("The assignment of group %s failed; its members have to join again", self._group_id)
        return {member: encode_assignment(assignments.get(member, refusal)) for member in members}

    def joining(self) -> None:
        """Notes that this worker's metadata is being sent."""
        self.joining_since = time.monotonic()
        self._revocations_when_joining = self._revocations

    def joined(self, generation: int, member_id: str, protocol_name: str, data: bytes) -> bool:
        """Notes the assignment of this member. Returns False if it is unusable, and the member has to join again."""
        if self._revocations != self._revocations_when_joining:
            log.debug(
                "Ignoring the assignment of generation %d, which assumes instances that have been stopped meanwhile", generation
            )
            return False
        try:
            protocol, assignment = Protocol.of_wire_name(protocol_name), decode_assignment(data)
        except DataError as e:
            log.warning("The leader of worker group %s sent an unreadable assignment: %s", self._group_id, e.message)
            self.consecutive_mismatches += 1
            return False
        self.has_ever_joined = True
        self.last_completed_generation = generation
        self.consecutive_mismatches = self.consecutive_mismatches + 1 if assignment.error == CONFIG_MISMATCH else 0
        self.state = GroupState(generation, member_id, assignment.leader, protocol)
        self._events(Assigned(generation, member_id, assignment.leader, protocol, assignment))
        return True

    def revoke(self, reason: str, *, lost: bool) -> bool:
        """Tells the herder to stop everything. Returns False if there is nothing to stop."""
        if not self.may_own_instances:
            return False
        self.forget()
        self.on_hold = True
        self._revocations += 1
        # The herder logs it as a warning.
        log.debug("Assignment in group %s revoked: %s", self._group_id, reason)
        self._events(Revoked(lost, reason))
        return True

    def forget(self) -> None:
        """Leaves the generation without an event."""
        self.state = _NOT_A_MEMBER
        # The outcome of rebalances that this worker led is unknown from here on.
        self.last_completed_generation = NO_GENERATION
