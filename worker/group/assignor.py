"""The incremental cooperative assignor (KIP-415): a rebalance starts and stops only what changes; the rest keeps running.

A leader calls :meth:`IncrementalCooperativeAssignor.assign` once per rebalance. Moving an instance takes two rebalances: in the
first its owner is told to stop it and to join again; in the second, when no member runs it, it is assigned. The instances of a
departed worker stay unassigned for a while, because a worker that restarts comes back and gets them again.

Apache's leader follows the same rules in the same order, and its state has the same names here. Followers accept any legal
assignment, so these improvements over Apache's assignor are invisible between workers:

- among equally loaded members, a task goes to the one with the fewest tasks of its connector;
- deleted instances stop in the same rebalance even under a newly elected leader, which does not know earlier rebalances.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from worker.group.balance import Work, distribute, excess, give_connectors, give_tasks, held_more_than_once
from worker.group.config_view import ConfigView, FreshConfig, newest_offset, view_for_assignment
from worker.group.protocol import CONFIG_MISMATCH, NO_ERROR, Assignment, Protocol, WorkerMetadata
from worker.model import TaskId

_BACKOFF_FACTOR = 40
_NO_GENERATION = -1


class IncrementalCooperativeAssignor:
    """The leader's state from rebalance to rebalance. One object per worker, used by one thread at a time.

    ``max_delay_ms`` is ``scheduled.rebalance.max.delay.ms``: how long the instances of a departed worker wait for it; with 0 they
    are reassigned at once. ``now_ms`` is a monotonic clock.
    """

    def __init__(self, max_delay_ms: int, now_ms: Callable[[], int]) -> None:
        self._max_delay_ms = max_delay_ms
        self._now_ms = now_ms
        self._previous_assignment = Work()
        self._previous_revocation = Work()
        self._previous_generation = _NO_GENERATION
        self._previous_members: frozenset[str] = frozenset()
        self._revoked_in_previous = False
        self._successive_revocations = 0
        # Members that joined without instances while lost ones were unassigned: most likely their owners under a new member ID.
        self._candidates: dict[str, None] = {}
        self._scheduled_rebalance_ms = 0
        self._delay_ms = 0

    @property
    def delay_ms(self) -> int:
        """The time after which the group has to join again, as of the last rebalance; 0 for never."""
        return self._delay_ms

    def assign(
        self,
        members: Mapping[str, WorkerMetadata],
        *,
        leader_id: str,
        protocol: Protocol,
        config: ConfigView,
        fresh_config: FreshConfig,
        generation: int,
        last_completed_generation: int,
    ) -> dict[str, Assignment]:
        """Returns what each member has to start and stop, as increments to its reported allocation.

        ``members`` contains at least the leader. ``generation`` is the one being formed, ``last_completed_generation`` the last
        in which this worker got its assignment: if that is not the leader's last rebalance, the outcome of the latter is
        unknown and ignored. All members get a mismatch if the available configuration is behind a member's.
        """
        leader_url = members[leader_id].url
        view = view_for_assignment(members, config, fresh_config)
        if view is None:
            mismatch = Assignment(protocol.version, CONFIG_MISMATCH, leader_id, leader_url, newest_offset(members))
            return dict.fromkeys(members, mismatch)
        if self._previous_generation != last_completed_generation:
            self._previous_assignment = Work()
        held = {member: _allocated(metadata) for member, metadata in sorted(members.items())}
        next_loads, revoked = self._rebalance(_configured(view), held)
        self._previous_generation = generation
        self._previous_members = frozenset(members)
        result = {}
        for member in members:
            started, stopped = next_loads[member].without(held[member]), revoked.get(member, Work())
            result[member] = Assignment(
                protocol.version, NO_ERROR, leader_id, leader_url, view.offset,
                tuple(started.connectors), tuple(started.tasks), tuple(stopped.connectors), tuple(stopped.tasks), self._delay_ms,
            )  # fmt: skip
        return result

    def _rebalance(self, configured: Work, held: Mapping[str, Work]) -> tuple[dict[str, Work], dict[str, Work]]:
        """Returns what each member holds after the rebalance, and what each has to stop."""
        active = Work.union(held.values())
        if self._previous_revocation.common(active):
            # A member did not receive the revocation.
            self._previous_assignment = active.copy()
        self._previous_revocation = Work()

        previous = self._previous_assignment
        # Apache's assignor considers only the previous assignment, which a new leader does not have.
        deleted = Work.union((previous, active)).without(configured)
        lost = previous.without(active, deleted)
        created = configured.without(previous, active)
        to_stop = Work.union((deleted, held_more_than_once(held)))

        next_loads = {member: work.without(to_stop) for member, work in held.items()}
        revoked = {member: stopped for member, work in held.items() if (stopped := work.common(to_stop))}
        to_assign = Work.union((created, self._lost_to_reassign(lost, next_loads)))
        for member, stopped in self._balancing_revocations(configured, next_loads).items():
            next_loads[member].remove(stopped)
            revoked.setdefault(member, Work()).add(stopped)
        give_connectors(next_loads, to_assign.connectors)
        give_tasks(next_loads, to_assign.tasks)

        self._previous_revocation = Work.union(revoked.values())
        self._previous_assignment = Work.union(next_loads.values()).without(self._previous_revocation)
        # Unassigned lost instances stay recorded; otherwise they would look new in the next rebalance.
        self._previous_assignment.add(lost)
        return next_loads, revoked

    def _lost_to_reassign(self, lost: Work, next_loads: Mapping[str, Work]) -> Work:
        """Returns the lost instances to assign like new ones. Sets the delay; may assign lost instances to candidates itself."""
        if not lost and not self._revoked_in_previous:
            self._reset_delay()
            return Work()
        now_ms = self._now_ms()
        if self._scheduled_rebalance_ms <= 0 and self._previous_members <= next_loads.keys():
            # No member left: one did not receive its last assignment.
            return lost
        if self._max_delay_ms == 0:
            return lost
        if 0 < self._scheduled_rebalance_ms <= now_ms:
            candidates = [next_loads[member] for member in self._candidates if member in next_loads]
            if candidates:
                distribute(candidates, lost)
                lost = Work()
            self._reset_delay()
            self._revoked_in_previous = False
            return lost
        self._candidates.update((member, None) for member, work in next_loads.items() if not work)
        self._delay_ms = self._scheduled_rebalance_ms - now_ms if now_ms < self._scheduled_rebalance_ms else self._max_delay_ms
        self._scheduled_rebalance_ms = now_ms + self._delay_ms
        return Work()

    def _reset_delay(self) -> None:
        self._candidates.clear()
        self._scheduled_rebalance_ms = 0
        self._delay_ms = 0

    def _balancing_revocations(self, configured: Work, next_loads: Mapping[str, Work]) -> Mapping[str, Work]:
        """Returns what overloaded members give up. Sets a growing delay instead if the previous rebalance revoked too."""
        if self._delay_ms > 0:
            self._revoked_in_previous = False
            return {}
        revocations = excess(configured, next_loads)
        if not revocations:
            if self._revoked_in_previous:
                self._revoked_in_previous = False
                self._successive_revocations = 0
            return {}
        if self._revoked_in_previous:
            self._successive_revocations += 1
            self._delay_ms = self._backoff_ms()
            if self._delay_ms > 0:
                self._scheduled_rebalance_ms = self._now_ms() + self._delay_ms
                return {}
        self._revoked_in_previous = True
        return revocations

    def _backoff_ms(self) -> int:
        # The exponent is bounded to keep the number small; it exceeds any delay by then.
        factor: int = _BACKOFF_FACTOR ** min(self._successive_revocations, 8)
        return min(self._max_delay_ms, factor)


def owner_urls(
    members: Mapping[str, WorkerMetadata], assignments: Mapping[str, Assignment]
) -> tuple[dict[str, str], dict[TaskId, str]]:
    """Returns the URLs of the workers that run each connector and each task after a rebalance."""
    connectors: dict[str, str] = {}
    tasks: dict[TaskId, str] = {}
    for member, assignment in assignments.items():
        work = _allocated(members[member]) if assignment.version != Protocol.EAGER.version else Work()
        work.remove(Work.of(assignment.revoked_connectors, assignment.revoked_tasks))
        work.add(Work.of(assignment.connectors, assignment.tasks))
        connectors.update(dict.fromkeys(work.connectors, members[member].url))
        tasks.update(dict.fromkeys(work.tasks, members[member].url))
    return connectors, tasks


def _allocated(metadata: WorkerMetadata) -> Work:
    if metadata.allocation is None:
        return Work()
    return Work.of(metadata.allocation.connectors, metadata.allocation.tasks)


def _configured(view: ConfigView) -> Work:
    names = sorted(view.connectors())
    return Work.of(names, (task for name in names for task in sorted(view.tasks(name))))
