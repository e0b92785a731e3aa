"""Operations beyond Apache's in a cluster: connectors.dir, config history, automatic restarts."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sluice.embedded.broker import EmbeddedBroker
from tests.cluster.cluster import Cluster
from tests.cluster.topics import read_topic
from tests.integration.executors.plugins import PATH
from tests.support.waiting import WAIT_S

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def put_file(folder: Path, name: str, **config: str) -> None:
    """Writes a connector file atomically, like a deployment."""
    lines = [f"name={name}", *(f"{key.replace('__', '.')}={value}" for key, value in config.items())]
    draft = folder / f".{name}.tmp"
    draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
    draft.rename(folder / f"{name}.properties")


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n", encoding="utf-8")
    return file


@pytest.mark.long
def test_connectors_follow_the_directory_of_the_current_leader(
    broker: EmbeddedBroker, tmp_path: Path, lines: Path, unique_name: Callable[[str], str]
) -> None:
    folder = tmp_path / "connectors"
    folder.mkdir()
    topic = unique_name("lines")
    put_file(folder, "a", connector__class=FILE_SOURCE, file=str(lines), topic=topic)
    with Cluster(broker, tmp_path, 2, {"connectors.dir": str(folder), "task.executors": "0"}) as cluster:
        cluster.start()
        cluster.wait_for_state("a", "RUNNING", tasks=1)
        # Created over REST, so no leader may delete it.
        cluster.create("mine", {"connector.class": FILE_SOURCE, "file": str(lines), "topic": topic})

        put_file(folder, "a", connector__class=FILE_SOURCE, file=str(lines), topic=topic, batch__size="7")
        cluster.wait_for(lambda: cluster.client().config("a").get("batch.size") == "7", WAIT_S, "the change of a file")

        follower = next(worker for worker in cluster.live if worker is not cluster.leader())
        # Versions are recorded after the change, and other workers read them later.
        cluster.wait_for(
            lambda: [one["origin"] for one in follower.client.history("a")] == ["directory", "directory"],
            WAIT_S,
            "two versions at the follower",
            lambda: follower.client.history("a"),
        )

        cluster.leader().kill()
        put_file(folder, "b", connector__class=FILE_SOURCE, file=str(lines), topic=topic)
        (folder / "a.properties").unlink()
        cluster.wait_for(lambda: cluster.client().connectors() == ["b", "mine"], WAIT_S, "the next leader to apply the files")
        cluster.wait_for_state("b", "RUNNING", tasks=1)


@pytest.mark.long
def test_rollback_works_through_any_worker(
    broker: EmbeddedBroker, tmp_path: Path, lines: Path, unique_name: Callable[[str], str]
) -> None:
    config = {"connector.class": FILE_SOURCE, "file": str(lines), "topic": unique_name("lines")}
    with Cluster(broker, tmp_path, 2, {"task.executors": "0"}) as cluster:
        cluster.start()
        follower = next(worker for worker in cluster.live if worker is not cluster.leader())
        cluster.create("a", {**config, "batch.size": "5"})
        cluster.send("PUT", "/connectors/a/config", {**config, "batch.size": "6"}, worker=follower)
        cluster.send("DELETE", "/connectors/a", worker=follower)

        def versions() -> list[int]:
            status, answer = cluster.exchange("GET", "/sluice/connectors/a/history", worker=follower)
            return [one["version"] for one in answer] if status == 200 else []

        cluster.wait_for(lambda: versions() == [1, 2, 3], WAIT_S, "three versions")
        cluster.send("POST", "/sluice/connectors/a/rollback", query=[("version", "1")], worker=follower)
        cluster.wait_for_state("a", "RUNNING", tasks=1)
        assert follower.client.config("a")["batch.size"] == "5"


def test_failed_task_restarts_and_every_worker_shows_it_with_the_same_diagnosis(broker: EmbeddedBroker, tmp_path: Path) -> None:
    config = {
        "connector.class": "org.apache.kafka.connect.tools.MockSourceConnector",
        "mock_mode": "task-failure",
        "delay_ms": "0",
        "errors.restart.max.attempts": "2",
        "errors.restart.delay.initial.ms": "100",
    }
    with Cluster(broker, tmp_path, 2, {"task.executors": "0"}) as cluster:
        cluster.start()
        cluster.create("ill", config)

        def task_status(number: int) -> dict[str, Any]:
            status, answer = cluster.exchange("GET", "/connectors/ill/tasks/0/status", worker=cluster.workers[number])
            return answer if status == 200 else {}

        def is_settled(answer: dict[str, Any]) -> bool:
            return (answer.get("state"), answer.get("restarts")) == ("FAILED", {"count": 2, "next_ms": None})

        def both_report() -> bool:
            return all(is_settled(task_status(number)) for number in (0, 1))

        cluster.wait_for(both_report, WAIT_S, "both workers to report two restarts", lambda: (task_status(0), task_status(1)))

        # Each worker runs one of these tasks, and asks the other one for its live figures.
        (tmp_path / "go").touch()
        hung = {"connector.class": PATH, "tasks.max": "2", "folder": str(tmp_path), "does": "hang@poll"}
        cluster.create("hung", {**hung, "task.stall.timeout.ms": "1", "task.stall.quiet.timeout.ms": "1"})
        status = cluster.wait_for_state("hung", tasks=2)
        assert {task["worker_id"] for task in status["tasks"]} == {worker.worker_id for worker in cluster.workers}

        def diagnosed(number: int) -> list[tuple[str, str]]:
            status, answer = cluster.exchange("GET", "/sluice/diagnosis", worker=cluster.workers[number])
            return [(one["name"], one["code"]) for one in answer["problems"]] if status == 200 else []

        def is_diagnosed(found: list[tuple[str, str]]) -> bool:
            return {("hung/0", "stalled-call"), ("hung/1", "stalled-call")} < set(found) and "ill/0" in dict(found)

        def agree() -> bool:
            found, other = (sorted(diagnosed(number)) for number in (0, 1))
            return is_diagnosed(found) and found == other

        cluster.wait_for(agree, WAIT_S, "the same problems", lambda: [diagnosed(number) for number in (0, 1)])
        settled = task_status(0)
        time.sleep(0.3)  # longer than the delay before another restart
        assert task_status(0) == settled

        # Each worker shows the log lines of the one that ran the task.
        def lines(number: int) -> list[tuple[str, int | None, str]]:
            answer = cluster.workers[number].client.logs("ill", level="ERROR")
            return [(one["worker_id"], one["task"], one["message"]) for one in answer["lines"]]

        assert len(lines(0)) >= 3
        assert lines(0) == lines(1)
        assert {(worker_id, task) for worker_id, task, _ in lines(0)} == {(settled["worker_id"], 0)}

        # Each manual operation resets the count.
        for rounds, requests in enumerate(
            [
                [("POST", "/connectors/ill/tasks/0/restart")],
                [("POST", "/connectors/ill/restart?includeTasks=true&onlyFailed=true")],
                [("PUT", "/connectors/ill/pause"), ("PUT", "/connectors/ill/resume")],
            ],
            start=2,
        ):
            for method, path in requests:
                cluster.send(method, path)
            cluster.wait_for(
                partial(lambda count: failures(cluster).count(2) == count, rounds),
                WAIT_S,
                f"two restarts after {requests}",
                lambda: failures(cluster),
            )
        counts = failures(cluster)
        assert [count for count, before in zip(counts, [None, *counts], strict=False) if count != before] == [0, 1, 2] * 4


def failures(cluster: Cluster) -> list[int]:
    """Returns the restart count of the task of connector ill in each FAILED status."""
    records = read_topic(cluster.bootstrap, cluster.status_topic)
    statuses = [record.json for record in records if record.key_text == "status-task-ill-0" and record.value is not None]
    return [one["restarts"]["count"] for one in statuses if one["state"] == "FAILED"]


@pytest.mark.long
def test_a_rotated_secret_restarts_what_uses_it_on_all_workers_without_a_rebalance(
    broker: EmbeddedBroker, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    old, new = unique_name("old"), unique_name("new")
    secrets, folder = tmp_path / "secrets.properties", tmp_path / "files"
    secrets.write_text(f"topic={old}\n")
    folder.mkdir()
    string = "org.apache.kafka.connect.storage.StringConverter"
    props = {
        "config.providers": "file",
        "config.providers.file.class": "file",
        "config.providers.file.param.ttl.ms": "300",
        "value.converter": string,
        "task.executors": "0",
    }
    users = ("user-1", "user-2", "user-3")

    def lines(topic: str) -> list[str]:
        return sorted((one.value or b"").decode() for one in read_topic(broker.bootstrap, topic))

    with Cluster(broker, tmp_path, 2, props) as cluster:
        cluster.start()
        for name in (*users, "plain"):
            (folder / name).write_text(f"{name} before\n")
            topic = old if name == "plain" else f"${{file:{secrets}:topic}}"
            cluster.create(name, {"connector.class": FILE_SOURCE, "file": str(folder / name), "topic": topic})
            cluster.wait_for_state(name, "RUNNING", tasks=1)
        cluster.wait_for(lambda: len(lines(old)) == 4, WAIT_S, "the lines in the first topic", lambda: lines(old))
        configs = cluster.config_records()

        draft = tmp_path / "secrets.tmp"
        draft.write_text(f"topic={new}\n")
        draft.rename(secrets)

        def all_use_the_new_value() -> bool:
            for name in users:
                with (folder / name).open("a") as file:
                    file.write(f"{name} after\n")
            return {line.split()[0] for line in lines(new)} == set(users)

        cluster.wait_for(all_use_the_new_value, WAIT_S, "lines in the second topic", lambda: lines(new))

        statuses = [one for one in read_topic(broker.bootstrap, cluster.status_topic) if one.value is not None]
        states = [one.json["state"] for one in statuses if one.key_text == "status-task-plain-0"]
        assert states == ["RUNNING"], "a connector without the secret continues"
        # Session keys and restarts are no changes of connectors.
        kept = [one.key_text for one in cluster.config_records()[len(configs) :]]
        assert not [key for key in kept if key.startswith(("connector-", "task-", "commit-"))]


@pytest.mark.long
def test_every_worker_takes_signals(broker: EmbeddedBroker, tmp_path: Path, unique_name: Callable[[str], str]) -> None:
    topic = unique_name("signals")
    string = "org.apache.kafka.connect.storage.StringConverter"
    with Cluster(broker, tmp_path, 3, {"task.executors": "0", "value.converter": string}) as cluster:
        cluster.start()
        cluster.create("s", {"connector.class": "tests.integration.worker.signal_source:SignalSource", "topic": topic})
        for worker in cluster.live:  # each learns from the status topic where the task runs
            cluster.wait_for_state("s", "RUNNING", tasks=1, worker=worker)
        sent = [worker.client.signal("s", "log") for worker in cluster.live]
        cluster.wait_for(
            lambda: sorted((one.value or b"").decode() for one in read_topic(broker.bootstrap, topic)) == sorted(sent),
            WAIT_S,
            "the signals in the topic",
        )
        cluster.send("PUT", "/connectors/s/stop")
        cluster.wait_for_state("s", "STOPPED", tasks=0)
        status, answer = cluster.client().send("POST", "/sluice/connectors/s/signals", {"type": "log"})
        assert (status, answer["message"]) == (409, "No task of connector s runs at the moment; try again in a moment")
