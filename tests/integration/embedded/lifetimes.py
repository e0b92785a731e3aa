"""How embedded servers end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

import psutil

from sluice.embedded.server import EmbeddedServer


def runs(process: psutil.Process) -> bool:
    """Whether it has not ended. One that nobody has reaped yet has, and somebody may do so at any moment."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def dies_with_a_killed_parent(own: EmbeddedServer) -> None:
    """Starts the server of ``own``'s folder from another process, which is killed: nothing of it may run, and ``own`` starts."""
    made = type(own)
    code = (
        f"import os, signal; from {made.__module__} import {made.__name__} as Made;"
        f"server = Made({str(own.data_dir)!r}, dies_with_parent=True); server.start();"
        "print(server.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    _await_end(int(done.stdout))
    assert not own.running
    assert own.data_dir.joinpath(f"{own.stem}.pid").exists(), "nobody was left to remove it"
    own.start()
    assert own.answers()


def _await_end(pid: int) -> None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([handle], [], [], 30)[0], "the server outlived the process that started it"
    finally:
        os.close(handle)
