"""Members of a worker group and a real group coordinator."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from connect.errors import ConnectError, UnreachableError
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import free_ports
from tests.support.waiting import WAIT_S, call_with_timeout, eventually
from tests.unit.worker.group.cluster import Config
from worker.group.assignor import IncrementalCooperativeAssignor
from worker.group.config import GroupSettings
from worker.group.config_view import ConfigView
from worker.group.eager_assignor import assign_eagerly
from worker.group.events import Assigned, GroupEvent, Revoked
from worker.group.member import GroupMember
from worker.group.protocol import Assignment, Protocol, WorkerMetadata, allocation_after
from worker.model import TaskId

Start = Callable[..., "Herder"]

CONFIG = Config(5, {"a": 4, "b": 2})


class Herder:
    """The least that a herder does, on a thread of its own."""

    def __init__(self, name: str, settings: Mapping[str, str], config: Config = CONFIG) -> None:
        self.name = name
        self.config: ConfigView = config
        self.held: tuple[int, Assignment | None] = (-1, None)  # and since which generation, which the member knows of earlier
        self.events: list[GroupEvent] = []
        self.failure: ConnectError | None = None
        self.acknowledges = True
        self.joins = 0
        self.assigned = threading.Event()
        self.polls = threading.Event()
        self.polls.set()
        self._stopping = False
        self._woken = threading.Event()
        self._inbox: list[GroupEvent] = []
        self._rejoin_at: float | None = None
        self._assignor = IncrementalCooperativeAssignor(0, lambda: int(time.monotonic() * 1000))
        self.member = GroupMember(
            GroupSettings.of(settings, client_id=name),
            metadata=self._metadata,
            assign=self._assign,
            events=self._inbox.append,
            wake=self._woken.set,
        )
        self._thread = threading.Thread(target=self._run, name=f"herder-{name}", daemon=True)

    def start(self) -> None:
        self.member.start()
        self._thread.start()

    def close(self) -> None:
        self._stopping = True
        self.polls.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(WAIT_S)
            assert not self._thread.is_alive()
        self.member.close()

    @property
    def allocation(self) -> Assignment | None:
        return self.held[1]

    @property
    def tasks(self) -> set[TaskId]:
        return tasks_of(self.allocation)

    def revoked(self) -> list[Revoked]:
        return [event for event in self.events if isinstance(event, Revoked)]

    def _run(self) -> None:
        while not self._stopping:
            self.polls.wait()
            try:
                self.member.poll(0.5)
            except ConnectError as e:
                self.failure = e
                return
            while self._inbox:
                self._handle(self._inbox.pop(0))
            if self._rejoin_at is not None and time.monotonic() >= self._rejoin_at:
                self._rejoin_at = None
                self.member.request_rejoin("the delay is over")
            self._woken.wait(0.05)
            self._woken.clear()

    def _handle(self, event: GroupEvent) -> None:
        if isinstance(event, Revoked):
            self.held = (-1, None)
            self.events.append(event)
            if self.acknowledges:
                self.member.work_stopped()
            return
        answer = event.assignment
        self.held = (event.generation, allocation_after(self.allocation, answer))
        self.events.append(event)
        self.assigned.set()
        if answer.failed or answer.revokes:
            self.member.request_rejoin("told to stop something")
        if answer.delay_ms:
            self._rejoin_at = time.monotonic() + answer.delay_ms / 1000

    def _metadata(self) -> WorkerMetadata:
        self.joins += 1
        return WorkerMetadata(f"http://{self.name}/", self.config.offset, self.allocation)

    def _assign(self, members: Mapping[str, WorkerMetadata], protocol: Protocol, leader_id: str) -> Mapping[str, Assignment]:
        config = self.config
        if protocol is Protocol.EAGER:
            return assign_eagerly(members, leader_id=leader_id, config=config, fresh_config=lambda: self.config)
        return self._assignor.assign(
            members, leader_id=leader_id, protocol=protocol, config=config, fresh_config=lambda: self.config,
            generation=self.member.forming_generation, last_completed_generation=self.member.last_completed_generation,
        )  # fmt: skip


@pytest.fixture
def start(broker: EmbeddedBroker, unique_name: Callable[[str], str]) -> Iterator[Start]:
    """Starts members of one group; all are closed at the end."""
    group, herders = unique_name("group"), []

    def make(name: str, config: Config = CONFIG, **settings: str) -> Herder:
        props = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "session.timeout.ms": "10000",  # a machine that stalls for some seconds is no member that is lost
            "heartbeat.interval.ms": "200",
            "rebalance.timeout.ms": "20000",
        }
        herder = Herder(name, {**props, **{key.replace("_", "."): value for key, value in settings.items()}}, config)
        herders.append(herder)
        herder.start()
        return herder

    yield make
    for herder in herders:
        herder.close()

    def left() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("kafka-io-w")]

    # A close waits for its thread for some seconds only.
    eventually(lambda: left() == [], "no IO thread is left", explain=lambda: str(left()))


def tasks_of(allocation: Assignment | None) -> set[TaskId]:
    return set(allocation.tasks) if allocation else set()


def all_tasks(config: Config = CONFIG) -> set[TaskId]:
    return {task for name in config.connectors() for task in config.tasks(name)}


def shared(*herders: Herder) -> bool:
    """Whether the members agree on a generation and hold everything between them, once."""
    found = [herder.held for herder in herders]
    held = [task for _, allocation in found for task in tasks_of(allocation)]
    generations = {generation for generation, _ in found} | {herder.member.generation for herder in herders}
    return len(held) == len(all_tasks()) and set(held) == all_tasks() and len(generations) == 1 and -1 not in generations


def test_members_share_the_tasks_as_they_join_and_leave(start: Start) -> None:
    one = start("w1")
    eventually(lambda: shared(one), "the first member has everything")
    assert one.member.is_leader
    assert one.member.protocol is Protocol.SESSIONED
    assert one.member.coordinator_unreachable_since is None
    assigned = one.events[0]
    assert isinstance(assigned, Assigned)
    assert (assigned.leader_id, assigned.assignment.leader_url) == (one.member.member_id, "http://w1/")
    assert one.member.member_id.startswith("w1-")

    two, three = start("w2"), start("w3")
    members = (one, two, three)
    eventually(lambda: shared(*members) and {len(member.tasks) for member in members} == {2}, "all three have a third")
    assert [herder.member.is_leader for herder in (one, two, three)] == [True, False, False]
    assert two.member.leader_id == one.member.member_id

    three.close()
    eventually(lambda: shared(one, two) and not three.member.member_id, "the others have what the third left")
    # Its leaving was told, not noticed.
    assert (three.member.generation, three.revoked()) == (-1, [])

    one.close()
    eventually(lambda: shared(two) and two.member.is_leader, "the last one leads")
    assert two.revoked() == []


def test_new_configuration_reaches_all_members_when_one_rejoins(start: Start) -> None:
    one, two = start("w1"), start("w2")
    eventually(lambda: shared(one, two), "both share")
    more = Config(9, {"a": 4, "b": 2, "c": 2})
    leader, follower = (one, two) if one.member.is_leader else (two, one)
    before = leader.tasks, follower.tasks
    follower.config = more
    follower.member.request_rejoin("the configuration changed")
    eventually(lambda: leader.member.consecutive_mismatches > 1, "the leader says that it is behind")
    leader.config = more
    eventually(lambda: leader.tasks | follower.tasks == all_tasks(more), "the new tasks are given out")
    assert before[0] <= leader.tasks
    assert before[1] <= follower.tasks
    eventually(
        lambda: leader.member.consecutive_mismatches == 0 == follower.member.consecutive_mismatches, "no mismatch any more"
    )


@pytest.mark.long
def test_member_that_is_not_polled_stops_and_rejoins_when_it_is(start: Start) -> None:
    one = start("w1", rebalance_timeout_ms="3000")
    two = start("w2", rebalance_timeout_ms="3000")
    eventually(lambda: shared(one, two), "both share")
    stuck, other = (two, one) if one.member.is_leader else (one, two)
    stuck.polls.clear()
    eventually(lambda: stuck.member.generation == -1, "the stuck member is out")
    eventually(lambda: shared(other), "the other one has everything")
    stuck.polls.set()
    eventually(lambda: shared(one, two) and bool(stuck.tasks), "both share again")
    assert [event.lost for event in stuck.revoked()] == [True]
    assert "rebalance.timeout.ms=3000" in stuck.revoked()[0].reason


@pytest.mark.long
def test_join_that_completes_while_nobody_polls_is_not_repeated(start: Start) -> None:
    slow = {"session_timeout_ms": "20000", "heartbeat_interval_ms": "2000"}
    one, two = start("w1", **slow), start("w2", **slow)
    eventually(lambda: shared(one, two), "both share")
    leader, follower = (one, two) if one.member.is_leader else (two, one)
    generation, joins = leader.member.generation, leader.joins
    leader.member.request_rejoin("something changed")
    eventually(lambda: leader.joins > joins, "the leader joins")
    leader.polls.clear()
    # An attempt lasts a second, and the follower hears of the round with its next heartbeat.
    eventually(lambda: follower.member.generation > generation, "the round ends for the follower")
    leader.polls.set()
    eventually(lambda: shared(one, two), "the leader has its answer")
    assert leader.member.generation == generation + 1


@pytest.mark.long
def test_member_does_not_rejoin_until_revoked_instances_have_stopped(start: Start) -> None:
    one = start("w1", connect_protocol="eager", session_timeout_ms="4000")
    eventually(lambda: shared(one), "the first member has everything")
    one.acknowledges = False
    two = start("w2", connect_protocol="eager", session_timeout_ms="4000")
    eventually(lambda: len(one.revoked()) == 1, "the first is told to stop")
    assert one.revoked() == [Revoked(lost=False, reason="the group rebalances")]
    assert two.events == []
    # Its heartbeats go on while it stops its work, or the group would go on without it after a session.
    assert not two.assigned.wait(5)
    one.member.work_stopped()
    eventually(lambda: shared(one, two), "both share")
    assert len(one.revoked()) == 1
    assert one.member.protocol is Protocol.EAGER


def test_one_eager_member_makes_the_group_eager(start: Start) -> None:
    one = start("w1")
    eventually(lambda: one.member.protocol is Protocol.SESSIONED, "it speaks the best it can")
    two = start("w2", connect_protocol="eager")
    eventually(lambda: one.member.protocol is Protocol.EAGER and shared(one, two), "both speak what both can")
    two.close()
    eventually(lambda: one.member.protocol is Protocol.SESSIONED and shared(one), "and again the best")
    # Before the join that made it cooperative, and not before the one that made it eager.
    assert [event.lost for event in one.revoked()] == [False]


class Log(logging.Handler):
    """What reaches a worker's log. The test runner's own listens to loggers that say nothing there."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def worker_log() -> Iterator[Log]:
    root, handler = logging.getLogger(), Log()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield handler
    root.setLevel(level)
    root.removeHandler(handler)


@pytest.mark.long
@pytest.mark.harms_broker
def test_members_wait_for_a_restarted_broker(start: Start, broker: EmbeddedBroker, worker_log: Log) -> None:
    one, two = start("w1"), start("w2")
    eventually(lambda: shared(one, two), "both share")
    worker_log.records.clear()
    broker.stop()
    eventually(lambda: bool(one.revoked() and two.revoked()), "both stop their work")
    unreachable_since = one.member.coordinator_unreachable_since
    assert unreachable_since is not None
    assert (one.tasks, one.member.generation) == (set(), -1)
    broker.start()
    eventually(lambda: shared(one, two) and bool(one.tasks and two.tasks), "both share again")
    assert one.member.coordinator_unreachable_since is None
    # One line when a disturbance begins and one when it ends, in our words. A busy broker may disturb a member twice.
    said = [record.getMessage() for record in worker_log.records]
    ends = sum("responds again after" in text for text in said)
    assert sum(text.startswith("No group coordinator responds for group") for text in said) == ends >= 2
    assert not [record for record in worker_log.records if record.name.startswith("kafka")]


@pytest.mark.long
@pytest.mark.harms_broker
def test_silent_coordinator_is_abandoned_after_the_session_timeout(start: Start, broker: EmbeddedBroker) -> None:
    # A request is waited for much longer than this test waits.
    one = start("w1", session_timeout_ms="4000", request_timeout_ms="600000")
    eventually(lambda: shared(one), "it has everything")
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        eventually(lambda: one.revoked() != [], "it stops its work")
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    assert one.revoked() == [Revoked(True, "the group coordinator did not respond for session.timeout.ms=4000")]
    eventually(lambda: shared(one), "it has everything again")


def test_unavailable_broker_raises_in_time(unique_name: Callable[[str], str]) -> None:
    (port,) = free_ports(1)
    herder = Herder("w1", {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": unique_name("group")})
    with pytest.raises(UnreachableError, match=f"no Kafka broker answers at 127.0.0.1:{port}"):
        call_with_timeout(lambda: herder.member.start(timeout_s=0.5), "a start")
    herder.member.close()


def test_rejected_session_timeout_names_the_broker_settings(start: Start) -> None:
    one = start("w1", session_timeout_ms="500", heartbeat_interval_ms="100")
    eventually(lambda: one.failure is not None, "poll says what is wrong")
    assert one.failure is not None
    assert "session.timeout.ms=500" in one.failure.message
    assert "group.min.session.timeout.ms" in one.failure.message
