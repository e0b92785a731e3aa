"""Time from launch until Spark is ready for a task, and on to the first append; without and with the class archive.

CPU seconds include the Python processes and the JVM. Run ``sluice setup`` before, which creates the class archive.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import Figures, Measured, report
from sluice.embedded.directories import cache_dir
from sluice.embedded.jars import ensure_jars, folder_of, jar_set

STARTS = int(os.environ.get("SLUICE_BENCH_STARTS", "3"))
_TIMEOUT_S = 120.0


def _start(jars: str, environment: dict[str, str]) -> tuple[Figures, Figures]:
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        work = Path(folder)
        command = [sys.executable, "-m", "benchmarks.spark_first_append", folder, jars]
        with Measured(command, work / "log", environment) as measured:
            measured.wait_until((work / "first").exists, _TIMEOUT_S)
            ready = measured.figures(1)
            measured.wait_until((work / "second").exists, _TIMEOUT_S)
            return ready, measured.figures(1)


def _median_start(jars: str, environment: dict[str, str]) -> tuple[Figures, dict[str, Any]]:
    starts = [_start(jars, environment) for _ in range(STARTS)]
    ready, appended = zip(*starts, strict=True)
    middle = sorted(ready, key=lambda f: f.cpu_s)[STARTS // 2]
    figures = {
        "ready_s": round(statistics.median(f.wall_s for f in ready), 2),
        "ready_cpu_s": round(statistics.median(f.cpu_s for f in ready), 2),
        "appended_s": round(statistics.median(f.wall_s for f in appended), 2),
        "appended_cpu_s": round(statistics.median(f.cpu_s for f in appended), 2),
        "peak_rss_mb": round(max(f.peak_rss_mb for f in appended)),
    }
    return middle, figures


def main() -> None:
    ensure_jars("spark")
    jars = str(folder_of(jar_set("spark")))
    archive = [sys.executable, "-m", "connectors.spark.session.archive_training"]
    subprocess.run(archive, env={**os.environ, "SLUICE_SPARK_JARS": jars}, check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as empty:
        _, without = _median_start(jars, {"SLUICE_CACHE_DIR": empty})
    ours, with_archive = _median_start(jars, {"SLUICE_CACHE_DIR": str(cache_dir())})
    report("spark_start", ours, None, **with_archive, without_archive=without)


if __name__ == "__main__":
    main()
