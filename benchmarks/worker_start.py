"""From launching a worker to its REST API answering, on a quiet broker; median of five starts."""

from __future__ import annotations

import statistics
import time
from functools import partial

from benchmarks.measure import Measured, report
from benchmarks.scene import STRING, rest, scene

STARTS = 5


def _is_ready(port: int) -> bool:
    return bool(rest(port, "/connectors") == [])


def main() -> None:
    with scene() as here:
        seconds: list[float] = []
        for _ in range(STARTS):
            command, port = here.worker_command({"key.converter": STRING, "value.converter": STRING}, [])
            begun = time.monotonic()
            with Measured(command, here.home / "log") as worker:
                worker.wait_until(partial(_is_ready, port), 30, poll_s=0.01)
                seconds.append(time.monotonic() - begun)
                figures = worker.figures(1)
        report("worker_start", figures, None, median_s=round(statistics.median(seconds), 2), worst_s=round(max(seconds), 2))


if __name__ == "__main__":
    main()
