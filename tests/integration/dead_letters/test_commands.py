"""``sluice dlq`` and the REST resources, with a worker whose executor processes run the connector, and without its help."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from rest.rest_server import RestServer
from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run
from sluice.embedded.broker import EmbeddedBroker
from tests.integration.dead_letters.queue_case import QueueCase
from tests.support.waiting import eventually
from worker.config.worker_config import WorkerConfig
from worker.standalone.herder import StandaloneHerder

Name = Callable[[str], str]
Sluice = Callable[..., tuple[int, str, str]]


@pytest.fixture
def case(broker: EmbeddedBroker, unique_name: Name) -> QueueCase:
    return QueueCase.create(broker.bootstrap, unique_name, partitions=1)


@pytest.fixture
def herder(broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandaloneHerder]:
    props = {
        "bootstrap.servers": broker.bootstrap, "key.converter": "String", "value.converter": "String", "task.executors": "1",
        "offset.storage.file.filename": str(tmp_path / "offsets"), "offset.flush.interval.ms": "100",
        "listeners": "http://127.0.0.1:0",
    }  # fmt: skip
    config = WorkerConfig.standalone(props)
    server = RestServer.from_config(config)
    found = StandaloneHerder(config, worker_id=server.worker_id)
    found.start()
    server.start(found)
    monkeypatch.setenv("SLUICE_CONNECT_URL", server.url)
    yield found
    server.stop()
    found.close(10)


@pytest.fixture
def sluice(capsys: pytest.CaptureFixture[str]) -> Sluice:
    def call(*words: object) -> tuple[int, str, str]:
        code = run(build(COMMANDS), [str(word) for word in words])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def _has_lines(file: Path, count: int) -> bool:
    return len(file.read_text().splitlines()) == count


def test_dead_letters_are_found_fixed_and_replayed(
    herder: StandaloneHerder, case: QueueCase, sluice: Sluice, tmp_path: Path
) -> None:
    target, name = tmp_path / "out.txt", case.connector
    case.produce(
        case.topic,
        [{"key": f"k{n}", "value": b'{"amount": "%s"}' % (b"x" if n % 3 == 1 else b"7"), "partition": 0} for n in range(6)],
    )
    settings = {"file": str(target), "errors.deadletterqueue.topic.replication.factor": "1"}
    herder.put_connector(name, {**case.config, **settings}, replace=False)
    eventually(lambda: target.exists() and len(target.read_text().splitlines()) == 4, "the good records")
    eventually(lambda: len(case.committed(case.queue)) == 2, "the dead letters")

    (row,) = json.loads(sluice("dlq", "ls", "-o", "json")[1])
    assert (row["name"], row["topic"], row["records"], row["left"]) == (name, case.queue, 2, 2)
    code, out, err = sluice("dlq", "show", name)
    assert code == 0, err
    assert out.splitlines()[1] == f"    from    {case.topic}-0 at 1, task 0"
    assert '    value   {"amount": "x"}' in out
    assert "2 shown" in err
    code, out, err = sluice("dlq", "group", name, "-o", "yaml")
    assert (code, "transform: amount" in out) == (0, True), err
    code, out, err = sluice("dlq", "group", name)
    cause = out.splitlines()[1].split()[0]
    assert f"{cause}: " in err

    code, out, err = sluice("dlq", "replay", name, "--dry-run", "--cause", cause)
    assert (code, out.splitlines()[0]) == (0, "0:0 fails"), err
    assert "2 fail again and stay in the queue" in err
    edit = ("--set", "transforms.amount.spec=amount:string")
    code, out, err = sluice("dlq", "replay", name, "--dry-run", *edit, "-o", "json")
    assert (code, json.loads(out)["verdicts"]) == (0, {"passes": 2}), err
    code, _, err = sluice("dlq", "replay", name, "--yes", *edit)
    assert (code, "use --dry-run, or --apply to change it first" in err) == (2, True)
    code, out, err = sluice("dlq", "replay", name, "--yes", "--apply", *edit)
    assert (code, out) == (0, "2 of 2 dead letters were replayed\n"), err
    eventually(lambda: len(target.read_text().splitlines()) == 6, "the replayed records")
    assert target.read_text().splitlines()[4:] == ["{amount=x}"] * 2
    assert json.loads(sluice("dlq", "ls", "-o", "json")[1])[0]["left"] == 0
    assert sluice("dlq", "replay", name, "--yes")[1] == "0 of 0 dead letters were replayed\n"

    # Without the worker's help: the queue from Kafka, the configuration from REST.
    direct = ("--bootstrap-server", case.bootstrap)
    code, out, err = sluice("dlq", "show", name, "--all", *direct, "-o", "json")
    assert [json.loads(line)["replayed"] for line in out.splitlines()] == [True, True], err
    assert "cause" in sluice("dlq", "group", name, "--all", *direct)[1].lower()
    case.produce(case.queue, [case.letter(9, b'{"amount": "8"}')])
    code, out, err = sluice("dlq", "replay", name, "--yes", *direct)
    assert (code, out) == (0, "1 of 1 dead letters were replayed\n"), err
    eventually(lambda: len(target.read_text().splitlines()) == 7, "the record that was replayed from here")

    # Records can be changed by transformations of the replay, through the worker and without it.
    file = tmp_path / "zero.properties"
    file.write_text("transforms=a\ntransforms.a.type=MaskFieldValue\ntransforms.a.fields=amount\ntransforms.a.replacement=0\n")
    case.produce(case.queue, [case.letter(number, b'{"amount": "y"}') for number in (10, 11)])
    changes = ("--transforms", file)
    for number, options in enumerate(((), direct)):
        code, out, err = sluice("dlq", "replay", name, "--dry-run", "--limit", 1, *changes, *options)
        assert (code, out.splitlines()[1]) == (0, '    replay ~ value.amount = "y" -> "0"'), err
        code, out, err = sluice("dlq", "replay", name, "--yes", "--limit", 1, *changes, *options)
        assert (code, out) == (0, "1 of 1 dead letters were replayed\n"), err
        eventually(partial(_has_lines, target, 8 + number), "the changed record")
    assert target.read_text().splitlines()[7:] == ["{amount=0}"] * 2
