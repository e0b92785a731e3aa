"""Limits the CPU of processes with Linux's control groups (version 1 or 2), which only root may do."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PERIOD_US = 100_000


@contextlib.contextmanager
def limit_cpu(pids: Sequence[int], percent: int) -> Iterator[None]:
    """Limits each process, with the children that it starts from now on, to so many percent of one core; 0 is no limit. Raises
    OSError where this is not allowed. On exit the processes must have ended, or they are left without a limit."""
    groups: list[Path] = []
    try:
        for pid in pids if percent else ():
            groups.append(_create_group(f"sluice-{os.getpid()}-{pid}", percent * _PERIOD_US // 100))
            (groups[-1] / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for group in groups:
            _remove_group(group)


def _create_group(name: str, quota_us: int) -> Path:
    is_first_version = (_ROOT / "cpu").is_dir()
    group = (_ROOT / "cpu" if is_first_version else _ROOT) / name
    group.mkdir()
    if is_first_version:
        (group / "cpu.cfs_quota_us").write_text(str(quota_us))
    else:
        (group / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
    return group


def _remove_group(group: Path) -> None:
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            (group.parent / "cgroup.procs").write_text(pid)
    group.rmdir()
