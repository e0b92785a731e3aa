"""CPU time and memory of the worker's processes, from Linux's /proc: also of one that hangs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from worker.observability.metrics.families import MetricFamily, counter, gauge

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_LISTED_S = 10.0
"""How long the list of processes is used: reading it takes time on a machine with many."""


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """One process."""

    pid: int
    parent: int
    name: str
    """As the kernel knows it."""
    cpu_s: float
    resident_bytes: int
    threads: int
    started_s: float
    """Seconds since the machine started."""


def read_process(pid: int) -> ProcessFigures | None:
    """Returns the figures of a process; None if it has ended, or there is no /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        name = text[text.index("(") + 1 : text.rindex(")")]
        fields = text[text.rindex(")") + 2 :].split()
        cpu_s = (int(fields[11]) + int(fields[12])) / _TICK
        return ProcessFigures(
            pid, int(fields[1]), name, cpu_s, int(fields[21]) * _PAGE_BYTES, int(fields[17]), int(fields[19]) / _TICK
        )
    except (OSError, ValueError, IndexError):
        return None


class ProcessTree:
    """The processes below this one. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listed_at = float("-inf")
        self._parents: dict[int, int] = {}
        """The parent of each descendant."""

    def read(self, executors: Mapping[int, str]) -> Iterator[tuple[str, str, ProcessFigures]]:
        """Yields the key of each process (``control`` or an executor's), the name of a program that it has started, or "", and
        the figures. ``executors`` are the keys of executors by process ID."""
        own = os.getpid()
        keys = {own: "control", **executors}
        with self._lock:
            if time.monotonic() - self._listed_at > _LISTED_S:
                self._parents, self._listed_at = _descendants(own), time.monotonic()
            parents = dict(self._parents)
        for pid in {own, *executors, *parents}:
            if (figures := read_process(pid)) is None:
                continue
            if pid in keys:
                yield keys[pid], "", figures
            elif (key := _owner(pid, parents, keys)) is not None:
                yield key, figures.name, figures


def _descendants(root: int) -> dict[int, int]:
    parents = {}
    with suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and (found := read_process(int(name))) is not None:
                parents[found.pid] = found.parent
    return {pid: parent for pid, parent in parents.items() if _owner(pid, parents, {root: ""}) is not None}


def _owner(pid: int, parents: Mapping[int, int], keys: Mapping[int, str]) -> str | None:
    seen = set()
    while (pid := parents.get(pid, 0)) and pid not in seen:
        if pid in keys:
            return keys[pid]
        seen.add(pid)
    return None


def process_families(tree: ProcessTree, executors: Mapping[int, str]) -> list[MetricFamily]:
    """Returns the metrics of all processes, and those that client libraries of Prometheus give the worker's own one."""
    cpu = counter("sluice_process_cpu_seconds_total", "CPU time, by process; with program, of what it has started.")
    memory = gauge("sluice_process_resident_memory_bytes", "Resident memory, by process; with program, of what it has started.")
    threads = gauge("sluice_process_threads", "Threads, by process; with program, of what it has started.")
    families = [cpu, memory, threads]
    found: dict[tuple[str, str], list[ProcessFigures]] = {}
    for key, program, figures in tree.read(executors):
        found.setdefault((key, program), []).append(figures)
    for (key, program), group in sorted(found.items()):
        labels = {"process": key, **({"program": program} if program else {})}
        cpu.add(sum(one.cpu_s for one in group), labels)
        memory.add(sum(one.resident_bytes for one in group), labels)
        threads.add(sum(one.threads for one in group), labels)
    if own := found.get(("control", "")):
        families.append(counter("process_cpu_seconds_total", "CPU time of the worker's own process.").add(own[0].cpu_s))
        families.append(
            gauge("process_resident_memory_bytes", "Resident memory of the worker's own process.").add(own[0].resident_bytes)
        )
        booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        started = gauge("process_start_time_seconds", "When the worker's own process started, in seconds since 1970.")
        families.append(started.add(round(booted_s + own[0].started_s, 2)))
        with suppress(OSError):
            open_fds = gauge("process_open_fds", "Open file descriptors of the worker's own process.")
            families.append(open_fds.add(len(os.listdir("/proc/self/fd"))))
    return families
