"""Scenarios with two worker implementations: one takes over from the other, or both are in one group.

They also pass with Apache as both implementations, so a failure is a fault of the other one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sluice.embedded.broker import EmbeddedBroker
from tests.cluster.cluster import Cluster
from tests.cluster.topics import TopicReader, topic_reader
from tests.cluster.worker_process import Kind, WorkerProcess
from tests.interop.pipelines import Lines, Numbers, Unchanged, create_folder, mock_config, stored_configs
from tests.support.waiting import WAIT_S

_TASKS = 2
_THREADS = {"task.executors": "0"}
"""Our workers start twice as fast without executor processes; Apache's ignore the key."""


def take_over(broker: EmbeddedBroker, home: Path, first: Kind, then: Kind) -> None:
    """Stops a cluster of one implementation, continues with the other on the same topics, and goes back.

    All shutdowns are graceful, so no record may be missing or duplicated. Each implementation sees the other's changes over
    REST. About 30 s with Apache as both on a busy machine with two cores.
    """
    # No worker is killed. With long sessions a delayed worker keeps its membership and repeats no records.
    properties = {"session.timeout.ms": "30000", "consumer.session.timeout.ms": "30000", **_THREADS}
    with Cluster(broker, create_folder(home, "take-over"), workers=0, properties=properties) as cluster:
        lines, numbers = Lines(cluster), Numbers(cluster)
        one, other = cluster.add(first), cluster.add(then)

        cluster.start(one)
        cluster.create("paused", lines.source_config(file=str(home / "none.txt")), initial_state="PAUSED")
        cluster.create("stopped", lines.source_config(file=str(home / "none.txt")), initial_state="STOPPED")
        cluster.create("mock-source", mock_config("Source"))
        cluster.create("mock-sink", mock_config("Sink", topics=numbers.topic))
        cluster.create(lines.source, lines.source_config())
        cluster.create(lines.sink, lines.sink_config())
        cluster.create(numbers.source, numbers.source_config(_TASKS))
        cluster.create(numbers.sink, numbers.sink_config(1))
        _wait_until_all_run(cluster, lines, numbers)
        cluster.wait_for_state("paused", "PAUSED", tasks=0)
        cluster.wait_for_state("stopped", "STOPPED", tasks=0)
        lines.append("a", "b", "c")
        lines.assert_delivered_once()
        numbers.wait_for_more(_TASKS)
        configs = Unchanged(lambda: stored_configs(cluster))
        cluster.stop(one)

        cluster.start(other)
        _wait_until_all_run(cluster, lines, numbers)
        cluster.wait_for_state("paused", "PAUSED", tasks=0)
        cluster.wait_for_state("stopped", "STOPPED", tasks=0)
        lines.append("d", "e")
        lines.assert_delivered_once()
        numbers.wait_for_more(_TASKS)
        configs.check()
        _change(cluster, lines, str(home / "none.txt"))
        configs = Unchanged(lambda: stored_configs(cluster))
        cluster.stop(other)

        cluster.start(one)
        _wait_until_all_run(cluster, lines, numbers)
        cluster.wait_for_state("paused", tasks=1)
        cluster.wait_for_state("stopped", "STOPPED", tasks=0)
        assert cluster.send("GET", "/connectors/stopped/offsets") == _offsets(str(home / "none.txt"))
        assert cluster.send("GET", f"/connectors/{lines.source}/config")["batch.size"] == "7"
        lines.append("f")
        lines.assert_delivered_once()
        numbers.wait_for_more(_TASKS)
        configs.check()
        cluster.send("PUT", f"/connectors/{numbers.source}/stop")
        cluster.wait_for_state(numbers.source, "STOPPED", tasks=0)
        numbers.assert_all_reach_the_sink()
        numbers.assert_no_duplicates()
        cluster.stop()


def _wait_until_all_run(cluster: Cluster, lines: Lines, numbers: Numbers) -> None:
    for name in (lines.source, lines.sink, numbers.sink, "mock-source", "mock-sink"):
        cluster.wait_for_state(name, tasks=1)
    cluster.wait_for_state(numbers.source, tasks=_TASKS)


def _change(cluster: Cluster, lines: Lines, file: str) -> None:
    """Changes a target state, a config, and offsets."""
    cluster.send("PUT", "/connectors/paused/resume")
    cluster.wait_for_state("paused", tasks=1)
    commits = len(_commits(cluster, lines.source))
    cluster.send("PATCH", f"/connectors/{lines.source}/config", {"batch.size": "7"})
    cluster.wait_for(lambda: len(_commits(cluster, lines.source)) > commits, WAIT_S, "new task configs")
    cluster.wait_for_state(lines.source, tasks=1)
    cluster.send("PATCH", "/connectors/stopped/offsets", _offsets(file))


def _commits(cluster: Cluster, connector: str) -> list[Any]:
    return [one for one in cluster.config_records() if one.key_text == f"commit-{connector}"]


def _offsets(file: str) -> dict[str, Any]:
    return {"offsets": [{"partition": {"filename": file}, "offset": {"position": 4}}]}


def mixed_group(broker: EmbeddedBroker, home: Path, one: Kind, other: Kind, *, exactly_once: bool = False) -> None:
    """Two implementations in one group: tasks are balanced, REST works on either worker, and each becomes the leader.

    The second leads after the first is killed. Both use the ``sessioned`` protocol, so requests between them are signed.
    No number may be missing; with ``exactly_once`` none may be duplicated in the topic either, although a worker is killed.

    About 75 s with Apache as both on a busy machine with two cores, and 100 s with ``exactly_once``.
    """
    # Kafka's default timeouts, not the short ones of tests: a delayed worker must not change the leader.
    properties = {"session.timeout.ms": "10000", "consumer.session.timeout.ms": "10000", **_THREADS}
    if exactly_once:
        properties["exactly.once.source.support"] = "enabled"
    with Cluster(broker, create_folder(home, "mixed"), workers=0, properties=properties) as cluster:
        numbers, lines = Numbers(cluster), Lines(cluster)
        a, b = cluster.add(one), cluster.add(other)
        cluster.start(a)
        cluster.start(b)
        assert cluster.leader() is a

        cluster.create(numbers.source, numbers.source_config(4), worker=b)
        cluster.create(numbers.sink, numbers.sink_config(2), worker=b)
        for worker in (a, b):
            cluster.wait_for_state(numbers.source, tasks=4, worker=worker)
            cluster.wait_for_state(numbers.sink, tasks=2, worker=worker)
        _assert_balanced(cluster, numbers)
        numbers.wait_for_more(4)
        _send_requests_to(cluster, b, lines, prefix="by-follower")

        _change_leader_by_kill(cluster, a, b, numbers)
        _send_requests_to(cluster, a, lines, prefix="by-other-follower")

        cluster.send("PUT", f"/connectors/{numbers.source}/stop", worker=b)
        cluster.wait_for_state(numbers.source, "STOPPED", tasks=0)
        numbers.assert_all_reach_the_sink()
        if exactly_once:
            numbers.assert_no_duplicates_in_topic()
        cluster.stop()


def _change_leader_by_kill(cluster: Cluster, leader: WorkerProcess, successor: WorkerProcess, numbers: Numbers) -> None:
    """Kills the leader. The other worker leads and runs all tasks until the killed one restarts and gets its share."""
    assert cluster.leader() is leader
    leader.kill()
    cluster.wait_for_members(1)
    assert cluster.leader() is successor
    cluster.wait_for_state(numbers.source, tasks=4)
    cluster.wait_for_state(numbers.sink, tasks=2)
    numbers.wait_for_more(4)
    cluster.start(leader)
    assert cluster.leader() is successor
    cluster.wait_for(
        lambda: _task_counts(cluster, numbers) == [3, 3], WAIT_S, "tasks on both workers", lambda: _task_counts(cluster, numbers)
    )
    cluster.wait_for_state(numbers.source, tasks=4)
    cluster.wait_for_state(numbers.sink, tasks=2)
    numbers.wait_for_more(4)


def _assert_balanced(cluster: Cluster, numbers: Numbers) -> None:
    assert _task_counts(cluster, numbers) == [3, 3]


def _task_counts(cluster: Cluster, numbers: Numbers) -> list[int]:
    """Returns the number of tasks on each running worker."""
    found: Counter[str] = Counter()
    for name in (numbers.source, numbers.sink):
        found.update(task["worker_id"] for task in cluster.live[0].client.status(name)["tasks"])
    return [found[worker.worker_id] for worker in cluster.live]


def _send_requests_to(cluster: Cluster, follower: WorkerProcess, lines: Lines, *, prefix: str) -> None:
    """Sends each kind of request that only the leader may execute to the follower. Both must then report the same state.

    Uses two connectors, so that one runs on the follower, which then sends its task configs to the leader in a signed request.
    """
    assert cluster.leader() is not follower
    names = [f"{prefix}-{n}" for n in range(2)]
    for name in names:
        cluster.create(name, lines.source_config(file=f"{lines.read_from}-{name}"), worker=follower)
    for name in names:
        cluster.wait_for_state(name, tasks=1, worker=follower)
        path = f"/connectors/{name}"
        config = lines.source_config(file=f"{lines.read_from}-{name}", **{"batch.size": "9"})
        with _task_restart(cluster, name):
            cluster.send("PUT", f"{path}/config", config, worker=follower)
        assert _task_has(cluster, name, "batch.size", "9")
        with _task_restart(cluster, name):
            cluster.send("POST", f"{path}/restart", query=[("includeTasks", "true")], worker=follower)
        if name == names[0]:
            with _task_restart(cluster, name):
                cluster.send("POST", f"{path}/tasks/0/restart", worker=follower)
        cluster.send("PUT", f"{path}/pause", worker=follower)
        for worker in cluster.live:
            cluster.wait_for_state(name, "PAUSED", tasks=1, worker=worker)
        cluster.send("PUT", f"{path}/resume", worker=follower)
        for worker in cluster.live:
            cluster.wait_for_state(name, tasks=1, worker=worker)
            assert cluster.send("GET", f"{path}/config", worker=worker)["batch.size"] == "9"
        # Requests between members are rejected from anybody else.
        for worker in cluster.live:
            status, _ = cluster.exchange("POST", f"{path}/tasks", [], worker=worker)
            assert status in (400, 403), status
    for name in names:
        cluster.send("DELETE", f"/connectors/{name}", worker=follower)
    for worker in cluster.live:
        cluster.wait_for(partial(_has_none_of, worker, frozenset(names)), WAIT_S, f"deletion of {names}")


@contextmanager
def _task_restart(cluster: Cluster, connector: str) -> Iterator[None]:
    """Waits at the end until the connector's first task has reported RUNNING again.

    In an Apache worker, starts of one task in quick succession overlap, and an earlier one may write the last status. Then a
    paused task stays RUNNING forever, also in a group with only Apache's workers.
    """
    with topic_reader(cluster.bootstrap) as reader:
        reader.new_records([cluster.status_topic])
        yield
        cluster.wait_for(partial(_has_restarted, cluster, reader, connector), WAIT_S, f"a restart of {connector}-0")


def _has_restarted(cluster: Cluster, reader: TopicReader, connector: str) -> bool:
    key = f"status-task-{connector}-0"
    new = [one.json for one in reader.new_records([cluster.status_topic]) if one.key_text == key]
    return any(status is not None and status["state"] == "RUNNING" for status in new)


def _has_none_of(worker: WorkerProcess, names: frozenset[str]) -> bool:
    return names.isdisjoint(worker.client.connectors())


def _task_has(cluster: Cluster, connector: str, key: str, value: str) -> bool:
    """Whether the config of the connector's first task in the config topic has this value."""
    task = cluster.configs().get(f"task-{connector}-0", {"properties": {}})
    return bool(task["properties"].get(key) == value)
