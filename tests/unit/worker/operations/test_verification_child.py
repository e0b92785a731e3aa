"""The process of a verification, with real small processes in place of the command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from rest.polling import wait_until
from tests.support.waiting import WAIT_S
from worker.operations.verification.child import COMMAND, VerificationChild

_LINK = """
import os, socket, sys
from sluice.verify.worker_link import WorkerLink
link = next(word for word in sys.argv if word.startswith("--worker-link="))
reader = WorkerLink(socket.socket(fileno=int(link.partition("=")[2].partition(":")[0])))
"""


def start(program: str, asked: list[tuple[str, Mapping[str, Any]]] | None = None) -> VerificationChild:
    def answer(method: str, arguments: Mapping[str, Any]) -> Any:
        if asked is not None:
            asked.append((method, arguments))
        return {"topics": ["a", "b"]}.get(method)

    return VerificationChild("lake", ["--tables=x"], answer, [sys.executable, "-c", program])


def ended(child: VerificationChild) -> str | None:
    assert wait_until(child.has_ended, WAIT_S)
    return child.close()


def test_process_asks_its_worker_and_stores_the_result_there() -> None:
    asked: list[tuple[str, Mapping[str, Any]]] = []
    child = start(
        _LINK + "reader.store({'rows': len(reader.topics('lake'))}); print('a note', file=sys.stderr); os._exit(0)", asked
    )
    assert ended(child) is None
    assert asked == [("topics", {"name": "lake"}), ("result", {"document": {"rows": 2}})]


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("deltalake", "sluice verify needs deltalake, which is not installed; run: pip install 'sluice-connect[verify]'"),
        ("psycopg", "needs psycopg, which is not installed; run: pip install 'sluice-connect[postgres]'"),
        ("sqlalchemy", "needs sqlalchemy, which is not installed; run: pip install 'sluice-connect[jdbc]'"),
    ],
)
def test_process_without_the_packages_of_an_extra_names_the_extra(module: str, message: str) -> None:
    configs = {
        "db": {"connector.class": "PostgresSource", "topic.prefix": "db", "database.dbname": "shop"},
        "copy": {"connector.class": "DebeziumJdbcSink", "topics": "db.public.items", "connection.url": "jdbc:postgresql://h/d"},
    }
    answers: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "worker": lambda asked: {},
        "kafka": lambda asked: {"bootstrap.servers": "127.0.0.1:1"},
        "connectors": lambda asked: {"db": "source", "copy": "sink"},
        "config": lambda asked: configs[asked["name"]],
        "topics": lambda asked: ["db.public.items"],
        "status": lambda asked: {"connector": {"state": "RUNNING", "trace": None}, "tasks": []},
    }
    program = f"import sys; sys.modules[{module!r}] = None; from sluice.cli import main; main()"
    command = [sys.executable, "-P", "-c", program, "verify"]
    child = VerificationChild("copy", [], lambda method, asked: answers[method](asked), command)
    reason = ended(child)
    assert reason is not None
    assert message in reason


def test_last_line_of_errors_is_the_reason() -> None:
    child = start("import sys; sys.exit('a note\\nerror: the database does not answer\\n')")
    assert ended(child) == "the database does not answer"
    assert ended(start("raise SystemExit(3)")) == "sluice verify ended with exit code 3 and no message"
    assert "SIGKILL" in str(ended(start("import os; os.kill(os.getpid(), 9)")))


@pytest.mark.parametrize("ignores", [False, True])
def test_closing_ends_the_process_and_what_it_has_started(tmp_path: Path, ignores: bool) -> None:
    file = tmp_path / "pid"
    program = (
        "import pathlib, signal, subprocess, sys, time\n"
        + ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if ignores else "")
        + "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"pathlib.Path({str(file)!r}).write_text(str(other.pid) + ' ')\n"
        "time.sleep(600)"
    )
    child = start(program)
    assert wait_until(lambda: file.exists() and file.read_text().endswith(" "), WAIT_S)
    other = psutil.Process(int(file.read_text()))
    child.close()
    assert not psutil.pid_exists(child.pid)
    assert wait_until(lambda: not other.is_running() or other.status() == psutil.STATUS_ZOMBIE, WAIT_S)


def test_process_ends_with_the_worker_whose_socket_closes() -> None:
    child = start(_LINK + "import time; reader.topics('lake'); time.sleep(600)")
    child._channel.close()
    assert "SIGKILL" in str(ended(child))


def test_command_is_that_of_this_installation_and_refuses_to_be_called_by_hand() -> None:
    # It is no leader of a process group, so it would end its caller with itself.
    found = subprocess.run([*COMMAND, "--worker-link=0:1", "--", "lake"], capture_output=True, text=True, timeout=120)
    assert found.returncode == 2
    assert "--worker-link is for the schedule of a worker" in found.stderr
