"""Time from launching a worker until its REST API responds, on an idle broker; median of five starts."""

from __future__ import annotations

import statistics
import time
from functools import partial

from benchmarks.environment import STRING, environment, rest
from benchmarks.measure import Measured, report

STARTS = 5


def _is_ready(port: int) -> bool:
    return bool(rest(port, "/connectors") == [])


def main() -> None:
    with environment() as here:
        seconds: list[float] = []
        for _ in range(STARTS):
            command, port = here.worker_command({"key.converter": STRING, "value.converter": STRING}, [])
            started_at = time.monotonic()
            with Measured(command, here.home / "log") as worker:
                worker.wait_until(partial(_is_ready, port), 30, poll_s=0.01)
                seconds.append(time.monotonic() - started_at)
                figures = worker.figures(1)
        report("worker_start", figures, None, median_s=round(statistics.median(seconds), 2), worst_s=round(max(seconds), 2))


if __name__ == "__main__":
    main()
