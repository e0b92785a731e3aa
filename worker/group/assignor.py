"""The incremental cooperative assignor (KIP-415): who starts and who stops what, round by round, while all else runs on.

A leader calls :meth:`IncrementalCooperativeAssignor.assign` once a round. What changes hands takes two rounds: in the first its
owner is told to stop it and to join again, in the second, when nobody says any more that it runs it, it is given away. What a
departed worker held is kept back for a while, for a worker that is restarted comes back and takes its own again.

Apache's leader follows the same rules in the same order; names of its state are kept here. Followers accept any legal
assignment, so the places where this one is better than its model do not show between workers:

- of equally loaded members, a task goes to the one with fewest tasks of its connector;
- what is deleted stops in the same round also under a leader that has just been elected and knows nothing of earlier rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from worker.group.balance import Work, deal, excess, give_connectors, give_tasks, held_more_than_once
from worker.group.config_view import ConfigView, FreshConfig, newest_offset, view_to_assign_by
from worker.group.protocol import CONFIG_MISMATCH, NO_ERROR, Assignment, Protocol, WorkerMetadata
from worker.model import TaskId

_BACKOFF_FACTOR = 40
_NO_GENERATION = -1


class IncrementalCooperativeAssignor:
    """The leader's memory from round to round. One object a worker, used by one thread at a time.

    ``max_delay_ms`` is ``scheduled.rebalance.max.delay.ms``: how long a departed worker's work waits for it; with 0 it is given
    away at once. ``now_ms`` is a clock that only goes forward.
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
        # Members that came with empty hands while work was kept back; they are its owners under a new member id, most likely.
        self._candidates: dict[str, None] = {}
        self._scheduled_rebalance_ms = 0
        self._delay_ms = 0

    @property
    def delay_ms(self) -> int:
        """After how long the group is to join again, as told in the last round; 0: need not."""
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
        """One round: what each member is to start and to stop, as increments to what it says it runs.

        ``members`` holds at least the leader. ``generation`` is the one being formed, ``last_completed_generation`` the last in
        which this worker got its assignment: if the leader's last round is not that one, its outcome is unknown and it is
        forgotten. Takes no decision, and tells all of the mismatch, when the configuration at hand is behind a member's.
        """
        leader_url = members[leader_id].url
        view = view_to_assign_by(members, config, fresh_config)
        if view is None:
            mismatch = Assignment(protocol.version, CONFIG_MISMATCH, leader_id, leader_url, newest_offset(members))
            return dict.fromkeys(members, mismatch)
        if self._previous_generation != last_completed_generation:
            self._previous_assignment = Work()
        held = {member: _allocated(metadata) for member, metadata in sorted(members.items())}
        next_loads, revoked = self._round(_configured(view), held)
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

    def _round(self, configured: Work, held: Mapping[str, Work]) -> tuple[dict[str, Work], dict[str, Work]]:
        """What each member holds after the round, and what each is to stop."""
        active = Work.union(held.values())
        if self._previous_revocation.common(active):
            # Somebody was told to stop it and did not hear.
            self._previous_assignment = active.copy()
        self._previous_revocation = Work()

        previous = self._previous_assignment
        # Apache's looks at the previous assignment alone, which a new leader hasn't.
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
        # What is kept back stays in memory, else it would pass for new in the next round.
        self._previous_assignment.add(lost)
        return next_loads, revoked

    def _lost_to_reassign(self, lost: Work, next_loads: Mapping[str, Work]) -> Work:
        """What of the lost work is given away like new work. Sets the delay; may hand lost work to candidates itself."""
        if not lost and not self._revoked_in_previous:
            self._reset_delay()
            return Work()
        now_ms = self._now_ms()
        if self._scheduled_rebalance_ms <= 0 and self._previous_members <= next_loads.keys():
            # Nobody went: a member did not hear of its last assignment.
            return lost
        if self._max_delay_ms == 0:
            return lost
        if 0 < self._scheduled_rebalance_ms <= now_ms:
            candidates = [next_loads[member] for member in self._candidates if member in next_loads]
            if candidates:
                deal(candidates, lost)
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
        """What overloaded members give up in this round. Sets a growing delay instead when the round before revoked too."""
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
        # The exponent is bounded so that the number stays small; any delay is long reached by then.
        factor: int = _BACKOFF_FACTOR ** min(self._successive_revocations, 8)
        return min(self._max_delay_ms, factor)


def owner_urls(
    members: Mapping[str, WorkerMetadata], assignments: Mapping[str, Assignment]
) -> tuple[dict[str, str], dict[TaskId, str]]:
    """The URL of the worker that runs each connector, and each task, once the round's assignments are carried out."""
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
