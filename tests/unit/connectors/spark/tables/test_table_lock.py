"""The lock between processes that commit to one table on a local disk."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from connect.errors import RetriableError
from connectors.spark.tables import table_lock
from connectors.spark.tables.table_lock import TableLock, creation_lock

_HOLDER = """
import sys
from connectors.spark.tables.table_lock import TableLock, creation_lock
with TableLock(sys.argv[1], "lock").held(), creation_lock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "lake" / "t" / "_delta_log").mkdir(parents=True)
    return tmp_path / "lake" / "t" / "_delta_log"


@pytest.fixture
def holder(table: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds both locks."""
    command = [sys.executable, "-c", _HOLDER, str(table)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@pytest.mark.parametrize("lock", [lambda path: TableLock(path, "lock").held(), creation_lock], ids=["commit", "creation"])
def test_a_process_waits_until_the_holder_has_ended(
    table: Path,
    holder: subprocess.Popen[str],
    monkeypatch: pytest.MonkeyPatch,
    lock: Callable[[str], AbstractContextManager[None]],
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(table_lock, "_WAIT_S", 0.0)
        with pytest.raises(RetriableError, match="for more than 0 s"), lock(str(table)):
            pass
    with TableLock(str(table), "lock").tried() as is_held:
        assert not is_held
    holder.kill()
    with lock(str(table)):
        pass


def test_the_error_names_the_process_that_holds_the_lock(
    table: Path, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_lock, "_WAIT_S", 0.0)
    with (
        pytest.raises(RetriableError, match=f"process {holder.pid} has been committing"),
        TableLock(str(table), "lock").held(),
    ):
        pass


def test_a_table_that_does_not_exist_is_not_locked(tmp_path: Path) -> None:
    with TableLock(str(tmp_path / "t" / "_delta_log"), "lock").tried() as is_held:
        assert not is_held
    assert not (tmp_path / "t").exists()


def test_tables_are_not_locked_outside_of_a_local_disk() -> None:
    with TableLock(None, "lock").tried() as is_held, TableLock(None, "lock").held(), creation_lock(None):
        assert is_held
