"""The demo and ``sluice up`` as a user runs them: in a process, with real servers and exit codes, and nothing left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import create_autospec

import psutil
import pytest

from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run
from sluice.demo.environment import CONNECTORS, SINK_FILES, configs_dir
from sluice.demo.shops.mariadb import MariaDbShop
from sluice.demo.shops.postgres import PostgresShop, PostgresShopSession
from sluice.demo.workload import Workload
from tests.support.waiting import WAIT_S, eventually

SERVERS = {"mariadb": "mariadbd", "postgres": "bin/postgres"}
_SLUICE = [sys.executable, "-c", "from sluice.cli import main; main()"]


def start(*arguments: str, home: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*_SLUICE, *arguments, "--data-dir", str(home)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1", **environment},
        start_new_session=True,
    )


def left_running(home: Path) -> list[str]:
    """Returns the command lines of live processes that use the folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(str(home) in word for word in words):
            found.append(" ".join(words)[:200])
    return found


def wait_for_equal_tables(process: subprocess.Popen[str]) -> str:
    """Waits for the end of a demo, and checks its result. Returns what it printed to stderr."""
    out, errors = process.communicate(timeout=500)
    assert process.returncode == 0, f"{out}\n{errors}"
    result = json.loads(out.strip().splitlines()[-1])
    assert result["equal"] is True
    assert result["tables"] == 4
    assert result["rows"] > 6_000
    assert result["events"] > result["rows"] - 6_000
    assert result["latency_ms"]["p50"] is not None
    assert result["latency_ms"]["p50"] <= result["latency_ms"]["p99"]
    assert "column added" in errors
    return errors


@pytest.mark.parametrize("command", [["up"], ["demo", "--keep"]])
def test_services_that_stay_need_kafka(
    tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLUICE_DEMO_KAFKA", "off")
    assert run(build(COMMANDS), [*command, "--data-dir", str(tmp_path)]) == 2
    assert "starts a broker and a worker that continue to run; unset SLUICE_DEMO_KAFKA" in capsys.readouterr().err


def test_an_unknown_format_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SLUICE_DEMO_FORMAT", "hudi")
    assert run(build(COMMANDS), ["demo", "--data-dir", str(tmp_path)]) == 2
    assert "SLUICE_DEMO_FORMAT=hudi is not a format of the demo; use delta or iceberg" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("table_format", "kafka", "database"),
    [
        ("delta", "on", "postgres"),
        ("iceberg", "off", "mariadb"),
        ("iceberg", "on", "postgres"),
        ("delta", "off", "postgres"),
        ("delta", "on", "mariadb"),
        ("delta", "off", "mariadb"),
    ],
)
def test_demo_ends_with_equal_tables_and_leaves_nothing_running(
    tmp_path: Path, table_format: str, kafka: str, database: str
) -> None:
    chosen = {"SLUICE_DEMO_FORMAT": table_format, "SLUICE_DEMO_KAFKA": kafka, "SLUICE_DEMO_DATABASE": database}
    process = start("demo", "--small", "--seconds", "6", home=tmp_path, **chosen)
    errors = wait_for_equal_tables(process)
    assert ("Kafka at" in errors) is (kafka == "on")
    assert bool(list(tmp_path.glob("*/broker"))) is (kafka == "on")
    assert not left_running(tmp_path)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("moment", ["Starting a worker", "Live changes"])
def test_ctrl_c_at_any_point_leaves_no_process_behind(moment: str, tmp_path: Path) -> None:
    process = start("demo", "--small", "--seconds", "20", home=tmp_path)
    assert process.stderr is not None
    for line in process.stderr:
        if moment in line:
            break
    else:
        raise AssertionError(f"the demo ended before {moment!r}")
    assert left_running(tmp_path)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    assert not left_running(tmp_path)


class Services:
    """Runs ``sluice up`` and ``sluice down``."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def run(self, *arguments: str, kind: str = "") -> tuple[int, str, str]:
        process = start(*arguments, home=self.home, SLUICE_DEMO_DATABASE=kind)
        out, errors = process.communicate(timeout=2 * WAIT_S)
        return process.returncode, out, errors

    def start_and_check(self, database: str) -> None:
        code, out, errors = self.run("up", "--small", "-o", "json", kind=database)
        assert code == 0, errors
        with urllib.request.urlopen(f"{json.loads(out)['rest']}/connectors", timeout=WAIT_S) as answer:
            assert sorted(json.load(answer)) == sorted(CONNECTORS)
        assert any(SERVERS[database] in command for command in left_running(self.home))

    def stop_and_check(self) -> None:
        assert self.run("down")[0] == 0  # also without the variable
        assert not left_running(self.home)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    found = Services(tmp_path)
    yield found
    found.run("down")


@pytest.mark.timeout(600)
def test_demo_ends_with_equal_tables_and_what_it_keeps_runs_until_down(services: Services, tmp_path: Path) -> None:
    chosen = {"SLUICE_DEMO_FORMAT": "delta", "SLUICE_DEMO_KAFKA": "on", "SLUICE_DEMO_DATABASE": "postgres"}
    process = start("demo", "--keep", "--small", "--seconds", "6", home=tmp_path, **chosen)
    assert "Kafka at" in wait_for_equal_tables(process)
    services.start_and_check("postgres")
    code, _, errors = services.run("up", "--small", kind="mariadb")
    assert (code, "SLUICE_DEMO_DATABASE=mariadb, but an earlier start created" in errors) == (2, True), errors
    services.stop_and_check()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_up_runs_until_down(services: Services) -> None:
    services.start_and_check("postgres")
    code, _, errors = services.run("up", "--small", kind="mariadb")
    assert (code, "SLUICE_DEMO_DATABASE=mariadb, but an earlier start created" in errors) == (2, True), errors
    services.stop_and_check()


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("database", ["mariadb", "postgres"])
def test_up_continues_after_a_restart_with_its_database(services: Services, database: str) -> None:
    services.start_and_check(database)
    services.stop_and_check()
    services.start_and_check(database)
    services.stop_and_check()


@pytest.mark.long
@pytest.mark.timeout(120)
def test_killed_demo_leaves_no_process_behind(tmp_path: Path) -> None:
    process = start("demo", "--small", home=tmp_path)
    assert process.stderr is not None
    for line in process.stderr:
        if "Snapshot" in line:
            break
    process.kill()
    process.wait(WAIT_S)
    eventually(lambda: not left_running(tmp_path), "the end of all processes", lambda: left_running(tmp_path))
    process.communicate(timeout=WAIT_S)


@pytest.mark.parametrize("slow_step", ["an earlier transaction", "the new column"])
def test_slow_workload_still_adds_its_column_and_uses_it(monkeypatch: pytest.MonkeyPatch, slow_step: str) -> None:
    shop, session = create_autospec(PostgresShop, instance=True), create_autospec(PostgresShopSession, instance=True)
    shop.session.return_value.__enter__.return_value = session
    shop.errors = OSError
    steps: list[str] = []

    def change(self: Workload, _: object) -> None:
        steps.append("change")
        if slow_step == "an earlier transaction" and len(steps) == 1:
            time.sleep(0.3)  # longer than the planned duration of all changes

    def add_column() -> None:
        steps.append("column")
        if slow_step == "the new column":
            time.sleep(0.3)

    session.add_column.side_effect = add_column
    monkeypatch.setattr(Workload, "_run_transaction", change)
    workload = Workload(shop, 10, 10, seconds=0.2)
    workload.start()
    workload.join(WAIT_S)
    assert steps.count("column") == 1
    assert steps.index("column") < len(steps) - 2


def test_every_file_of_configs_is_run_by_a_test() -> None:
    quickstart = {"connect-standalone.properties", "connect-file-source.properties", "connect-file-sink.properties"}
    cluster = {"connect-distributed.properties"}  # tests/integration/cluster_security
    jdbc = {"jdbc-source.properties", "jdbc-sink.properties", "jdbc-debezium-sink.properties"}  # tests/integration/jdbc
    here = {path.name for path in configs_dir().glob("*.properties")}
    sources = {f"{shop.kind}-source.properties" for shop in (PostgresShop, MariaDbShop)}
    assert here == quickstart | cluster | jdbc | set(SINK_FILES.values()) | sources
