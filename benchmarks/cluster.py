"""Distributed workers for benchmarks: processes, REST API over one persistent connection, memory, and threads."""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.environment import START_S, STRING, BenchmarkEnvironment, free_port
from benchmarks.measure import Measured, tree

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"
_ANSWER_S = 120.0
"""Longer than a worker works on a request, so that its answer says what it waited for."""


@dataclass
class ClusterWorker:
    """A worker process and a connection to its REST API. Not thread-safe."""

    port: int
    process: Measured
    _connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Returns status and body; reopens a closed connection."""
        for attempt in (1, 2):
            if self._connection is None:
                self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_ANSWER_S)
            try:
                data = None if body is None else json.dumps(body)
                self._connection.request(method, path, data, {"Content-Type": "application/json"} if data else {})
                answer = self._connection.getresponse()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                self._connection.close()
                self._connection = None
                if attempt == 2:
                    raise
        raise AssertionError

    def get(self, path: str) -> Any:
        status, body = self.ask("GET", path)
        if status >= 400:
            raise RuntimeError(f"GET {path}: {status} {body.decode()}")
        return json.loads(body)

    def change(self, method: str, path: str, body: Any = None) -> None:
        """Sends a request that must succeed."""
        status, answer = self.ask(method, path, body)
        if status >= 400:
            raise RuntimeError(f"{method} {path}: {status} {answer.decode()}")

    def healthy(self) -> bool:
        try:
            return self.ask("GET", "/health")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def statuses(self) -> dict[str, Any]:
        return {name: one["status"] for name, one in self.get("/connectors?expand=status").items()}

    def all_running(self, count: int) -> bool:
        """Returns whether this number of connectors run, each with a running task."""
        found = self.statuses()
        return sum(map(runs, found.values())) == len(found) == count

    def milliseconds(self, path: str, times: int) -> list[float]:
        """Returns the sorted durations of consecutive GETs over one connection."""
        found = []
        for _ in range(times):
            started_at = time.perf_counter()
            self.ask("GET", path)
            found.append((time.perf_counter() - started_at) * 1000)
        return sorted(found)


def runs(status: Mapping[str, Any]) -> bool:
    """Returns whether a connector and its task are RUNNING."""
    states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
    return len(states) > 1 and set(states) == {"RUNNING"}


@dataclass(frozen=True)
class Memory:
    """Memory of a process tree: RSS counts shared pages in full, PSS proportionally."""

    processes: int
    threads: int
    rss_mb: float
    pss_mb: float


def memory(root: int) -> Memory:
    pids = list(tree(root))
    threads, rss, pss = 0, 0, 0
    for pid in pids:
        threads += len(os.listdir(f"/proc/{pid}/task"))
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Rss:"):
                rss += int(line.split()[1])
            elif line.startswith("Pss:"):
                pss += int(line.split()[1])
    return Memory(len(pids), threads, round(rss / 1024, 1), round(pss / 1024, 1))


@dataclass
class BenchCluster:
    """Settings of a cluster over a environment's broker; workers are started one by one."""

    environment: BenchmarkEnvironment
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = f"bench-{uuid.uuid4().hex[:6]}"
        self._number = 0

    def command(self) -> tuple[list[str], int]:
        """A ``connect-distributed`` command line and the port of its REST API."""
        self._number += 1
        port = free_port()
        settings = {
            "bootstrap.servers": self.environment.broker.bootstrap,
            "group.id": self.name,
            "key.converter": STRING,
            "value.converter": STRING,
            **{f"{what}.storage.topic": f"{self.name}-{what}" for what in ("config", "offset", "status")},
            **{f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")},
            "listeners": f"http://127.0.0.1:{port}",
            **self.settings,
        }
        path = self.environment.home / f"{self.name}-{self._number}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        return [sys.executable, "-m", "sluice.run.distributed", str(path)], port

    @contextmanager
    def workers(self, count: int = 1) -> Iterator[list[ClusterWorker]]:
        """Workers that have joined the group."""
        with ExitStack() as stack:
            found = []
            for _ in range(count):
                command, port = self.command()
                process = stack.enter_context(Measured(command, self.environment.home / f"{self.name}-{port}.log"))
                found.append(ClusterWorker(port, process))
            for worker in found:
                worker.process.wait_until(worker.healthy, START_S, poll_s=0.01)
            yield found


def seconds_until(worker: ClusterWorker, condition: Callable[[], bool], timeout_s: float) -> float:
    started_at = time.monotonic()
    worker.process.wait_until(condition, timeout_s, poll_s=0.01)
    return time.monotonic() - started_at
