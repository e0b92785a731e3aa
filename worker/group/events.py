"""What a member of a group hears."""

from __future__ import annotations

from dataclasses import dataclass

from worker.group.protocol import Assignment, Protocol


@dataclass(frozen=True, slots=True)
class Revoked:
    """All of this worker's work is to stop, and what it says it runs is to be what it runs then.

    The member joins again only after ``GroupMember.work_stopped()`` was called.
    """

    lost: bool
    """Whether it fell out of the group, and others may have its work already; False: it joins by the eager protocol."""
    reason: str
    """A clause for the log, as ``the group's coordinator does not know this worker any more``."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The member is in the group and has the leader's answer; for what it means see :class:`worker.group.protocol.Assignment`.

    The same answer may come twice: a follower that joins again with nothing new to say gets the last one once more.
    """

    generation: int
    member_id: str
    leader_id: str
    protocol: Protocol
    assignment: Assignment


GroupEvent = Revoked | Assigned
