"""Checks how embedded servers exit."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import psutil

from sluice.embedded.server import EmbeddedServer
from tests.support.waiting import WAIT_S


def is_running(process: psutil.Process) -> bool:
    """Whether the process runs. A zombie does not, and may be reaped at any moment."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def assert_exits_with_killed_parent(own: EmbeddedServer) -> None:
    """Starts a server in the folder of ``own`` from a process that is killed. The server must exit, and ``own`` can start."""
    kind = type(own)
    code = (
        f"import os, signal; from {kind.__module__} import {kind.__name__} as Server;"
        f"server = Server({str(own.data_dir)!r}, dies_with_parent=True); server.start();"
        "print(server.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    _await_end(int(done.stdout))
    assert not own.running
    assert own.data_dir.joinpath(f"{own.stem}.pid").exists(), "the killed process cannot remove it"
    own.start()
    assert own.answers()


def _await_end(pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], WAIT_S)[0], "the server outlived the process that started it"
    finally:
        os.close(handle)
