"""CPU-bound tasks in pure Python: one task, two on a worker with two executor processes, and two on a worker with threads for
comparison. Goal: two do at least 1.7 times the work of one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cluster import BenchCluster, seconds_until
from benchmarks.environment import BenchmarkEnvironment, environment

RUN_S = 10.0
BARE_S = 5.0
ROUNDS = 3
ASKED = 1.7

PLUGIN = '''
from connect.config.definition import ConfigDef
from connect.connector import SourceConnector
from connect.data.schema import Schema
from connect.record import SourceRecord
from connect.source import SourceTask


class Burner(SourceConnector):
    """Each record stands for a piece of work."""

    def config_def(self):
        return ConfigDef([])

    def start(self, config):
        self._config = dict(config)

    def task_class(self):
        return BurnerTask

    def task_configs(self, max_tasks):
        return [dict(self._config) for _ in range(max_tasks)]

    def stop(self):
        pass


class BurnerTask(SourceTask):
    def start(self, config):
        self._topic = config["topic"]

    def poll(self):
        total = 0
        for number in range(200_000):
            total += number * number % 7
        return [SourceRecord({}, {"n": 0}, self._topic, None, None, None, Schema.STRING, str(total))]

    def stop(self):
        pass
'''


@dataclass(frozen=True)
class Work:
    pieces_per_s: float
    cores: float
    """Processor seconds a second. On a machine that others use too it tells how much of it there was to be had."""


def work(here: BenchmarkEnvironment, executors: str, tasks: int) -> Work:
    """Measures the work of running tasks."""
    topic = here.create_topic(f"burned-{executors}-{tasks}-{time.monotonic_ns()}")
    settings = {"task.executors": executors, "plugin.path": str(here.home / "plugins")}
    with BenchCluster(here, settings).workers() as (worker,):
        config = {"connector.class": "burning:Burner", "tasks.max": str(tasks), "topic": topic}
        worker.change("PUT", "/connectors/burner/config", config)
        seconds_until(worker, lambda: worker.all_running(1), 60)
        seconds_until(worker, lambda: here.end_offset(topic) >= 20, 60)
        before, cpu_s, started_at = here.end_offset(topic), worker.process.cpu_s(), time.monotonic()
        time.sleep(RUN_S)
        seconds = time.monotonic() - started_at
        return Work((here.end_offset(topic) - before) / seconds, (worker.process.cpu_s() - cpu_s) / seconds)


_BARE = """
import sys, time
end, done = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end:
    total = 0
    for number in range(200_000):
        total += number * number % 7
    done += 1
print(done)
"""


def run_processes(processes: int) -> int:
    """Measures parallel processes that do only this work: the machine's limit."""
    command = [sys.executable, "-c", _BARE, str(BARE_S)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return sum(int(one.communicate()[0]) for one in running)


def main() -> None:
    with environment() as here:
        folder = Path(here.home / "plugins")
        folder.mkdir()
        (folder / "burning.py").write_text(PLUGIN, encoding="utf-8")
        # In turn, so that other load on the machine affects all alike; the best of each.
        runs = [(executors, tasks) for _ in range(ROUNDS) for executors, tasks in (("2", 1), ("2", 2), ("0", 2))]
        found: dict[tuple[str, int], Work] = {}
        for run in runs:
            done = work(here, *run)
            if run not in found or done.pieces_per_s > found[run].pieces_per_s:
                found[run] = done
    one, two, threads = found["2", 1], found["2", 2], found["0", 2]
    limits = [run_processes(2) / run_processes(1) for _ in range(ROUNDS)]
    line = {
        "benchmark": "executors",
        "one_task_per_s": round(one.pieces_per_s, 1),
        "two_tasks_per_s": round(two.pieces_per_s, 1),
        "two_tasks_as_threads_per_s": round(threads.pieces_per_s, 1),
        "times_one": round(two.pieces_per_s / one.pieces_per_s, 2),
        "threads_times_one": round(threads.pieces_per_s / one.pieces_per_s, 2),
        "cores": {"one_task": round(one.cores, 2), "two_tasks": round(two.cores, 2), "threads": round(threads.cores, 2)},
        "limit_times_one": round(max(limits), 2),
        "asked_times_one": ASKED,
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
