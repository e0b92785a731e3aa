"""Events that a group member reports to the herder."""

from __future__ import annotations

from dataclasses import dataclass

from worker.group.protocol import Assignment, Protocol


@dataclass(frozen=True, slots=True)
class Revoked:
    """All connectors and tasks of this worker have to stop. The member joins again only after ``GroupMember.work_stopped()``."""

    lost: bool
    """True if it was removed from the group: others may run its instances already. False before an eager join."""
    reason: str
    """A clause for the log, such as ``the group coordinator does not know this worker any more``."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The member has joined, and received an assignment from the leader (:class:`worker.group.protocol.Assignment`).

    The same assignment may come twice: a follower that joins again with unchanged metadata gets the last one again.
    """

    generation: int
    member_id: str
    leader_id: str
    protocol: Protocol
    assignment: Assignment


GroupEvent = Revoked | Assigned
