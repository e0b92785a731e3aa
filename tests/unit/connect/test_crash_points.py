"""Points at which a process ends itself: its own, or with its worker's control process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

CONTROL = """
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "from connect import crash_points; crash_points.in_executor_of(%d); "
    "crash_points.point('a.b'); "
    "crash_points.point('a.b'); print('passed')" % os.getpid()])
sys.exit(child.wait() + 100)
"""


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ("a.b", 100 - signal.SIGKILL),
        ("a.b:2", 100 - signal.SIGKILL),
        ("worker/a.b:2", -signal.SIGKILL),
        ("worker/a.b:3", 100),
        ("", 100),
    ],
)
def test_crash_point_kills_its_process_or_the_whole_worker(asked: str, code: int) -> None:
    done = subprocess.run([sys.executable, "-c", CONTROL], env={**os.environ, "SLUICE_CRASH_AT": asked}, check=False)
    assert done.returncode == code
