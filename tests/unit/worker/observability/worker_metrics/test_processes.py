"""CPU time and memory from /proc."""

from __future__ import annotations

import os
import subprocess
import sys

from worker.observability.worker_metrics.processes import ProcessTree, process_families, read_process


def test_own_process_and_programs_that_executors_start_are_read() -> None:
    wait = "import sys; sys.stdin.read()"
    executor = subprocess.Popen([sys.executable, "-c", f"{STARTER}; {wait}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert executor.stdout is not None
        assert executor.stdout.readline() == b"started\n"
        families = {family.name: family for family in process_families(ProcessTree(), {executor.pid: "shared-1"})}
        labels = families["sluice_process_resident_memory_bytes"].labels
        assert 'process="control"' in labels
        assert 'process="shared-1"' in labels
        assert 'process="shared-1",program="cat"' in labels
        (own,) = families["process_resident_memory_bytes"].values
        assert isinstance(own, int)
        assert own > 1_000_000
    finally:
        executor.communicate()


STARTER = "import subprocess; p = subprocess.Popen(['cat']); print('started', flush=True)"


def test_ended_process_has_no_figures() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert read_process(process.pid) is None
    found = read_process(os.getpid())
    assert found is not None
    assert found.parent == os.getppid()
