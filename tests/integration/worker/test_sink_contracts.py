"""What a sink task may rely on when partitions come and go: order of calls, what is committed, kinds of group protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from connect import SinkRecord, TopicPartition
from tests.integration.worker.conftest import StartWorker, Worker
from tests.integration.worker.fakes import SCRIPTS, Offsets, ScriptedSinkTask
from tests.integration.worker.test_sink_task import committed, config_of, create_topic, values
from tests.support.cases import first_fast
from tests.support.waiting import WAIT_S, eventually
from worker.model import State, TargetState

Name = Callable[[str], str]


def stop(worker: Worker, name: str) -> None:
    worker.herder.set_target_state(name, TargetState.STOPPED)
    eventually(lambda: worker.herder.connector_status(name).connector.state is State.STOPPED, "STOPPED")
    eventually(lambda: worker.herder.connector_status(name).tasks == [], "no tasks")


class Member:
    """Another member of a sink's group, to set off rebalances."""

    def __init__(self, bootstrap: str, name: str, topic: str, settings: Mapping[str, str]) -> None:
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"connect-{name}", **settings})
        self._consumer.subscribe([topic])

    def partitions(self) -> set[int]:
        self._consumer.poll(0.1)
        return {place.partition for place in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def join() -> Iterator[Callable[..., Member]]:
    members: list[Member] = []

    def join(worker: Worker, name: str, topic: str, **settings: str) -> Member:
        member = Member(worker.bootstrap, name, topic, {key.replace("_", "."): value for key, value in settings.items()})
        members.append(member)
        return member

    yield join
    for member in members:
        member.close()


def test_a_task_that_stops_is_asked_then_closed_and_then_committed_for(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, ["a", "b", "c"])
    script = SCRIPTS[name]

    def pre_commit(offsets: Offsets) -> Offsets:
        script.events.append(f"pre_commit {sorted(offsets.values())}")
        return {place: offset - 1 for place, offset in offsets.items()}

    script.pre_commit = pre_commit
    worker.create(name, config_of(name, topic))
    eventually(lambda: len(script.delivered) == 3, "the records")
    stop(worker, name)
    assert script.events[-2:] == ["pre_commit [3]", "close [0]"]
    assert committed(worker, name) == {0: 2}


def test_an_empty_result_of_pre_commit_commits_nothing(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, ["a"])
    script = SCRIPTS[name]
    script.pre_commit = lambda offsets: {}
    worker.create(name, config_of(name, topic))
    eventually(lambda: values(script.delivered) == ["a"], "the record")
    stop(worker, name)
    assert committed(worker, name) == {}


def test_topics_are_reported_under_their_original_names(worker: Worker, unique_name: Name) -> None:
    name, topic, empty = unique_name("sink"), unique_name("topic"), unique_name("empty")
    create_topic(worker, empty)
    worker.produce(topic, ["a"])
    route = {"transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter"}
    route |= {"transforms.r.regex": ".*", "transforms.r.replacement": "elsewhere"}
    worker.create(name, config_of(name, f"{topic},{empty}", **route))
    eventually(lambda: values(SCRIPTS[name].delivered) == ["a"], "the record")
    assert SCRIPTS[name].delivered[0].topic == "elsewhere"
    eventually(lambda: worker.herder.topics(name) == [topic], "the topic that was read")


def test_topics_of_a_deleted_connector_are_listed_until_they_are_reset(worker: Worker, unique_name: Name) -> None:
    name, topic, empty = unique_name("sink"), unique_name("topic"), unique_name("empty")
    create_topic(worker, empty)
    worker.produce(topic, ["a"])
    worker.create(name, config_of(name, topic))
    eventually(lambda: worker.herder.topics(name) == [topic], "the topic that was read")
    worker.herder.delete_connector(name)
    assert worker.herder.topics(name) == [topic]
    worker.create(name, config_of(name, empty))
    assert worker.herder.topics(name) == [topic]
    worker.herder.reset_topics(name)
    assert worker.herder.topics(name) == []
    worker.herder.delete_connector(name)
    assert worker.herder.topics(name) == []


def test_a_topic_without_convertible_records_is_not_an_active_topic(worker: Worker, unique_name: Name) -> None:
    name, topic, unreadable = unique_name("sink"), unique_name("topic"), unique_name("unreadable")
    worker.produce(topic, ["1"])
    worker.produce(unreadable, ["not json"])
    converter = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
    worker.create(name, config_of(name, f"{topic},{unreadable}", **converter, **{"errors.tolerance": "all"}))
    eventually(lambda: values(SCRIPTS[name].delivered) == [1], "the record")

    def passed() -> set[str]:
        return {entry.partition["kafka_topic"] for entry in worker.herder.offsets(name) if entry.partition and entry.offset}

    eventually(lambda: passed() == {topic, unreadable}, "both topics committed")
    eventually(lambda: worker.herder.topics(name) == [topic], "the topic of the record")


def test_a_task_can_pause_and_resume_partitions(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    create_topic(worker, topic, 2)
    script = SCRIPTS[name]
    held: list[ScriptedSinkTask] = []

    def on_open(task: ScriptedSinkTask, partitions: list[TopicPartition]) -> None:
        task.context.pause(TopicPartition(topic, 0))
        held.append(task)

    def put(records: list[SinkRecord], task: ScriptedSinkTask) -> None:
        if any(record.value == "go" for record in records):
            task.context.resume(TopicPartition(topic, 0))

    script.on_open, script.put = on_open, put
    worker.produce(topic, ["held"], partition=0)
    worker.produce(topic, ["free"], partition=1)
    worker.create(name, config_of(name, topic))
    eventually(lambda: values(script.delivered) == ["free"], "the partition that is not held up")
    # A pause by an operator and its end leave the task's own as it is.
    worker.herder.set_target_state(name, TargetState.PAUSED)
    worker.wait_for(name, State.PAUSED)
    worker.herder.set_target_state(name, TargetState.STARTED)
    worker.wait_for(name, State.RUNNING)
    worker.produce(topic, ["more"], partition=1)
    eventually(lambda: values(script.delivered) == ["free", "more"], "still only that one")
    worker.produce(topic, ["go"], partition=1)
    eventually(lambda: sorted(map(str, values(script.delivered))) == ["free", "go", "held", "more"], "the other one")


STRATEGIES = {
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
}


@pytest.mark.parametrize("strategy", first_fast(STRATEGIES))
def test_a_rebalance_revokes_partitions_according_to_the_strategy(
    worker: Worker, unique_name: Name, strategy: str, join: Callable[..., Member]
) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    create_topic(worker, topic, 2)
    for partition in (0, 1):
        worker.produce(topic, [f"p{partition}"], partition=partition)
    script = SCRIPTS[name]
    worker.create(
        name,
        config_of(
            name,
            topic,
            **{"consumer.override.partition.assignment.strategy": strategy, "consumer.override.heartbeat.interval.ms": "200"},
        ),
    )
    eventually(lambda: len(script.delivered) == 2, "both records")
    member = join(worker, name, topic, partition_assignment_strategy=STRATEGIES[strategy])
    eventually(lambda: len(member.partitions()) == 1, "a partition for the other member")
    (theirs,) = member.partitions()
    if STRATEGIES[strategy] == "cooperative-sticky":
        expected = ["open [0, 1]", f"close [{theirs}]"]  # the other one goes on without a break
    else:
        expected = ["open [0, 1]", "close [0, 1]", f"open [{1 - theirs}]"]
    eventually(lambda: script.events == expected, f"the calls, which are {script.events}")
    # What was delivered was committed before the partition went: nobody gets it again. One that stays waits for its interval.
    assert committed(worker, name)[theirs] == 1
    eventually(lambda: committed(worker, name) == {0: 1, 1: 1}, "the commit of both partitions")


@pytest.mark.long
def test_the_group_protocol_of_kip_848(worker: Worker, unique_name: Name, join: Callable[..., Member]) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    create_topic(worker, topic, 2)
    for partition in (0, 1):
        worker.produce(topic, [f"p{partition}"], partition=partition)
    script = SCRIPTS[name]
    worker.create(name, config_of(name, topic, **{"consumer.override.group.protocol": "consumer"}))
    eventually(lambda: len(script.delivered) == 2, "both records")
    member = join(worker, name, topic, group_protocol="consumer")
    eventually(lambda: len(member.partitions()) == 1, "a partition for the other member")
    (theirs,) = member.partitions()
    eventually(lambda: script.events[-1] == f"close [{theirs}]", "that partition only is closed")
    assert committed(worker, name)[theirs] == 1
    eventually(lambda: committed(worker, name) == {0: 1, 1: 1}, "the commit of both partitions")
    worker.produce(topic, ["more"], partition=1 - theirs)
    eventually(lambda: "more" in values(script.delivered), "what comes after")


def test_static_membership(worker: Worker, unique_name: Name) -> None:
    name, topic = unique_name("sink"), unique_name("topic")
    create_topic(worker, topic)
    worker.create(name, config_of(name, topic, **{"consumer.override.group.instance.id": "one"}))
    eventually(lambda: "open [0]" in SCRIPTS[name].events, "the assignment")
    admin = AdminClient({"bootstrap.servers": worker.bootstrap})
    group = admin.describe_consumer_groups([f"connect-{name}"])[f"connect-{name}"].result(WAIT_S)
    assert [member.group_instance_id for member in group.members] == ["one"]


@pytest.mark.long
def test_partitions_that_are_lost_are_closed_without_a_commit(worker: Worker, unique_name: Name) -> None:
    # A put that takes longer than max.poll.interval.ms: the group goes on without this member.
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, ["slow"])
    script = SCRIPTS[name]
    script.hang_in = "put"
    slow = {"consumer.override.session.timeout.ms": "6000", "consumer.override.max.poll.interval.ms": "6000"}
    worker.create(name, config_of(name, topic, **slow))
    assert script.hanging.wait(WAIT_S)
    admin = AdminClient({"bootstrap.servers": worker.bootstrap})

    def expelled() -> bool:
        return not admin.describe_consumer_groups([f"connect-{name}"])[f"connect-{name}"].result(WAIT_S).members

    eventually(expelled, "the member is out")
    script.hang_in = None
    script.hang.set()
    eventually(lambda: script.events[:2] == ["open [0]", "lost [0]"], f"the loss, but {script.events}")
    eventually(lambda: values(script.delivered) == ["slow", "slow"], "the record once more, for it was not committed")
    assert worker.state(name) is State.RUNNING


def test_a_cancelled_sink_task_commits_nothing(start_worker: StartWorker, unique_name: Name) -> None:
    worker = start_worker(task_shutdown_graceful_timeout_ms="300")
    name, topic = unique_name("sink"), unique_name("topic")
    worker.produce(topic, ["a"])
    script = SCRIPTS[name]

    def pre_commit(offsets: Offsets) -> Offsets:
        if offsets:
            script.hang_in = "pre_commit"
            script.maybe_hang("pre_commit")
        return offsets

    script.pre_commit = pre_commit
    worker.create(name, config_of(name, topic))
    assert script.hanging.wait(WAIT_S)
    stop(worker, name)
    script.hang.set()
    assert script.closed.wait(WAIT_S)
    assert committed(worker, name) == {}
