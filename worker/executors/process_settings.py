"""Settings that a process of a worker gives itself."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_OOM_SCORE = "300"


def end_with_parent(parent_pid: int) -> None:
    """Has the kernel end this process together with the thread that started it, which is one of the parent."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(0)  # the parent ended before that


def set_process_name(name: str) -> None:
    """Sets the name in process lists, and lets the kernel end this process rather than the worker when memory is short."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode()[:15])
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
