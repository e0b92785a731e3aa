"""The wheel's content, and what its installation without extras can do."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.build_release import ROOT
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import free_ports
from tests.support.waiting import WAIT_S, eventually

pytestmark = pytest.mark.long

STRING = "org.apache.kafka.connect.storage.StringConverter"
NEEDS_EXTRAS = {
    "SparkSink": "spark",
    "SparkSource": "spark",
    "IcebergSink": "spark",
    "PostgresSource": "postgres",
    "JdbcSource": "jdbc",
    "DebeziumJdbcSink": "jdbc",
}


def _run(environment: Path, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [environment / "bin" / words[0], *words[1:]], cwd=folder, env=_variables(), capture_output=True, text=True, timeout=WAIT_S
    )


def _variables() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SLUICE_", "VIRTUAL_ENV"))}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}


def test_wheel_has_code_types_configs_and_licenses_and_no_tests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    code = {name for name in tracked if name.split("/")[0] in ("connect", "connectors", "worker", "rest", "sluice")}
    configs = {f"sluice/{name}" for name in tracked if name.startswith("configs/")}
    metadata = {name for name in names if ".dist-info/" in name}
    assert names - metadata == code | configs
    assert {f"{package}/py.typed" for package in ("connect", "connectors", "worker", "rest", "sluice")} <= code
    assert {name.split("/", 1)[1] for name in metadata} >= {"licenses/LICENSE", "licenses/NOTICE", "entry_points.txt"}


def test_base_installation_reports_its_version(base_environment: Path, tmp_path: Path, wheel: Path) -> None:
    result = _run(base_environment, "sluice", "--version", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["sluice", wheel.name.split("-")[1]]


@pytest.mark.parametrize(("class_name", "extra"), NEEDS_EXTRAS.items())
def test_lint_names_the_extra_of_a_connector(base_environment: Path, tmp_path: Path, class_name: str, extra: str) -> None:
    config = tmp_path / "connector.properties"
    config.write_text(f"name=a\nconnector.class={class_name}\ntopics=t\n")
    result = _run(base_environment, "sluice", "lint", str(config), folder=tmp_path)
    assert result.returncode == 2, result.stdout + result.stderr
    assert f"pip install 'sluice-connect[{extra}]'" in result.stdout


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("sluice", "demo"), "embedded"),
        (("sluice", "up"), "embedded"),
        (("sluice", "down"), "embedded"),
        (("sluice", "setup"), "embedded"),
        (("sluice", "broker", "start", "--data-dir", "broker"), "embedded"),
        (("sluice", "docs", "SparkSink"), "spark"),
        (("sluice", "docs", "AvroConverter"), "registry"),
    ],
)
def test_commands_name_the_extra_that_they_need(
    base_environment: Path, tmp_path: Path, words: tuple[str, ...], extra: str
) -> None:
    result = subprocess.run(
        [base_environment / "bin" / words[0], *words[1:]],
        cwd=tmp_path,
        env={**_variables(), "SLUICE_CACHE_DIR": str(tmp_path / "cache"), "SLUICE_DATA_DIR": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    assert result.returncode == 2, result.stderr
    assert f"pip install 'sluice-connect[{extra}]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_doctor_lists_the_extras(base_environment: Path, tmp_path: Path) -> None:
    result = _run(base_environment, "sluice", "doctor", "--bootstrap-server", "127.0.0.1:1", "-o", "json", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    found = {one["what"]: one for one in json.loads(result.stdout)}
    assert found["packages"]["state"] == "ok"
    assert found["extra: spark"]["state"] == "note"
    assert found["extra: spark"]["fix"] == "pip install 'sluice-connect[spark]'"


@pytest.fixture
def worker(base_environment: Path, broker: EmbeddedBroker, tmp_path: Path) -> Iterator[str]:
    """The URL of a standalone worker of the base installation."""
    port = free_ports(1)[0]
    properties = tmp_path / "worker.properties"
    properties.write_text(
        f"bootstrap.servers={broker.bootstrap}\nkey.converter={STRING}\nvalue.converter={STRING}\n"
        f"offset.storage.file.filename={tmp_path / 'offsets'}\noffset.flush.interval.ms=200\n"
        f"listeners=http://127.0.0.1:{port}\n"
    )
    log = tmp_path / "worker.log"
    with log.open("wb") as file:
        command = [base_environment / "bin" / "connect-standalone", properties]
        process = subprocess.Popen(command, cwd=tmp_path, env=_variables(), stdout=subprocess.DEVNULL, stderr=file)
    url = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: process.poll() is not None or _status(f"{url}/health") == 200, "the worker starts")
        assert process.poll() is None, log.read_text()
        yield url
    finally:
        process.terminate()
        process.wait(WAIT_S)


def _status(url: str) -> int:
    try:
        return _send("GET", url)[0]
    except OSError:
        return 0


def _send(method: str, url: str, body: object = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as e:
        with e:
            return e.code, json.load(e)


def test_worker_runs_a_file_source_and_names_missing_extras(
    worker: str, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    topic, given, taken = unique_name("lines"), tmp_path / "in.txt", tmp_path / "out.txt"
    given.write_text("one\ntwo\n")
    source = {"connector.class": "FileStreamSource", "file": str(given), "topic": topic}
    sink = {"connector.class": "FileStreamSink", "file": str(taken), "topics": topic}
    assert _send("PUT", f"{worker}/connectors/source/config", source)[0] == 201
    assert _send("PUT", f"{worker}/connectors/sink/config", sink)[0] == 201
    eventually(lambda: taken.exists() and taken.read_text() == "one\ntwo\n", "both lines are copied")

    spark = {"connector.class": "SparkSink", "topics": topic, "table.location": str(tmp_path), "name": "lake"}
    for path in ("connectors/lake/config", "connector-plugins/SparkSink/config/validate"):
        status, answer = _send("PUT", f"{worker}/{path}", spark)
        assert status == 500, answer  # as for a class that is not there
        assert "pip install 'sluice-connect[spark]'" in answer["message"]
    avro = {**source, "value.converter": "io.confluent.connect.avro.AvroConverter", "name": "avro"}
    status, answer = _send("PUT", f"{worker}/connector-plugins/FileStreamSource/config/validate", avro)
    errors = [error for one in answer.get("configs", ()) for error in one["value"]["errors"]] or [answer["message"]]
    assert any("pip install 'sluice-connect[registry]'" in error for error in errors), errors


def test_scheduled_verification_names_the_extra_that_it_needs_wherever_one_looks(
    worker: str, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    sink = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out.txt"), "topics": unique_name("lines")}
    assert _send("PUT", f"{worker}/connectors/sink/config", {**sink, "verify.interval.ms": "5000"})[0] == 201
    needed, path = "run: pip install 'sluice-connect[verify]'", f"{worker}/sluice/connectors/sink"
    eventually(lambda: needed in str(_send("GET", f"{path}/verification")[1]["schedule"]["error"]), "the run fails")
    problems = _send("GET", f"{path}/diagnosis")[1]["problems"]
    (message,) = [one["message"] for one in problems if one["code"] == "verification-failed"]
    assert f"on worker {worker.removeprefix('http://')}, failed: sluice verify needs deltalake, duckdb, " in message
    with urllib.request.urlopen(f"{worker}/metrics", timeout=WAIT_S) as answer:
        assert b'sluice_verification_last_run_failed{connector="sink"} 1' in answer.read()
    log = (tmp_path / "worker.log").read_text()
    assert needed in log
    assert "Traceback" not in log
    assert _send("GET", f"{worker}/connectors/sink/status")[1]["connector"]["state"] == "RUNNING"
