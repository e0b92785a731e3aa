"""The allocator keeps the memory of one batch for the next."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import resource, sys
from worker.executors.allocator import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()

def batch():
    return [bytes(4000) for _ in range(2000)]

batch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the settings are those of glibc")
def test_next_batch_needs_no_new_pages() -> None:
    faults = {
        how: int(subprocess.run([sys.executable, "-c", _PROGRAM, how], capture_output=True, check=True, text=True).stdout)
        for how in ("kept", "returned")
    }
    assert faults["kept"] < 100 < 10_000 < faults["returned"]
