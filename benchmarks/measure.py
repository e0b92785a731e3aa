"""Measures a process tree: wall seconds, CPU seconds, peak memory. Reads Linux's /proc.

CPU seconds are the reliable figure on a shared machine. They include user and system time of the process, its live children, and
reaped children.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def _stat(pid: int) -> tuple[int, float, int] | None:
    """Parent pid, CPU seconds with reaped children, resident bytes; None when the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return int(fields[1]), sum(map(int, fields[11:15])) / _TICK, int(fields[21]) * _PAGE


def tree(root: int) -> dict[int, tuple[int, float, int]]:
    """The processes below and with ``root`` now."""
    found = {int(name): s for name in os.listdir("/proc") if name.isdigit() and (s := _stat(int(name))) is not None}
    children: dict[int, list[int]] = {}
    for pid, (parent, _, _) in found.items():
        children.setdefault(parent, []).append(pid)
    result: dict[int, tuple[int, float, int]] = {}
    todo = [root]
    while todo:
        pid = todo.pop()
        if pid in found:
            result[pid] = found[pid]
            todo += children.get(pid, [])
    return result


def tree_cpu_s(root: int) -> float:
    return sum(cpu for _, cpu, _ in tree(root).values())


@dataclass(frozen=True)
class Figures:
    """Measurements of one run."""

    records: int
    wall_s: float
    cpu_s: float
    peak_rss_mb: float
    startup_s: float | None = None

    def as_dict(self) -> dict[str, Any]:
        shown = {
            "records": self.records,
            "wall_s": round(self.wall_s, 2),
            "cpu_s": round(self.cpu_s, 2),
            "peak_rss_mb": round(self.peak_rss_mb),
            "records_per_cpu_s": round(self.records / self.cpu_s) if self.cpu_s else None,
        }
        if self.startup_s is not None:
            shown["startup_s"] = round(self.startup_s, 2)
        return shown


def _as_where_users_run_it() -> dict[str, str]:
    """The environment, but with compiled modules kept from one start to the next."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}


class Measured:
    """A process that is measured from its start. Use as a context manager; it is ended by SIGTERM on the way out."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log = log
        self._started = time.monotonic()
        with log.open("wb") as output:
            self.child = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**_as_where_users_run_it(), **(environment or {})},
                start_new_session=True,
            )
        self._peak = 0
        self._first: float | None = None
        self._stop = threading.Event()
        self._sampler = threading.Thread(target=self._sample, name="sampler", daemon=True)
        self._sampler.start()

    def _sample(self) -> None:
        while not self._stop.wait(0.1):
            self._peak = max(self._peak, sum(rss for _, _, rss in tree(self.child.pid).values()))

    def mark_first(self) -> None:
        """Records the time of the first record at the destination."""
        if self._first is None:
            self._first = time.monotonic()

    def wait_until(self, condition: Callable[[], bool], timeout_s: float, poll_s: float = 0.02) -> None:
        """Raises RuntimeError when the process ends or the time is over before the condition holds."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if self.child.poll() is not None:
                raise RuntimeError(f"ended with {self.child.returncode}:\n{self.log.read_text(errors='replace')[-3000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"not done after {timeout_s} s:\n{self.log.read_text(errors='replace')[-3000:]}")
            time.sleep(poll_s)

    def figures(self, records: int) -> Figures:
        """Returns the measurements so far."""
        now = time.monotonic()
        startup = None if self._first is None else self._first - self._started
        return Figures(records, now - self._started, tree_cpu_s(self.child.pid), self._peak / 2**20, startup)

    def cpu_s(self) -> float:
        return tree_cpu_s(self.child.pid)

    def __enter__(self) -> Measured:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(30)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        self._stop.set()
        self._sampler.join()


def measure_here(records: int, work: Callable[[], None]) -> Figures:
    """Figures of some work in a fork of this process, so that its memory is its own."""
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as e:
            print(f"{type(e).__name__}: {e}", file=sys.stderr, flush=True)
            os._exit(1)
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        raise RuntimeError("the limit's own run failed, see above")
    return Figures(records, time.monotonic() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def report(name: str, ours: Figures, limit: Figures | None, **more: Any) -> None:
    """Prints the result line of a benchmark."""
    line: dict[str, Any] = {"benchmark": name, **ours.as_dict()}
    if limit is not None:
        line["limit"] = limit.as_dict()
        line["cpu_times_limit"] = round(ours.cpu_s / limit.cpu_s, 2) if limit.cpu_s else None
    line.update(more)
    print(json.dumps(line), flush=True)


def quantiles(values: Sequence[float], digits: int | None = None) -> dict[str, float | None]:
    """``p50``, ``p99``, and ``max``, rounded to ``digits`` after the point; None without values."""
    ordered = sorted(values)
    if not ordered:
        return {"p50": None, "p99": None, "max": None}
    return {
        "p50": round(ordered[len(ordered) // 2], digits),
        "p99": round(ordered[len(ordered) * 99 // 100], digits),
        "max": round(ordered[-1], digits),
    }
