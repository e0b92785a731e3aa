"""The command line with a real broker. Where it matters how the process starts or ends, it runs as a subprocess."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import free_ports, port_is_free
from tests.support.waiting import WAIT_S, eventually

Sluice = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def sluice(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Sluice:
    """Runs ``sluice`` with arguments (and ``stdin``) against the session's broker, in this process."""
    monkeypatch.setenv("SLUICE_BOOTSTRAP_SERVERS", broker.bootstrap)

    def call(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        code = run(build(COMMANDS), arguments)
        shown = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, shown.out, shown.err)

    return call


@pytest.fixture
def process(broker: EmbeddedBroker) -> Sluice:
    """Runs ``sluice`` as a subprocess."""

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from sluice.cli import main; main()", *arguments]
        variables = {**os.environ, "SLUICE_BOOTSTRAP_SERVERS": broker.bootstrap}
        return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=WAIT_S, check=False)

    return call


def document(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_topic_is_created_described_altered_and_deleted(sluice: Sluice, unique_name: Callable[[str], str]) -> None:
    name = unique_name("life")
    done = sluice("topic", "create", name, "--partitions", "2", "--config", "cleanup.policy=compact")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"topic '{name}' created\n")
    again = sluice("topic", "create", name)
    assert (again.returncode, again.stderr) == (1, f"error: topic '{name}' already exists\n")
    assert sluice("topic", "create", name, "--if-not-exists").returncode == 0
    eventually(lambda: name in sluice("topic", "ls").stdout.splitlines(), "the topic in the broker's metadata")
    assert name in document(sluice("topic", "ls", "-o", "json"))

    described = document(sluice("topic", "describe", name, "-o", "json"))
    assert described["configs"] == {"cleanup.policy": "compact"}
    assert [(one["partition"], one["leader"], one["latest"]) for one in described["partitions"]] == [(0, 1, 0), (1, 1, 0)]

    done = sluice(
        "topic", "alter", name, "--partitions", "3", "--config", "segment.ms=60000", "--delete-config", "cleanup.policy"
    )
    assert done.returncode == 0, done.stderr

    def altered() -> bool:
        described = document(sluice("topic", "describe", name, "-o", "json"))
        return (len(described["partitions"]), described["configs"]) == (3, {"segment.ms": "60000"})

    eventually(altered, "three partitions and the other configuration")

    assert sluice("topic", "delete", name).returncode == 0
    eventually(lambda: name not in sluice("topic", "ls").stdout.splitlines(), "the end of the topic")


def test_missing_topic_is_reported_with_the_nearest_name_and_not_created(
    sluice: Sluice, unique_name: Callable[[str], str]
) -> None:
    name = unique_name("orders")
    assert sluice("topic", "create", name).returncode == 0
    eventually(lambda: name in sluice("topic", "ls").stdout.splitlines(), "the topic in the broker's metadata")
    wrong = name.replace("orders", "ordres")
    for command in ("describe", "offsets", "consume"):
        done = sluice("topic", command, wrong)
        assert (done.returncode, done.stderr) == (1, f"error: there is no topic '{wrong}'; did you mean '{name}'?\n")
    assert wrong not in sluice("topic", "ls").stdout.splitlines()


def test_produced_lines_are_consumed(sluice: Sluice, unique_name: Callable[[str], str]) -> None:
    name = unique_name("lines")
    done = sluice("topic", "produce", name, stdin="foo\nbär\n")
    assert (done.returncode, done.stderr) == (0, f"2 records written to '{name}'\n")
    with_key = ("--property", "parse.key=true", "--property", "key.separator=:")
    assert sluice("topic", "produce", name, *with_key, stdin="k:v:w\n").returncode == 0

    read = ("topic", "consume", name, "--timeout-ms", "120000", "--max-messages", "3")
    done = sluice(*read, "--from-beginning")
    assert (done.returncode, done.stdout) == (0, "foo\nbär\nv:w\n")
    assert done.stderr == "Processed a total of 3 messages\n"
    assert sluice(*read, "--from-beginning", "--max-messages", "1").stdout == "foo\n"
    assert sluice(*read, "--partition", "0", "--offset", "1", "--max-messages", "2").stdout == "bär\nv:w\n"
    assert sluice(*read, "--from-beginning", "--property", "print.key=true").stdout == "null\tfoo\nnull\tbär\nk\tv:w\n"
    assert sluice("topic", "consume", name, "--timeout-ms", "1000").stdout == "", (
        "without --from-beginning only new records are read"
    )
    records = [json.loads(line) for line in sluice(*read, "--from-beginning", "-o", "json").stdout.splitlines()]
    assert [(one["offset"], one["key"], one["value"]) for one in records] == [(0, None, "foo"), (1, None, "bär"), (2, "k", "v:w")]
    assert document(sluice("topic", "offsets", name, "-o", "json")) == [
        {"topic": name, "partition": 0, "earliest": 0, "latest": 3}
    ]


@pytest.mark.long
def test_closed_pipe_is_not_an_error(sluice: Sluice, broker: EmbeddedBroker, unique_name: Callable[[str], str]) -> None:
    name = unique_name("pipe")
    # More than a pipe holds, so that the pipe closes before the last line is written.
    sluice("topic", "produce", name, stdin="x\n" + f"{'y' * 99}\n" * 20_000)
    program = f"{sys.executable} -c 'from sluice.cli import main; main()'"
    command = f"{program} topic consume {name} --from-beginning --timeout-ms 120000"
    environment = {**os.environ, "SLUICE_BOOTSTRAP_SERVERS": broker.bootstrap}
    line = ["bash", "-c", f"{command} | head -1; exit ${{PIPESTATUS[0]}}"]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "x\n", "")


def test_groups_show_lag_and_can_be_reset(sluice: Sluice, broker: EmbeddedBroker, unique_name: Callable[[str], str]) -> None:
    from confluent_kafka import Consumer, TopicPartition

    name = unique_name("lag")
    sluice("topic", "produce", name, stdin="a\nb\nc\nd\n")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.commit(offsets=[TopicPartition(name, 0, 1)], asynchronous=False)
    consumer.close()

    assert {"group": name, "state": "EMPTY"} in document(sluice("group", "ls", "-o", "json"))
    described = document(sluice("group", "describe", name, "-o", "json"))
    assert (described["state"], described["lag"], described["partitions"][0]["committed"]) == ("EMPTY", 3, 1)
    header = sluice("group", "describe", name).stdout.splitlines()[0]
    assert header.split()[:5] == ["TOPIC", "PARTITION", "COMMITTED", "LATEST", "LAG"]

    def reset(*how: str) -> Any:
        return document(sluice("group", "reset", name, "--topic", name, *how, "-o", "json"))

    planned = reset("--to-latest")
    assert planned == {
        "group": name,
        "executed": False,
        "offsets": [{"topic": name, "partition": 0, "before": 1, "after": 4}],
    }
    assert document(sluice("group", "describe", name, "-o", "json"))["lag"] == 3, "a dry run changes nothing"
    for how, lag in (
        (["--to-latest"], 0),
        (["--by", "-1"], 1),
        (["--to-offset", "2"], 2),
        (["--to-earliest"], 4),
    ):
        assert reset(*how, "--execute")["executed"]
        assert document(sluice("group", "describe", name, "-o", "json"))["lag"] == lag
    missing = sluice("group", "describe", "no-such-group")
    assert (missing.returncode, missing.stderr.startswith("error: there is no consumer group 'no-such-group'")) == (1, True)


def test_group_with_members_is_not_reset(sluice: Sluice, broker: EmbeddedBroker, unique_name: Callable[[str], str]) -> None:
    from confluent_kafka import Consumer

    name = unique_name("busy")
    sluice("topic", "produce", name, stdin="a\n")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name, "auto.offset.reset": "earliest"})
    consumer.subscribe([name])
    assert consumer.poll(WAIT_S) is not None
    try:
        done = sluice("group", "reset", name, "--topic", name, "--to-earliest", "--execute")
        assert done.returncode == 1
        assert "its members must stop before offsets can be set" in done.stderr
        described = document(sluice("group", "describe", name, "-o", "json"))
        assert (described["state"], described["members"]) == ("STABLE", 1)
    finally:
        consumer.close()


@pytest.mark.parametrize(
    "command",
    [
        ["topic", "ls"],
        pytest.param(["topic", "consume", "t"], marks=pytest.mark.long),
        pytest.param(["group", "ls"], marks=pytest.mark.long),
    ],
)
def test_unreachable_broker_is_exit_code_3_with_the_address(process: Sluice, command: list[str]) -> None:
    (port,) = free_ports(1)
    done = process(*command, "--bootstrap-server", f"127.0.0.1:{port}")
    assert done.returncode == 3
    assert done.stderr.startswith(f"error: no Kafka broker answers at 127.0.0.1:{port}; start one with 'sluice broker start'")


def test_broker_command_starts_shows_and_stops_the_broker(process: Sluice, tmp_path: Path) -> None:
    folder = str(tmp_path / "own")
    assert process("broker", "status", "--data-dir", folder).returncode == 3
    (port,) = free_ports(1)
    try:
        started = document(process("broker", "start", "--port", str(port), "--data-dir", folder, "-o", "json"))
        assert (started["bootstrap"], started["running"]) == (f"127.0.0.1:{port}", True)
        status = process("broker", "status", "--data-dir", folder)
        assert (status.returncode, status.stdout) == (0, f"127.0.0.1:{port}\n")
        second = process("broker", "start", "--port", str(port), "--data-dir", str(tmp_path / "second"))
        assert (second.returncode, "the port is in use" in second.stderr) == (2, True)
    finally:
        stopped = document(process("broker", "stop", "--data-dir", folder, "-o", "json"))
    assert stopped["stopped"]
    assert document(process("broker", "stop", "--data-dir", folder, "-o", "json"))["stopped"] is False
    assert port_is_free(port)


def test_doctor_finds_no_problems_on_this_machine(process: Sluice, broker: EmbeddedBroker) -> None:
    findings = document(process("doctor", "-o", "json"))
    states = {one["what"]: one["state"] for one in findings}
    assert states["java"] == states["broker"] == states["embedded PostgreSQL"] == "ok"
    assert "wrong" not in states.values()


def test_ctrl_c_ends_consume(broker: EmbeddedBroker, sluice: Sluice, unique_name: Callable[[str], str]) -> None:
    name = unique_name("endless")
    sluice("topic", "produce", name, stdin="x\n")
    command = [sys.executable, "-c", "from sluice.cli import main; main()", "topic", "consume", name, "--from-beginning"]
    command += ["--bootstrap-server", broker.bootstrap]
    reader = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert reader.stdout is not None
    assert reader.stdout.readline() == "x\n"
    reader.send_signal(signal.SIGINT)
    _, output = reader.communicate(timeout=WAIT_S)
    assert (reader.returncode, output) == (130, "Processed a total of 1 messages\ninterrupted\n")


@pytest.mark.long
def test_missing_partition_is_reported(sluice: Sluice, unique_name: Callable[[str], str]) -> None:
    name = unique_name("narrow")
    sluice("topic", "create", name)
    done = sluice("topic", "consume", name, "--partition", "5", "--from-beginning")
    assert (done.returncode, done.stderr) == (1, f"error: topic '{name}' has no partition 5; it has 1\n")
