"""The life of a distributed worker: it reads the three topics, joins the group, runs what it is given, and follows changes.

All state belongs to the herder's thread (:mod:`worker.distributed.herder_loop`). Apache's herder does the same in its ``tick``;
the difference is that nothing here waits for a connector: its start, stop and task configurations come back as jobs, so that one
that hangs delays neither requests nor the group.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from connect import crash_points
from connect.errors import ConfigError, ConnectError, UnreachableError
from worker.config.distributed_config import DistributedSettings
from worker.config.resolved_config import ResolvedConfigs
from worker.distributed.assignment_reconciler import LocalWork
from worker.distributed.config_changes import ConfigChanges
from worker.distributed.config_topic_mismatch import comes_from_another_topic, tell_of_another_topic, tell_of_mismatch
from worker.distributed.herder_loop import HerderLoop
from worker.distributed.leader import FenceProducers, Leader
from worker.distributed.leader_client import Peers
from worker.distributed.local_restarts import LocalRestarts
from worker.distributed.session_keys import SignedHeaders, signed
from worker.distributed.source_fencing import SourceStarts
from worker.distributed.status_writer import StatusWriter
from worker.distributed.task_config_publisher import Publishing
from worker.error_text import describe
from worker.executor import ConnectorSpec, Executor
from worker.group.events import Assigned, GroupEvent, Revoked
from worker.group.member import GroupMember
from worker.group.protocol import Assignment, Protocol, WorkerMetadata
from worker.model import State, TargetState, TaskId
from worker.storage.config_state import ConfigState
from worker.storage.config_store import ConfigListener, ConfigStore

T = TypeVar("T")

log = logging.getLogger(__name__)

_POLL_S = 0.5
"""How long one attempt to join may hold the thread; requests are seen in between."""
_LOOK_S = 1.0
_RETRY_FIRST_S, _RETRY_MOST_S = 0.25, 5.0
_WORKERS = 8


@dataclass(frozen=True, slots=True)
class Membership:
    """Where this worker stands in its group; replaced, never changed, so any thread may look."""

    generation: int = -1
    member_id: str = ""
    leader_id: str = ""
    leader_url: str = ""
    protocol: Protocol | None = None

    @property
    def is_leader(self) -> bool:
        return self.generation >= 0 and self.member_id == self.leader_id


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the herder's thread works with."""

    settings: DistributedSettings
    url: str
    """Where other workers reach this one; ends with a slash."""
    loop: HerderLoop
    executor: Executor
    values: ResolvedConfigs
    peers: Peers
    statuses: StatusWriter
    fence_producers: FenceProducers
    starts: Sequence[tuple[str, Callable[[], None]]]
    """What is to be started besides the config store before the group is joined, with what to call that."""
    on_logger_level: Callable[[str, str], None]
    """A level for the cluster's loggers."""
    on_fatal: Callable[[ConnectError], None]
    """The worker cannot go on."""
    observe: Callable[[str, Mapping[str, str | None] | None], None]
    """A configuration for the history, if it is not known there."""


class Coordination:
    """The herder's thread and all that it owns. Implements :class:`worker.distributed.assignment_reconciler.WorkEvents`."""

    def __init__(
        self,
        around: Surroundings,
        make_store: Callable[[ConfigListener], ConfigStore],
        make_member: Callable[[Coordination], GroupMember],
    ) -> None:
        """The two makers are given what the store and the member tell and ask."""
        self.settings = around.settings
        self.loop = around.loop
        self.membership = Membership()
        self.ready = False
        self._rejoining = True
        self._wanted_offset = -1
        self._held_up = False
        self._url = around.url
        self._values = around.values
        self._statuses = around.statuses
        self._starts = around.starts
        self._on_fatal = around.on_fatal
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="herder-work")
        self.store = make_store(ConfigChanges(self, around.values, around.statuses, around.on_logger_level, around.observe))
        self.state: ConfigState = self.store.snapshot()
        """The configuration that the worker goes by; the store may know more already."""
        self.work = LocalWork(around.executor, self, self.loop.post, lambda: self.state)
        self.leader = Leader(self.settings, self.store, around.fence_producers, self._pool)
        self.member = make_member(self)
        self.loop.interrupt = self.member.interrupt
        self.stopping = False
        self._behind = False
        self._mismatches = 0
        self._round: Assignment | None = None
        self._to_leave = False
        self._out_until = 0.0
        self._publishing = Publishing(self, around.peers, around.executor, self._pool)
        self.source_starts = SourceStarts(self, around.peers, around.executor, self._pool)
        self.restarts = LocalRestarts(self, around.statuses)

    # --- the thread

    def start(self) -> None:
        """Begins the herder's thread."""
        self.loop.start(self._run)

    def stop(self) -> None:
        """From any thread: stop everything, leave the group, end the thread."""
        self.stopping = True
        self.loop.wake()

    def _run(self) -> None:
        try:
            if self._start_services():
                while not self.stopping:
                    self._step()
        except ConnectError as e:
            if not self.stopping:  # else it is what came of waiting that was cut short
                self._on_fatal(e)
        except Exception as e:
            log.exception("The herder's thread failed")
            self._on_fatal(ConnectError(f"the herder failed: {describe(e)}"))
        finally:
            self._shut_down()

    def _start_services(self) -> bool:
        # Side by side, for most of it is waiting.
        starts = (("reading the config topic to its end", self.store.start), *self._starts)
        for what, begun in [(what, self._pool.submit(begin)) for what, begin in starts]:
            if self.stopping:
                return False
            with self.loop.doing(what):
                begun.result()
        self.state = self.store.snapshot()
        with self.loop.doing("looking for the group coordinator"):
            while not self.stopping:
                try:
                    self.member.start()
                    return True
                except ConnectError as e:
                    if not _may_pass(e):
                        raise
                    log.warning("%s; trying again", e.message)
                    self.loop.wait(_LOOK_S)
        return False

    def _step(self) -> None:
        if self._behind:
            self._catch_up()
        # Joining means: what was to stop has stopped. Until then the group waits for this worker.
        if not self.work.stopping:
            if self._to_leave:
                self._to_leave = False
                self.member.leave("this worker's config topic is another one than the leader's")
            if time.monotonic() >= self._out_until:
                with self.loop.doing("ensuring membership in the cluster"):
                    self.member.poll(_POLL_S)
        with self.loop.doing("processing requests and changes"):
            next_s = self.loop.run_due()
        if not self.stopping:
            self.loop.wait(_LOOK_S if next_s is None else min(_LOOK_S, next_s))

    def _shut_down(self) -> None:
        deadline = time.monotonic() + self._statuses.graceful_s + 2.0
        self.work.suspend()  # what has stopped is not started again while the rest still stops
        self.work.stop_all()
        while self.work.stopping and time.monotonic() < deadline:
            self.loop.run_due()
            if self.work.stopping:
                self.loop.wait(0.1)
        self.loop.run_due()  # what tasks said last
        self.member.leave("the worker is stopping")
        self.member.close()
        self.membership = Membership()
        self.loop.refuse_all(ConnectError("The worker is shutting down"))
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- the group. The first two are called on the group's own thread and only look.

    def metadata(self) -> WorkerMetadata:
        return WorkerMetadata(self._url, self.store.snapshot().offset, self.work.held)

    def assign(self, members: Mapping[str, WorkerMetadata], protocol: Protocol, leader_id: str) -> Mapping[str, Assignment]:
        return self.leader.assign(
            members,
            protocol,
            leader_id,
            generation=self.member.forming_generation,
            last_completed_generation=self.member.last_completed_generation,
        )

    def on_group_event(self, event: GroupEvent) -> None:
        """From any thread."""
        match event:
            case Assigned():
                self.loop.post(lambda: self._assigned(event))
            case Revoked():
                self.loop.post(lambda: self._revoked(event))

    @property
    def rejoining(self) -> bool:
        """Whether the outcome of a round is awaited."""
        return self._rejoining or self.member.is_joining

    def rejoin(self, reason: str) -> None:
        """Asks for a new round of the group, by what this worker knows now of the configuration."""
        self._rejoining = True
        self._wanted_offset = max(self._wanted_offset, self.state.offset)
        self.member.request_rejoin(reason)
        self.loop.wake()  # the thread may be about to wait, and joining is its next step

    def _revoked(self, event: Revoked) -> None:
        # Promise 4: whoever is out of the group owns nothing; others may run it already.
        if event.lost:
            log.warning("This worker is out of its group (%s): all its connectors and tasks are stopped", event.reason)
        self.membership = replace(self.membership, generation=-1)
        self._rejoining = True
        self._held_up = True
        if event.lost:
            self.work.suspend()
        else:
            self.work.take_nothing()
        self.work.stop_all()
        self._let_join()

    def _let_join(self) -> None:
        if self._held_up and not self.work.stopping:
            self._held_up = False
            self.member.work_stopped()

    def _assigned(self, event: Assigned) -> None:
        answer = event.assignment
        before = self.membership
        self.membership = Membership(event.generation, event.member_id, event.leader_id, answer.leader_url, event.protocol)
        self._rejoining = False
        log.info(
            "Joined group at generation %d with protocol version %d: leader %s, %d connectors and %d tasks to start, %d and %d "
            "to stop, config offset %d",
            event.generation, event.protocol.version, answer.leader_url, len(answer.connectors), len(answer.tasks),
            len(answer.revoked_connectors), len(answer.revoked_tasks), answer.config_offset,
        )  # fmt: skip
        if before.protocol is not event.protocol and event.protocol is Protocol.EAGER:
            log.warning("A worker of this group speaks the eager protocol only: requests between workers are not signed")
        self._statuses.generation = event.generation
        if answer.failed:
            self._mismatch()
            return
        self._mismatches = 0
        self._round = answer
        self.work.take(answer)
        if self._read_to(answer.config_offset):
            self._begin_round()
        if answer.revokes:
            self.rejoin("what was revoked has stopped")
        elif answer.config_offset < self._wanted_offset:
            # Asked for while this round was under way, which the client takes for the one that was meant.
            self.rejoin("the configuration changed during the round")
        if answer.delay_ms > 0:
            self.loop.post(lambda: self.rejoin("the scheduled rebalance is due"), answer.delay_ms / 1000)
        self.ready = True

    def _begin_round(self) -> None:
        if self._round is not None and comes_from_another_topic(self._round, self.store.snapshot()):
            self._stay_out(self._round.config_offset)
            return
        self.take_snapshot()
        if self.membership.is_leader:
            self._lead(self.membership.generation)
        else:
            self.leader.resign()
        log.info("Starting connectors and tasks using config offset %d", self.state.offset)
        self.work.reconcile()
        self._publishing.round_over()

    def _lead(self, generation: int) -> None:
        """Does what a leader owes after a round; while the broker does not let it, it is tried again until the next round."""
        if self.membership.generation != generation or not self.membership.is_leader:
            return
        try:
            with self.loop.doing("taking over as leader"):
                self.leader.begin()
                self._statuses.remove_unknown(self.state)
                self._renew_session_key()
        except ConnectError as e:
            log.warning("This worker cannot act as leader yet: %s; trying again", e.message)
            self.loop.post(lambda: self._lead(generation), _LOOK_S)

    def _stay_out(self, leaders_offset: int) -> None:
        """What the leader deals out is not known here; what a connector of a name in both topics told it would spoil its own."""
        tell_of_another_topic(self.settings, self.membership.leader_url, leaders_offset, self.store.snapshot().offset)
        self.membership = replace(self.membership, generation=-1)
        self._rejoining = True
        self.work.take_nothing()
        self.work.stop_all()
        self._to_leave = True
        self._out_until = time.monotonic() + self.settings.unsync_backoff_ms / 1000

    def _mismatch(self) -> None:
        """The leader has not read what another member has."""
        self._mismatches += 1
        tell_of_mismatch(self.settings, self._mismatches)
        self._read_to(self.store.snapshot().offset + 1)
        delay_s = min(_RETRY_FIRST_S * 2 ** (self._mismatches - 1), _RETRY_MOST_S)
        self.loop.post(lambda: self.rejoin("the leader had not read the config topic to its end"), delay_s)

    # --- reading

    def take_snapshot(self) -> ConfigState:
        """Goes by what is read up to now; what it went by before is returned."""
        before, self.state = self.state, self.store.snapshot()
        if self.ready:
            # Its event is still to come, but nothing may start as the new tasks say before the round that follows from it.
            for name in {task.connector for task in (*self.work.tasks, *self.work.held_tasks)}:
                if before.task_generation(name) != self.state.task_generation(name):
                    self.work.tasks_changed(name, self.state.offset)
        return before

    def _read_to(self, offset: int) -> bool:
        """Whether the config topic was read that far, or to its end; it is tried for ``worker.sync.timeout.ms``."""
        if self.store.snapshot().offset >= offset:
            return True
        try:
            with self.loop.doing("reading to the end of the config topic"):
                self.store.refresh(self.settings.sync_timeout_ms / 1000)
        except ConnectError as e:
            log.warning("The config topic could not be read to its end: %s; trying again", e.message)
            self._behind = True
            return False
        return True

    def _catch_up(self) -> None:
        try:
            with self.loop.doing("reading to the end of the config topic"):
                self.store.refresh(self.settings.sync_timeout_ms / 1000)
        except ConnectError as e:
            log.debug("The config topic could still not be read to its end: %s", e.message)
            return
        self._behind = False
        if not self.rejoining:
            self._begin_round()

    # --- what runs here (WorkEvents)

    def spec(self, name: str, config: Mapping[str, str | None]) -> Future[ConnectorSpec]:
        given = {key: value for key, value in config.items() if value is not None}
        return self._pool.submit(lambda: ConnectorSpec(name, given, self._values.resolve_for_start(name, given)))

    def spec_for_request(self, name: str, config: Mapping[str, str | None]) -> Future[ConnectorSpec]:
        """The same for a connector that is not started for it."""
        given = {key: value for key, value in config.items() if value is not None}

        def resolved() -> ConnectorSpec:
            found = self._values.resolve_for_validation(given).values
            return ConnectorSpec(name, given, {key: value for key, value in found.items() if value is not None})

        return self._pool.submit(resolved)

    def reload(self, name: str, only_if_changed: bool) -> None:
        """Values of config providers have run out: what runs of a connector here is restarted. From any thread."""

        def restart() -> None:
            tasks = [task for task in self.work.tasks if task.connector == name]
            if self.state.target_state(name) is TargetState.STARTED and (name in self.work.connectors or tasks):
                log.info("What runs of connector %s is restarted for new values of its config providers", name)
                self.work.stop_tasks(tasks)
                self.work.stop_connector(name, for_good=False)

        def look() -> None:
            config = self.state.config(name)
            if config is None:
                return
            given = {key: value for key, value in config.items() if value is not None}
            try:
                changed = self._values.changed(name, given)
            except ConnectError as e:
                log.warning("Connector %s goes on with the values it has: %s", name, e.message)
                self._values.reschedule(name)
                return
            if changed or not only_if_changed:
                self.loop.post(restart)

        self._pool.submit(look)

    def before_tasks(self, name: str) -> Future[str | None]:
        return self.source_starts.before_tasks(name)

    def connector_started(self, name: str) -> None:
        self.reconfigure(name)

    def reconfigure(self, name: str) -> None:
        """Asks a connector that runs here for its tasks, and tells the leader when they are others."""
        self._publishing.reconfigure(name)

    def connector_stopped(self, name: str, *, for_good: bool) -> None:
        self._statuses.tell(name, State.UNASSIGNED)
        if self.restarts.goes_on(name):
            self._statuses.tell(name, State.RESTARTING)

    def tasks_stopped(self, tasks: Collection[TaskId]) -> None:
        crash_points.point("cluster.tasks_stopped")
        for task in tasks:
            if self.restarts.goes_on(task):
                self._statuses.tell(task, State.RESTARTING)

    def connector_failed(self, name: str, run: int, error: BaseException) -> None:
        self._statuses.failed(name, error)

    def tasks_failed(self, runs: Mapping[TaskId, int], error: BaseException) -> None:
        for task in runs:
            self._statuses.failed(task, error)

    def work_settled(self) -> None:
        self.work.reconcile()
        self._let_join()
        self.loop.wake()  # a round may have waited for this

    # --- session keys

    def signature(self, body: bytes) -> SignedHeaders | None:
        """What a request to the leader is signed with; None where the group does not sign."""
        key = self.store.snapshot().session_key
        if key is None or self.membership.protocol is not Protocol.SESSIONED:
            return None
        return signed(body, key, self.settings.signature_algorithm)

    def _renew_session_key(self) -> None:
        if self.membership.is_leader and not self.rejoining and self.membership.protocol is Protocol.SESSIONED:
            self.leader.renew_session_key()

    def schedule_key_renewal(self) -> None:
        after_ms = self.leader.key_expires_in_ms()
        if self.membership.is_leader and after_ms is not None:
            self.loop.post(self._renew_session_key, after_ms / 1000 + 0.01)


def _may_pass(error: ConnectError) -> bool:
    return isinstance(error, UnreachableError) and not isinstance(error, ConfigError)
