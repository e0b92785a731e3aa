"""The command ``connect-standalone`` as a process: start, exit codes, signals, kills."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import free_ports
from tests.integration.worker.conftest import STRING, Worker
from tests.support.waiting import WAIT_S, eventually
from worker.storage.file_offset_store import OffsetFile

Name = Callable[[str], str]

CONFIGS = Path(__file__).parents[3] / "configs"


class Process:
    """One worker process with its files."""

    def __init__(self, folder: Path, bootstrap: str, **settings: str) -> None:
        self.folder = folder
        self.bootstrap = bootstrap
        self.port = free_ports(1)[0]
        self.settings = {
            "bootstrap.servers": bootstrap,
            "key.converter": STRING,
            "value.converter": STRING,
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "200",
            "listeners": f"http://127.0.0.1:{self.port}",
            # Workers start twice as fast without executors.
            "task.executors": "0",
            **settings,
        }
        self.log = folder / "worker.log"
        self.popen: subprocess.Popen[bytes] | None = None

    def start(self, *connectors: Path, env: dict[str, str] | None = None) -> Process:
        worker = self.folder / "worker.properties"
        worker.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        with self.log.open("ab") as log:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "sluice.run.standalone", str(worker), *map(str, connectors)],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(CONFIGS.parent), **(env or {})},
            )
        return self

    def get(self, path: str) -> Any:
        # Some requests query a broker that may have stalled; REST itself times out after 90 seconds.
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=WAIT_S) as answer:
            return json.load(answer)

    def wait_ready(self) -> Process:
        eventually(self._ready, "REST", self.text)
        return self

    def _ready(self) -> bool:
        try:
            return bool(self.get("/health")["status"] == "healthy")
        except OSError:
            return False

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.popen is not None
        self.popen.send_signal(number)
        return self.popen.wait(WAIT_S)

    def exit_code(self) -> int:
        assert self.popen is not None
        return self.popen.wait(WAIT_S)

    def runs(self) -> bool:
        return self.popen is not None and self.popen.poll() is None

    def text(self) -> str:
        """What the process has printed and logged."""
        return self.log.read_text()


@pytest.fixture
def process(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Creates worker processes and kills those that still run at the end."""
    created: list[Process] = []

    def create(name: str = "worker", **settings: str) -> Process:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        created.append(Process(folder, broker.bootstrap, **settings))
        return created[-1]

    yield create
    for one in created:
        if one.popen is not None and one.popen.poll() is None:
            one.popen.kill()
            one.popen.wait(WAIT_S)


def connector(folder: Path, name: str, **config: str) -> Path:
    file = folder / f"{name}.properties"
    lines = {"name": name, **{key.replace("__", "."): value for key, value in config.items()}}
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), encoding="utf-8")
    return file


def test_apache_quickstart_resumes_after_a_restart(process: Callable[..., Process], worker: Worker, unique_name: Name) -> None:
    topic = unique_name("connect-test")
    json_settings = {f"{kind}.converter": "org.apache.kafka.connect.json.JsonConverter" for kind in ("key", "value")}
    worker_process = process(**json_settings)
    folder = worker_process.folder
    (folder / "test.txt").write_text("foo\nbär\n", encoding="utf-8")
    files = []
    for file in ("connect-file-source.properties", "connect-file-sink.properties"):
        copy = folder / file
        copy.write_text((CONFIGS / file).read_text().replace("connect-test", topic))
        files.append(copy)
    sink = folder / "test.sink.txt"

    worker_process.start(*files)
    eventually(lambda: sink.exists() and sink.read_text(encoding="utf-8") == "foo\nbär\n", "both lines in the sink file")
    assert worker.values(topic, 1) == ['{"schema":{"type":"string","optional":false},"payload":"foo"}']
    with (folder / "test.txt").open("a", encoding="utf-8") as lines:
        lines.write("漢字\n")
    eventually(lambda: sink.read_text(encoding="utf-8") == "foo\nbär\n漢字\n", "the appended line")
    assert worker_process.end() == 0

    with (folder / "test.txt").open("a", encoding="utf-8") as lines:
        lines.write("again\n")
    worker_process.start(*files)
    eventually(lambda: sink.read_text(encoding="utf-8").endswith("again\n"), "the line after the restart")
    assert worker_process.end(signal.SIGINT) == 0
    assert sink.read_text(encoding="utf-8") == "foo\nbär\n漢字\nagain\n"


def test_sigterm_leaves_no_process_or_temporary_file(process: Callable[..., Process]) -> None:
    one = process(**{"task.executors": "2"})
    (one.folder / "in.txt").touch()
    one.start(connector(one.folder, "src", connector__class="FileStreamSource", file="in.txt", topic="t")).wait_ready()
    eventually(lambda: [task["state"] for task in one.get("/connectors/src/status")["tasks"]] == ["RUNNING"], "RUNNING")
    assert one.popen is not None
    children = psutil.Process(one.popen.pid).children(recursive=True)
    assert children
    assert one.end() == 0
    assert not [child for child in children if child.is_running()]
    assert sorted(path.name for path in one.folder.iterdir()) == [
        "in.txt", "offsets.lock", "src.properties", "worker.log", "worker.properties",
    ]  # fmt: skip
    assert "Kafka Connect started" in one.text()
    assert one.text().rstrip().endswith("Kafka Connect stopped (sluice.run.standalone)")


def test_missing_arguments_are_exit_code_1() -> None:
    done = subprocess.run([sys.executable, "-m", "sluice.run.standalone"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "connect-standalone worker.properties" in done.stderr


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"value.converter": "JsonConvertor"}, "Invalid value JsonConvertor for configuration value.converter"),
        pytest.param(
            {"offset.flush.interval.ms": "soon"},
            "Invalid value soon for configuration offset.flush.interval.ms",
            marks=pytest.mark.long,
        ),
        pytest.param({"listeners": "nonsense"}, "Invalid value nonsense for configuration listeners", marks=pytest.mark.long),
        ({"offset.storage.file.filename": "/nowhere/at/all/offsets"}, "/nowhere/at/all/offsets"),
    ],
)
def test_invalid_worker_config_is_exit_code_2(process: Callable[..., Process], settings: dict[str, str], expected: str) -> None:
    one = process(**settings).start()
    assert one.exit_code() == 2
    assert expected in one.text()
    assert "Traceback" not in one.text()


def test_missing_worker_file_is_exit_code_2(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sluice.run.standalone", str(tmp_path / "none.properties")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "none.properties" in done.stderr


def test_port_in_use_is_exit_code_2_and_reported(process: Callable[..., Process]) -> None:
    one = process()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", one.port))
        taken.listen()
        assert one.start().exit_code() == 2
    assert str(one.port) in one.text()


@pytest.mark.long
def test_second_worker_with_the_same_offset_file_is_exit_code_2(process: Callable[..., Process]) -> None:
    first = process("first").start().wait_ready()
    second = process("second", **{"offset.storage.file.filename": first.settings["offset.storage.file.filename"]}).start()
    assert second.exit_code() == 2
    assert first.popen is not None
    assert f"in use by another worker (process {first.popen.pid})" in second.text()
    assert first.get("/connectors") == []


def test_damaged_offset_file_is_exit_code_2(process: Callable[..., Process]) -> None:
    one = process()
    Path(one.settings["offset.storage.file.filename"]).write_bytes(b"not this")
    assert one.start().exit_code() == 2
    assert "it is damaged or not an offset file" in one.text()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"connector__class": "FileStreamSorce", "topic": "t"}, "FileStreamSource"),
        pytest.param({"connector__class": "FileStreamSource"}, 'Missing required configuration "topic"', marks=pytest.mark.long),
        pytest.param(
            {"connector__class": "FileStreamSource", "topic": "t", "tasks__max": "many"}, "tasks.max", marks=pytest.mark.long
        ),
    ],
)
def test_invalid_connector_is_exit_code_3(process: Callable[..., Process], config: dict[str, str], expected: str) -> None:
    one = process()
    assert one.start(connector(one.folder, "bad", **config)).exit_code() == 3
    assert expected in one.text()


@pytest.mark.long
def test_missing_connector_file_is_exit_code_3(process: Callable[..., Process]) -> None:
    one = process()
    assert one.start(one.folder / "none.properties").exit_code() == 3
    assert "none.properties" in one.text()


@pytest.mark.long
def test_unreadable_source_file_fails_the_task_with_the_reason(process: Callable[..., Process]) -> None:
    one = process()
    (one.folder / "a-folder").mkdir()
    one.start(connector(one.folder, "src", connector__class="FileStreamSource", file="a-folder", topic="t")).wait_ready()
    eventually(lambda: one.get("/connectors/src/status")["tasks"][0]["state"] == "FAILED", "FAILED")
    assert "s a directory" in one.get("/connectors/src/status")["tasks"][0]["trace"].splitlines()[0]


def test_secrets_in_configs_are_not_logged(process: Callable[..., Process]) -> None:
    one = process(**{"producer.sasl.jaas.config": 'PlainLoginModule required username="joe" password="hunter2";'})
    bad = connector(
        one.folder,
        "bad",
        connector__class="FileStreamSource",
        topic="t",
        producer__override__ssl__key__password="s3cr3t-1",
        file="x" * 10,
    )
    one.start(bad).wait_ready()
    assert one.end() == 0
    assert "hunter2" not in one.text()
    assert "s3cr3t-1" not in one.text()


FILES = {"config.providers": "file", "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider"}


@pytest.mark.parametrize("of_worker", [True, pytest.param(False, marks=pytest.mark.long)])
def test_missing_secret_is_reported_with_key_provider_and_path(process: Callable[..., Process], of_worker: bool) -> None:
    missing = "${file:/nowhere/s.properties:x}"
    one = process(**FILES, **({"producer.client.id": missing} if of_worker else {}))
    files = [] if of_worker else [connector(one.folder, "src", connector__class="FileStreamSource", topic=missing)]
    assert one.start(*files).exit_code() == (2 if of_worker else 3)
    key = "producer.client.id" if of_worker else "topic"
    reason = "Could not read properties from file /nowhere/s.properties: No such file or directory"
    assert f"{reason} (config provider 'file', for {missing} of {key})" in one.text()
    assert "Traceback" not in one.text()


@pytest.mark.long
def test_rotated_secret_restarts_the_connector_and_is_not_shown(
    process: Callable[..., Process], worker: Worker, unique_name: Name
) -> None:
    first, second = unique_name("first"), unique_name("second")
    one = process(**FILES, **{"config.providers.file.param.ttl.ms": "200"})
    secrets, source = one.folder / "secrets.properties", one.folder / "in.txt"
    secrets.write_text(f"topic={first}\n")
    source.write_text("one\n")
    reference = f"${{file:{secrets}:topic}}"
    one.start(connector(one.folder, "src", connector__class="FileStreamSource", file=str(source), topic=reference)).wait_ready()
    assert worker.values(first, 1) == ["one"]
    eventually(lambda: bool(one.get("/connectors/src/offsets")["offsets"]), "the offset is stored")

    rotated = one.folder / "rotated"
    rotated.write_text(f"topic={second}\n")
    rotated.rename(secrets)
    restarted = "Restarting connector src with new config provider values"
    eventually(lambda: restarted in one.text(), "the connector is restarted")
    # The message precedes the stop of the task, which still writes new records to the previous topic.
    eventually(lambda: one.text().count(f"Opened {source} at position") == 2, "the next task has the file", explain=one.text)
    with source.open("a") as lines:
        lines.write("two\n")
    assert worker.values(second, 1) == ["two"]

    shown = [one.get(path) for path in ("/connectors/src", "/connectors/src/tasks", "/connectors?expand=info&expand=status")]
    assert shown[0]["config"]["topic"] == reference
    assert shown[1][0]["config"]["topic"] == reference
    assert one.end() == 0
    output = json.dumps(shown) + one.text()
    assert first not in output
    assert second not in output
    assert one.text().count(restarted) == 1


@pytest.mark.harms_broker
@pytest.mark.long
def test_worker_that_starts_before_the_broker_waits_for_it(
    process: Callable[..., Process], broker: EmbeddedBroker, unique_name: Name
) -> None:
    topic = unique_name("topic")
    one = process()
    (one.folder / "in.txt").write_text("a\nb\n")
    source = connector(one.folder, "src", connector__class="FileStreamSource", file="in.txt", topic=topic)
    sink = connector(one.folder, "snk", connector__class="FileStreamSink", file="out.txt", topics=topic)
    broker.stop()
    try:
        one.start(source, sink).wait_ready()
        assert one.get("/")["kafka_cluster_id"] is None
        eventually(lambda: "No Kafka broker answers" in one.text(), "the notice")
    finally:
        broker.start()
    out = one.folder / "out.txt"
    eventually(lambda: out.exists() and out.read_text() == "a\nb\n", "both lines", timeout_s=180, explain=one.text)
    # A separate client queries the id, and may reconnect later than those of the tasks.
    eventually(lambda: one.get("/")["kafka_cluster_id"] is not None, "the cluster's id")
    assert one.end() == 0


def stored_position(folder: Path) -> int:
    """The offset of the connector ``src`` in the file of a worker that does not run; 0 if it has stored none."""
    with OffsetFile(folder / "offsets") as store:
        found = store.get("src", {"filename": "in.txt"})
    return 0 if found is None else int(found["position"])


# chaos/test_mariadb_kill.py kills the source of MariaDB at each of these points, too, in long runs.
@pytest.mark.parametrize(
    "point",
    [
        pytest.param("source.polled:20", marks=pytest.mark.long),
        "source.produced:3",
        pytest.param("offsets.drafted:3", marks=pytest.mark.long),
        pytest.param("offsets.written:3", marks=pytest.mark.long),
    ],
)
def test_worker_killed_at_a_crash_point_loses_no_records(
    process: Callable[..., Process], broker: EmbeddedBroker, unique_name: Name, point: str
) -> None:
    topic = unique_name("topic")
    one = process(**{"offset.flush.interval.ms": "20"})
    file = one.folder / "in.txt"
    file.write_text("", encoding="utf-8")
    source = connector(one.folder, "src", connector__class="FileStreamSource", file="in.txt", topic=topic, batch__size="50")
    one.start(source, env={"SLUICE_CRASH_AT": f"worker/{point}"}).wait_ready()
    # Write until the worker is killed: the number of lines per flush depends on the machine.
    lines: list[str] = []
    with file.open("a", encoding="utf-8") as output:
        while one.runs() and len(lines) < 100_000:
            more = [f"line {i} ä" for i in range(len(lines), len(lines) + 100)]
            output.write("".join(f"{line}\n" for line in more))
            output.flush()
            lines += more
            time.sleep(0.02)
    assert one.exit_code() == -signal.SIGKILL
    stored = stored_position(one.folder)
    one.start(source).wait_ready()
    last = lines[-1].encode()
    eventually(lambda: topic_values(broker.bootstrap, topic)[-1:] == [last], "the last line", explain=one.text)
    assert one.end() == 0
    found = [value.decode() for value in topic_values(broker.bootstrap, topic) if value is not None]
    assert list(dict.fromkeys(found)) == lines
    # Only what follows the stored offset comes again.
    before = file.read_bytes()[:stored].decode("utf-8").split("\n")[:-1]
    assert not [line for line, times in Counter(found).items() if times > 1 and line in set(before)]
    assert before or not point.startswith("offsets.")


@pytest.mark.parametrize("point", ["sink.precommitted:2"])
def test_sink_killed_before_its_commit_receives_the_records_again(
    process: Callable[..., Process], broker: EmbeddedBroker, unique_name: Name, point: str
) -> None:
    topic = unique_name("topic")
    # A killed worker does not leave its group: the next one waits for the session timeout.
    quick = {"consumer.session.timeout.ms": "1500", "consumer.heartbeat.interval.ms": "300"}
    one = process(**{"offset.flush.interval.ms": "100", **quick})
    sink = connector(one.folder, "snk" + topic, connector__class="FileStreamSink", file="out.txt", topics=topic)
    one.start(sink, env={"SLUICE_CRASH_AT": f"worker/{point}"}).wait_ready()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    # Produce until the worker is killed, because the sink may join late and commit all records at once; then some more.
    sent = sent_after_kill = 0
    while sent_after_kill < 10 and sent < 10_000:
        sent_after_kill += not one.runs()
        producer.produce(topic, str(sent))
        assert producer.flush(WAIT_S) == 0
        sent += 1
        time.sleep(0.01)
    producer.close()
    assert one.exit_code() == -signal.SIGKILL
    one.start(sink).wait_ready()
    out = one.folder / "out.txt"
    eventually(lambda: out.exists() and out.read_text().endswith(f"\n{sent - 1}\n"), "the last record")
    lines = out.read_text().split()
    assert list(dict.fromkeys(lines)) == [str(i) for i in range(sent)]
    assert len(lines) > sent, "no record came again, so offsets were committed before the kill"
    assert one.end() == 0


def topic_values(bootstrap: str, topic: str) -> list[bytes | None]:
    """Returns all values of a topic with one partition; none for a missing topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "look", "enable.auto.commit": False})
    try:
        if topic not in consumer.list_topics(timeout=WAIT_S).topics:
            return []
        end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)[1]
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes | None] = []
        while len(found) < end:
            found += [m.value() for m in consumer.consume(end - len(found), 1.0) if m.error() is None]
        return found
    finally:
        consumer.close()


def test_sink_killed_before_the_commit_of_a_dead_letter_loses_no_records(
    process: Callable[..., Process], unique_name: Name, tmp_path: Path
) -> None:
    # A unique name, because the group has the connector's name and keeps the offsets of earlier connectors.
    name, topic, dlq, out = unique_name("sink"), unique_name("topic"), unique_name("dlq"), tmp_path / "out.txt"
    # A killed worker does not leave its group: the next one waits for the session timeout.
    worker = process(**{"consumer.session.timeout.ms": "1500", "consumer.heartbeat.interval.ms": "300"})
    # While a topic is being created, a non-idempotent producer may reorder records.
    producer = Producer({"bootstrap.servers": worker.bootstrap, "enable.idempotence": True})
    sent = [f"bad {i}" if i % 10 == 3 else f'{{"n":{i}}}' for i in range(50)]
    for value in sent:
        producer.produce(topic, value)
    assert producer.flush(WAIT_S) == 0
    producer.close()
    sink = connector(
        worker.folder, name, connector__class="FileStreamSink", topics=topic, file=str(out), errors__tolerance="all",
        value__converter="org.apache.kafka.connect.json.JsonConverter", value__converter__schemas__enable="false",
        errors__deadletterqueue__topic__name=dlq, errors__deadletterqueue__topic__replication__factor="1",
    )  # fmt: skip
    bad = [value.encode() for value in sent if value.startswith("bad")]
    for point in ("errors.reported:3", "errors.acknowledged"):
        worker.start(sink, env={"SLUICE_CRASH_AT": f"worker/{point}"})
        assert worker.exit_code() == -signal.SIGKILL, worker.text()
    assert topic_values(worker.bootstrap, dlq)[-len(bad) :] == bad  # acknowledged before the second kill, but not committed
    worker.start(sink).wait_ready()
    eventually(
        lambda: [o["offset"]["kafka_offset"] for o in worker.get(f"/connectors/{name}/offsets")["offsets"]] == [50],
        "a commit",
        explain=worker.text,
    )
    assert worker.end() == 0
    dead_letters = topic_values(worker.bootstrap, dlq)
    assert dead_letters[-len(bad) :] == bad
    assert set(dead_letters) == set(bad)
    lines = out.read_text().splitlines()
    assert lines[-45:] == [f"{{n={i}}}" for i in range(50) if i % 10 != 3]


@pytest.mark.long
def test_source_killed_before_it_stores_the_offset_of_a_dead_letter_loses_no_records(
    process: Callable[..., Process], unique_name: Name, tmp_path: Path
) -> None:
    topic, dlq, given = unique_name("topic"), unique_name("dlq"), tmp_path / "in.txt"
    worker = process()
    lines = ["x" if i % 10 == 3 else str(i) for i in range(50)]
    given.write_text("".join(f"{line}\n" for line in lines))
    source = connector(
        worker.folder, "source", connector__class="FileStreamSource", topic=topic, file=str(given), errors__tolerance="all",
        transforms="c", transforms__c__type="org.apache.kafka.connect.transforms.Cast$Value", transforms__c__spec="int32",
        errors__deadletterqueue__source__topic__name=dlq, errors__deadletterqueue__source__topic__replication__factor="1",
    )  # fmt: skip
    for point in ("errors.reported:3", "errors.acknowledged"):
        worker.start(source, env={"SLUICE_CRASH_AT": f"worker/{point}"})
        assert worker.exit_code() == -signal.SIGKILL, worker.text()
    worker.start(source).wait_ready()
    eventually(lambda: bool(worker.get("/connectors/source/offsets")["offsets"]), "a stored offset")
    assert worker.end() == 0
    dead_letters = [json.loads(value or b"") for value in topic_values(worker.bootstrap, dlq)]
    assert {dead_letter["value"]["payload"] for dead_letter in dead_letters} == {"x"}
    assert len({dead_letter["sourceOffset"]["position"] for dead_letter in dead_letters}) == 5
    good = [line.encode() for line in lines if line != "x"]
    assert topic_values(worker.bootstrap, topic)[-45:] == good
