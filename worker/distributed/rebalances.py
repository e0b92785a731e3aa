"""Follows rebalances of the group: assignments, revocations, and disagreement about the config topic."""

from __future__ import annotations

import logging
import time

from connect.backoff import Backoff
from connect.errors import ConnectError
from worker.config.distributed_config import DistributedSettings
from worker.distributed.assignment_reconciler import AssignmentReconciler
from worker.distributed.config_changes import apply_newest_config
from worker.distributed.config_sync import ConfigSync
from worker.distributed.group_session import GroupSession
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.leader import Leader
from worker.distributed.session_key_manager import SessionKeyManager
from worker.distributed.status_writer import StatusWriter
from worker.distributed.task_config_publisher import TaskConfigPublisher
from worker.group.events import Assigned, GroupEvent, Revoked
from worker.group.protocol import Assignment, Protocol
from worker.storage.config_state import ConfigState

log = logging.getLogger(__name__)

_POLL_S = 0.5
"""How long one attempt to join may block the thread; requests are handled in between."""
_LEAD_RETRY_S = 1.0
_RETRY_BACKOFF = Backoff(0.25, 5.0)


class RebalanceHandler:
    """Used by the herder's thread only, except :meth:`on_group_event`."""

    def __init__(
        self,
        settings: DistributedSettings,
        loop: HerderLoop,
        config: ConfigSync,
        group: GroupSession,
        reconciler: AssignmentReconciler,
        leader: Leader,
        keys: SessionKeyManager,
        statuses: StatusWriter,
        publisher: TaskConfigPublisher,
    ) -> None:
        self._settings = settings
        self._loop = loop
        self._config = config
        self._group = group
        self._reconciler = reconciler
        self._leader = leader
        self._keys = keys
        self._statuses = statuses
        self._publisher = publisher
        self._assignment: Assignment | None = None
        self._owes_stop = False  # the group waits for GroupMember.work_stopped
        self._mismatches = 0
        self._is_to_leave = False
        self._stay_out_until = 0.0

    def on_group_event(self, event: GroupEvent) -> None:
        """Queues an event of the group. Any thread."""
        match event:
            case Assigned():
                self._loop.post(lambda: self._assigned(event))
            case Revoked():
                self._loop.post(lambda: self._revoked(event))

    def join_if_due(self) -> None:
        """Joins the group if a rebalance is due. Until revoked instances have stopped, the group waits for this worker."""
        if self._reconciler.is_stopping:
            return
        if self._is_to_leave:
            self._is_to_leave = False
            self._group.member.leave("this worker's config topic is another one than the leader's")
        if time.monotonic() >= self._stay_out_until:
            with self._loop.doing("ensuring membership in the cluster"):
                self._group.member.poll(_POLL_S)

    def catch_up(self) -> None:
        """Repeats a read of the config topic that failed, and carries out the assignment that waits for it."""
        if self._config.catch_up() and not self._group.is_rebalancing:
            self._apply_assignment()

    def stop_finished(self) -> None:
        """Restarts what was stopped only for a restart, and joins the group if it waited for a stop."""
        self._reconciler.reconcile()
        self._confirm_stopped()
        self._loop.wake()  # a rebalance may have waited for this

    # --- revocation

    def _revoked(self, event: Revoked) -> None:
        # Promise 4: a worker outside the group owns nothing; others may run its instances already.
        if event.lost:
            log.warning("This worker is out of its group (%s); stopping all its connectors and tasks", event.reason)
        self._group.revoked()
        self._owes_stop = True
        if event.lost:
            self._reconciler.suspend()
        else:
            self._reconciler.revoke_all()
        self._reconciler.stop_all()
        self._confirm_stopped()

    def _confirm_stopped(self) -> None:
        if self._owes_stop and not self._reconciler.is_stopping:
            self._owes_stop = False
            self._group.member.work_stopped()

    # --- assignment

    def _assigned(self, event: Assigned) -> None:
        assignment = event.assignment
        previous_protocol = self._group.current.protocol
        self._group.joined(event)
        log.info(
            "Joined group at generation %d with protocol version %d: leader %s, %d connectors and %d tasks to start, %d and %d "
            "to stop, config offset %d",
            event.generation, event.protocol.version, assignment.leader_url, len(assignment.connectors), len(assignment.tasks),
            len(assignment.revoked_connectors), len(assignment.revoked_tasks), assignment.config_offset,
        )  # fmt: skip
        if previous_protocol is not event.protocol and event.protocol is Protocol.EAGER:
            log.warning("A worker of this group supports the eager protocol only: requests between workers are not signed")
        self._statuses.set_generation(event.generation)
        if assignment.failed:
            self._retry_after_mismatch()
            return
        self._mismatches = 0
        self._assignment = assignment
        self._reconciler.assign(assignment)
        if self._config.read_to(assignment.config_offset):
            self._apply_assignment()
        if assignment.revokes:
            self._group.rejoin("the revoked connectors and tasks have stopped")
        elif self._group.misses_config(assignment.config_offset):
            # Requested during this rebalance, so the client takes this one for the requested one.
            self._group.rejoin("the configuration changed during the rebalance")
        if assignment.delay_ms > 0:
            self._loop.post(lambda: self._group.rejoin("the scheduled rebalance is due"), assignment.delay_ms / 1000)
        self._group.is_ready = True

    def _apply_assignment(self) -> None:
        if self._assignment is not None and is_from_another_topic(self._assignment, self._config.store.snapshot()):
            self._stay_out(self._assignment.config_offset)
            return
        apply_newest_config(self._config, self._group, self._reconciler)
        if self._group.current.is_leader:
            self._lead(self._group.current.number)
        else:
            self._leader.resign()
        log.info("Starting connectors and tasks using config offset %d", self._config.state.offset)
        self._reconciler.reconcile()
        self._publisher.rebalanced()

    def _lead(self, generation: int) -> None:
        """Takes over as leader after a rebalance. Retries until the next one while the broker refuses."""
        current = self._group.current
        if current.number != generation or not current.is_leader:
            return
        try:
            with self._loop.doing("taking over as leader"):
                self._leader.take_over()
                self._statuses.remove_unknown(self._config.state)
                self._keys.renew_if_due()
        except ConnectError as e:
            log.warning("This worker cannot act as leader yet: %s; trying again", e.message)
            self._loop.post(lambda: self._lead(generation), _LEAD_RETRY_S)

    # --- disagreement about the config topic

    def _stay_out(self, leaders_offset: int) -> None:
        """Stops everything and leaves the group for ``worker.unsync.backoff.ms``, because the leader reads another config topic.
        Statuses of its connectors would overwrite those of connectors with the same names here."""
        own_offset = self._config.store.snapshot().offset
        log_another_topic(self._settings, self._group.current.leader_url, leaders_offset, own_offset)
        self._group.revoked()
        self._reconciler.revoke_all()
        self._reconciler.stop_all()
        self._is_to_leave = True
        self._stay_out_until = time.monotonic() + self._settings.unsync_backoff_ms / 1000

    def _retry_after_mismatch(self) -> None:
        """Rejoins with backoff, because the leader has not read what another member has."""
        self._mismatches += 1
        log_repeated_mismatch(self._settings, self._mismatches)
        self._config.read_to(self._config.store.snapshot().offset + 1)
        delay_s = _RETRY_BACKOFF.delay_after_s(self._mismatches)
        self._loop.post(lambda: self._group.rejoin("the leader had not read the config topic to its end"), delay_s)


_MISMATCHES_BEFORE_ERROR = 3


def is_from_another_topic(assignment: Assignment, state: ConfigState) -> bool:
    """Returns whether a leader that reads this worker's config topic, of which ``state`` is the end, cannot have sent this."""
    if state.offset != assignment.config_offset:
        return state.offset < assignment.config_offset
    assigned = {*assignment.connectors, *(task.connector for task in assignment.tasks)}
    return not all(state.contains(name) for name in assigned)


def log_another_topic(settings: DistributedSettings, leader_url: str, leaders_offset: int, own_offset: int) -> None:
    """Logs that an assignment :func:`is_from_another_topic`."""
    log.error(
        "The leader of group %s, %s, reads another config topic than %s: it has read its own to offset %d, this one ends at %d "
        "and lacks what it assigns. Either two clusters use the same group.id: give each its own. Or the topic was deleted and "
        "created again: restart all workers. This worker runs nothing and stays out of the group for %g s "
        "(worker.unsync.backoff.ms)",
        settings.group_id, leader_url, settings.config_topic.name, leaders_offset, own_offset,
        settings.unsync_backoff_ms / 1000,
    )  # fmt: skip


def log_repeated_mismatch(settings: DistributedSettings, mismatches: int) -> None:
    """Logs an error once several rebalances in a row have failed because the leader had not read what another member has."""
    if mismatches == _MISMATCHES_BEFORE_ERROR:
        log.error(
            "The workers of group %s repeatedly disagree on the end of config topic %s. If this persists, two clusters with "
            "different config topics use the same group.id: give each its own",
            settings.group_id,
            settings.config_topic.name,
        )
