"""Clusters of two makes of worker: one takes over from the other, and both work in one group. Each make may take either part.

Proven with Apache in both parts; a difference is then the other make's.
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
from tests.interop.pipelines import Lines, Numbers, Watched, folder_of, mock_config, stored_configs

WAIT_S = 60.0
_TASKS = 2


def take_over(broker: EmbeddedBroker, home: Path, first: Kind, then: Kind) -> None:
    """Connectors of a cluster of one make carry on when workers of the other start on its topics; and back.

    All is stopped in order in between, so nothing may be missing and nothing be there twice. What one make changes over REST, the
    other finds so. About 30 s with Apache in both parts on a busy machine of two cores.
    """
    # Nobody is killed: a worker that is held up for a while keeps its place, and repeats nothing.
    properties = {"session.timeout.ms": "30000", "consumer.session.timeout.ms": "30000"}
    with Cluster(broker, folder_of(home, "take-over"), workers=0, properties=properties) as cluster:
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
        _all_run(cluster, lines, numbers)
        cluster.wait_for_state("paused", "PAUSED", tasks=0)
        cluster.wait_for_state("stopped", "STOPPED", tasks=0)
        lines.grow("a", "b", "c")
        lines.arrive_once()
        numbers.go_on(_TASKS)
        configs = Watched(lambda: stored_configs(cluster))
        cluster.stop(one)

        cluster.start(other)
        _all_run(cluster, lines, numbers)
        cluster.wait_for_state("paused", "PAUSED", tasks=0)
        cluster.wait_for_state("stopped", "STOPPED", tasks=0)
        lines.grow("d", "e")
        lines.arrive_once()
        numbers.go_on(_TASKS)
        configs.is_unchanged()
        _change(cluster, lines, str(home / "none.txt"))
        configs = Watched(lambda: stored_configs(cluster))
        cluster.stop(other)

        cluster.start(one)
        _all_run(cluster, lines, numbers)
        cluster.wait_for_state("paused", tasks=1)
        cluster.wait_for_state("stopped", "STOPPED", tasks=0)
        assert cluster.send("GET", "/connectors/stopped/offsets") == _offsets(str(home / "none.txt"))
        assert cluster.send("GET", f"/connectors/{lines.source}/config")["batch.size"] == "7"
        lines.grow("f")
        lines.arrive_once()
        numbers.go_on(_TASKS)
        configs.is_unchanged()
        cluster.send("PUT", f"/connectors/{numbers.source}/stop")
        cluster.wait_for_state(numbers.source, "STOPPED", tasks=0)
        numbers.reach_the_sink()
        numbers.are_not_repeated()
        cluster.stop()


def _all_run(cluster: Cluster, lines: Lines, numbers: Numbers) -> None:
    for name in (lines.source, lines.sink, numbers.sink, "mock-source", "mock-sink"):
        cluster.wait_for_state(name, tasks=1)
    cluster.wait_for_state(numbers.source, tasks=_TASKS)


def _change(cluster: Cluster, lines: Lines, file: str) -> None:
    """One change of each kind that is stored: a target state, a config, offsets."""
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
    """Two makes in one group: work is shared evenly, REST on either answers for both, and each leads.

    The second leads once the first is killed. Both speak ``sessioned``, so requests between them are signed, whichever leads.
    With ``exactly_once`` no number may be in the topic twice, although a worker is killed; without, none may be missing.

    About 75 s with Apache in both parts on a busy machine of two cores, and 100 s with ``exactly_once``.
    """
    # Kafka's own timeouts, not the short ones of tests: who leads must not change because a worker is held up for a while.
    properties = {"session.timeout.ms": "10000", "consumer.session.timeout.ms": "10000"}
    if exactly_once:
        properties["exactly.once.source.support"] = "enabled"
    with Cluster(broker, folder_of(home, "mixed"), workers=0, properties=properties) as cluster:
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
        _is_balanced(cluster, numbers)
        numbers.go_on(4)
        _rest_through(cluster, b, lines, prefix="by-follower")

        _lead_after_kill(cluster, a, b, numbers)
        _rest_through(cluster, a, lines, prefix="by-other-follower")

        cluster.send("PUT", f"/connectors/{numbers.source}/stop", worker=b)
        cluster.wait_for_state(numbers.source, "STOPPED", tasks=0)
        numbers.reach_the_sink()
        if exactly_once:
            numbers.are_not_repeated_in_the_topic()
        cluster.stop()


def _lead_after_kill(cluster: Cluster, leader: WorkerProcess, heir: WorkerProcess, numbers: Numbers) -> None:
    """Kills the leader: the other leads, runs everything, and shares it again when the killed one is back."""
    assert cluster.leader() is leader
    leader.kill()
    cluster.wait_for_members(1)
    assert cluster.leader() is heir
    cluster.wait_for_state(numbers.source, tasks=4)
    cluster.wait_for_state(numbers.sink, tasks=2)
    numbers.go_on(4)
    cluster.start(leader)
    assert cluster.leader() is heir
    cluster.wait_for(
        lambda: _spread(cluster, numbers) == [3, 3], WAIT_S, "tasks on both workers", lambda: _spread(cluster, numbers)
    )
    cluster.wait_for_state(numbers.source, tasks=4)
    cluster.wait_for_state(numbers.sink, tasks=2)
    numbers.go_on(4)


def _is_balanced(cluster: Cluster, numbers: Numbers) -> None:
    assert _spread(cluster, numbers) == [3, 3]


def _spread(cluster: Cluster, numbers: Numbers) -> list[int]:
    """Tasks of the numbers on each worker that runs."""
    found: Counter[str] = Counter()
    for name in (numbers.source, numbers.sink):
        found.update(task["worker_id"] for task in cluster.live[0].client.status(name)["tasks"])
    return [found[worker.worker_id] for worker in cluster.live]


def _rest_through(cluster: Cluster, follower: WorkerProcess, lines: Lines, *, prefix: str) -> None:
    """Each kind of request that the leader must do, sent to the follower; both then tell the same.

    Two connectors, so that one of them runs on the follower, which must then send its task configs to the leader, signed.
    """
    assert cluster.leader() is not follower
    names = [f"{prefix}-{n}" for n in range(2)]
    for name in names:
        cluster.create(name, lines.source_config(file=f"{lines.read_from}-{name}"), worker=follower)
    for name in names:
        cluster.wait_for_state(name, tasks=1, worker=follower)
        path = f"/connectors/{name}"
        config = lines.source_config(file=f"{lines.read_from}-{name}", **{"batch.size": "9"})
        with _task_starts_anew(cluster, name):
            cluster.send("PUT", f"{path}/config", config, worker=follower)
        assert _task_has(cluster, name, "batch.size", "9")
        with _task_starts_anew(cluster, name):
            cluster.send("POST", f"{path}/restart", query=[("includeTasks", "true")], worker=follower)
        if name == names[0]:
            with _task_starts_anew(cluster, name):
                cluster.send("POST", f"{path}/tasks/0/restart", worker=follower)
        cluster.send("PUT", f"{path}/pause", worker=follower)
        for worker in cluster.live:
            cluster.wait_for_state(name, "PAUSED", tasks=1, worker=worker)
        cluster.send("PUT", f"{path}/resume", worker=follower)
        for worker in cluster.live:
            cluster.wait_for_state(name, tasks=1, worker=worker)
            assert cluster.send("GET", f"{path}/config", worker=worker)["batch.size"] == "9"
        # Nobody but a member may do what members ask of each other.
        for worker in cluster.live:
            status, _ = cluster.exchange("POST", f"{path}/tasks", [], worker=worker)
            assert status in (400, 403), status
    for name in names:
        cluster.send("DELETE", f"/connectors/{name}", worker=follower)
    for worker in cluster.live:
        cluster.wait_for(partial(_knows_none, worker, frozenset(names)), WAIT_S, f"deletion of {names}")


@contextmanager
def _task_starts_anew(cluster: Cluster, connector: str) -> Iterator[None]:
    """Waits until the connector's first task has said that it runs once more.

    In an Apache worker starts of one task that come close together go on side by side, and one that is over may have the last
    word in the status: seen as RUNNING for ever of a task that is paused, also in a group of Apache's workers alone.
    """
    with topic_reader(cluster.bootstrap) as reader:
        reader.new_records([cluster.status_topic])
        yield
        cluster.wait_for(partial(_runs_anew, cluster, reader, connector), WAIT_S, f"a new start of {connector}-0")


def _runs_anew(cluster: Cluster, reader: TopicReader, connector: str) -> bool:
    key = f"status-task-{connector}-0"
    new = [one.json for one in reader.new_records([cluster.status_topic]) if one.key_text == key]
    return any(status is not None and status["state"] == "RUNNING" for status in new)


def _knows_none(worker: WorkerProcess, names: frozenset[str]) -> bool:
    return names.isdisjoint(worker.client.connectors())


def _task_has(cluster: Cluster, connector: str, key: str, value: str) -> bool:
    """Whether the config topic has that setting for the connector's first task."""
    task = cluster.configs().get(f"task-{connector}-0", {"properties": {}})
    return bool(task["properties"].get(key) == value)
