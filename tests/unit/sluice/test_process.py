"""Server processes: started, recognised, ended; and the ports and folders they get."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from connect.errors import ConfigError, ConnectError
from sluice.embedded import process
from sluice.embedded.directories import cache_dir, data_home
from sluice.embedded.ports import _LAST_PORT, LOOPBACK, free_ports, port_is_free, require_free_port
from tests.support.waiting import WAIT_S


def sleeper(tmp_path: Path, code: str = "import time; time.sleep(60)") -> subprocess.Popen[bytes]:
    return process.spawn([sys.executable, "-c", code], log=tmp_path / "log", cwd=tmp_path)


def test_pid_file_identifies_its_process_until_it_ends(tmp_path: Path) -> None:
    child = sleeper(tmp_path)
    pid_file = process.PidFile(tmp_path / "pid")
    server = pid_file.write(child.pid, 1234)
    assert pid_file.read() == server
    assert process.end(server, first=signal.SIGTERM, grace_s=5)
    assert pid_file.read() is None
    child.wait(WAIT_S)


@pytest.mark.skipif(sys.platform != "linux", reason="how Linux shows a process whose first thread has ended")
def test_process_runs_until_its_last_thread_has_ended(tmp_path: Path) -> None:
    code = (
        "import ctypes, platform, socket, sys, threading, time;"
        "server = socket.create_server(('127.0.0.1', 0));"
        "threading.Thread(target=time.sleep, args=(60,)).start();"
        "print(server.getsockname()[1], flush=True);"
        "ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[platform.machine()], 0)"  # exit, of this thread alone
    )
    child = sleeper(tmp_path, code)
    first = psutil.Process(child.pid)
    process.wait_ready("it", child, lambda: first.status() == psutil.STATUS_ZOMBIE, tmp_path / "log", 0, 30)
    port = int((tmp_path / "log").read_text())
    pid_file = process.PidFile(tmp_path / "pid")
    server = pid_file.write(child.pid, port)
    assert pid_file.read() == server
    assert not port_is_free(port)
    assert process.end(server, first=signal.SIGKILL, grace_s=30)
    assert pid_file.read() is None
    assert port_is_free(port)
    child.wait(WAIT_S)


def test_reused_pid_is_not_mistaken_for_the_server(tmp_path: Path) -> None:
    record = {"pid": os.getpid(), "created": 12345.0, "port": 1}
    (tmp_path / "pid").write_text(json.dumps(record), encoding="utf-8")
    assert process.PidFile(tmp_path / "pid").read() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}', '{"pid": 999999999, "created": 1, "port": 1}'])
def test_stale_or_incomplete_pid_file_reads_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "pid").write_text(text, encoding="utf-8")
    assert process.PidFile(tmp_path / "pid").read() is None


def test_process_that_ignores_the_first_signal_is_killed(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    child = sleeper(tmp_path, code)
    process.wait_ready("it", child, lambda: process.log_size(tmp_path / "log") > 0, tmp_path / "log", 0, WAIT_S)
    server = process.PidFile(tmp_path / "pid").write(child.pid, 1)
    assert not process.end(server, first=signal.SIGTERM, grace_s=0.2)
    assert child.wait(WAIT_S) == -signal.SIGKILL


def test_log_of_a_failed_start_is_reported(tmp_path: Path) -> None:
    child = sleeper(tmp_path, "raise SystemExit('the disk is full')")
    with pytest.raises(ConnectError, match=r"(?s)ended while starting \(exit code 1\).*the disk is full.*full log is"):
        process.wait_ready("the server", child, lambda: False, tmp_path / "log", 0, WAIT_S)


def test_server_that_never_responds_times_out(tmp_path: Path) -> None:
    child = sleeper(tmp_path)
    with pytest.raises(ConnectError, match=r"did not respond within 0\.2 s"):
        process.wait_ready("the server", child, lambda: False, tmp_path / "log", 0, 0.2)
    child.kill()
    child.wait(WAIT_S)


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
def test_server_ends_with_its_parent_but_not_with_the_starting_thread(tmp_path: Path) -> None:
    # The parent starts the server from a thread that ends, says whether the server outlived the thread, and kills itself.
    parent = f"""
import os, signal, sys, threading, time
from pathlib import Path
from sluice.embedded import process
started = []
def start():
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    started.append(process.spawn(command, log=Path({str(tmp_path / "log")!r}), cwd=Path("/"), death_signal=signal.SIGKILL))
thread = threading.Thread(target=start)
thread.start()
thread.join()
try:
    started[0].wait(0.5)
    print("died", flush=True)
except Exception:
    print(started[0].pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid = int(done.stdout)
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], 5)[0], "the server outlived its parent"
    finally:
        os.close(handle)


def test_lock_times_out(tmp_path: Path) -> None:
    with (
        process.exclusive(tmp_path / "lock", 1, "busy"),
        pytest.raises(ConnectError, match="somebody else"),
        process.exclusive(tmp_path / "lock", 0.1, "somebody else"),
    ):
        pass
    with process.exclusive(tmp_path / "lock", 0.1, "busy"):
        pass


def test_port_in_use_is_reported_with_a_fix() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"it cannot listen on 127.0.0.1:{port}: the port is in use; choose another"):
            require_free_port(port, "it", "choose another")


def test_free_ports_are_distinct_and_free() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    assert all(port_is_free(port) for port in ports)


def test_unbound_port_is_not_returned_again() -> None:
    ports = [port for _ in range(400) for port in free_ports(2)]
    assert len(set(ports)) == len(ports)


def test_ports_in_use_are_skipped_by_a_distance() -> None:
    (before,) = free_ports(1)
    with contextlib.ExitStack() as stack:
        for port in range(before + 1, before + 3):
            if port < _LAST_PORT and port_is_free(port):
                stack.enter_context(socket.create_server((LOOPBACK, port)))
        (after,) = free_ports(1)
    assert not before < after < before + 100


def test_directories_follow_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SLUICE_CACHE_DIR", "SLUICE_DATA_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir() == tmp_path / ".cache" / "sluice"
    assert data_home() == tmp_path / ".local" / "share" / "sluice"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "sluice"
    monkeypatch.setenv("SLUICE_CACHE_DIR", str(tmp_path / "own"))
    assert cache_dir() == tmp_path / "own"
