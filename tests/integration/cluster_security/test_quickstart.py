"""The worker file configs/connect-distributed.properties runs without warnings, with other addresses and names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from connect.config.properties import read_properties
from sluice.embedded.broker import EmbeddedBroker
from tests.cluster.worker_process import SLUICE, WorkerProcess
from tests.support.waiting import WAIT_S

ROOT = Path(__file__).parents[3]
FILE = ROOT / "configs" / "connect-distributed.properties"


def test_distributed_example_file_runs_without_warnings(
    broker: EmbeddedBroker, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    name = unique_name("quick")
    given = dict(read_properties(FILE))
    storage = {key: f"{name}-{value}" for key, value in given.items() if key.endswith(".storage.topic")}
    assert len(storage) == 3
    worker = WorkerProcess(
        SLUICE, tmp_path, "worker", {**given, **storage, "group.id": name, "bootstrap.servers": broker.bootstrap}
    )
    try:
        worker.start()
        worker.wait_until_up()
        (tmp_path / "in.txt").write_text("foo\n")
        topic = f"{name}-data"
        worker.client.put_config(
            "source", {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": topic}
        )
        worker.client.put_config(
            "sink", {"connector.class": "FileStreamSink", "file": str(tmp_path / "out.txt"), "topics": topic}
        )
        worker.wait_for(lambda: _text(tmp_path / "out.txt") == "foo\n", WAIT_S, "the line")
        assert worker.stop() == 0
    finally:
        worker.end()
    logged = worker.log_tail(1_000_000)
    # Temporary conditions, such as a slow broker, are no findings about the file.
    temporary = (
        "topic .* was created, but|"
        ".* does not exist yet; waiting for it|.* no Kafka broker answers .* trying again until it works"
    )
    assert re.findall(rf" (?:WARNING|ERROR) (?!{temporary}).*", logged) == []


def _text(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def test_invalid_worker_file_ends_the_command_at_once(tmp_path: Path) -> None:
    given = {**read_properties(FILE), "status.storage.topic": "connect-configs"}
    worker = WorkerProcess(SLUICE, tmp_path, "worker", given)
    try:
        worker.start()
        assert worker.wait_for_exit() == 2
    finally:
        worker.end()
    assert "must be three different topics, but are connect-configs, connect-offsets, connect-configs" in worker.log_tail()
