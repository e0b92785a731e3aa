"""A group of Connect workers over the session's broker, of one make or of several, with topics and timeouts of its own."""

from __future__ import annotations

import struct
import time
import uuid
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from connect.errors import NotFoundError
from rest.client import ConnectClient
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import LOOPBACK
from tests.cluster.topics import Stored, latest, read_topic
from tests.cluster.worker_process import SLUICE, Kind, WorkerProcess

JSON = "org.apache.kafka.connect.json.JsonConverter"
WAIT_S = 60.0
_BROKER_AWAY = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT)
_NOT_LOADED = (KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NOT_COORDINATOR)
"""What a broker says of groups when it has just come back."""


@dataclass(frozen=True, slots=True)
class Group:
    """The worker group as the broker has it."""

    state: str
    members: int
    leader_url: str | None
    """None while the group is not stable."""


class Cluster:
    """Workers in one group. As a context it ends all of them, whatever state they are in. Not thread-safe.

    Workers are numbered in the order in which they were added and keep their number, folder, log and port over restarts.
    """

    def __init__(
        self,
        broker: EmbeddedBroker,
        home: Path,
        workers: int = 1,
        properties: Mapping[str, str] | None = None,
        *,
        kind: Kind = SLUICE,
        stem: str = "cluster",
    ) -> None:
        self.bootstrap = broker.bootstrap
        self.home = home
        name = f"{stem}-{uuid.uuid4().hex[:8]}"
        self.group_id, self.configs_topic = f"{name}-group", f"{name}-configs"
        self.offsets_topic, self.status_topic = f"{name}-offsets", f"{name}-status"
        self.name = name
        self.properties = {**self._defaults(), **(properties or {})}
        self.workers: list[WorkerProcess] = []
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for _ in range(workers):
            self.add(kind)

    def _defaults(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group_id,
            "key.converter": JSON,
            "value.converter": JSON,
            "config.storage.topic": self.configs_topic,
            "offset.storage.topic": self.offsets_topic,
            "status.storage.topic": self.status_topic,
            "config.storage.replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "status.storage.replication.factor": "1",
            "offset.storage.partitions": "3",
            "status.storage.partitions": "2",
            "offset.flush.interval.ms": "500",
            # A killed worker cannot leave its group: the others wait until the broker misses it.
            "session.timeout.ms": "4000",
            "heartbeat.interval.ms": "500",
            "rebalance.timeout.ms": "10000",
            "scheduled.rebalance.max.delay.ms": "1000",
            "consumer.session.timeout.ms": "4000",
            "consumer.heartbeat.interval.ms": "500",
        }

    # --- workers

    def add(self, kind: Kind = SLUICE, properties: Mapping[str, str] | None = None, *, host: str = LOOPBACK) -> WorkerProcess:
        """One more worker, not started; others find it at ``host``."""
        name = f"worker-{len(self.workers)}"
        worker = WorkerProcess(kind, self.home / self.name, name, {**self.properties, **(properties or {})}, host=host)
        self.workers.append(worker)
        return worker

    def start(self, *workers: WorkerProcess, timeout_s: float = WAIT_S) -> None:
        """Starts these workers, or all that do not run, side by side. Returns when the group is stable with all that run."""
        starting = workers or tuple(worker for worker in self.workers if not worker.running)
        for worker in starting:
            worker.start()
        for worker in starting:
            worker.wait_until_up(timeout_s)
        self.wait_for_members(len(self.live), timeout_s)

    def stop(self, *workers: WorkerProcess, timeout_s: float = WAIT_S) -> None:
        """Ends these workers, or all that run, by SIGTERM and side by side. Fails when one does not end in order."""
        stopping = workers or tuple(self.live)
        for worker in stopping:
            worker.terminate()
        for worker in stopping:
            worker.stop(timeout_s)

    @property
    def live(self) -> list[WorkerProcess]:
        """The workers that run and are not frozen."""
        return [worker for worker in self.workers if worker.running and not worker.frozen]

    def client(self, number: int | None = None) -> ConnectClient:
        """The client of that worker, or of the first that runs."""
        return (self.workers[number] if number is not None else self.live[0]).client

    def group(self) -> Group:
        with warnings.catch_warnings():
            # The calls it is deprecated for parse assignments as a consumer's, which Connect's are not.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                found = self._admin.list_groups(self.group_id, timeout=30)
            except KafkaException as e:
                # A connection that the broker closed is noticed at its next use.
                if e.args[0].code() not in (*_BROKER_AWAY, *_NOT_LOADED):
                    raise
                return Group("Unknown", 0, None)
        if not found:
            return Group("Dead", 0, None)
        stable = found[0].state == "Stable"
        leader = next((_leader_url(one.assignment) for one in found[0].members if one.assignment), None) if stable else None
        return Group(found[0].state, len(found[0].members), leader)

    def wait_for_members(self, count: int, timeout_s: float = WAIT_S) -> Group:
        """The group once it is stable with so many members."""
        found = Group("Unknown", 0, None)

        def is_there() -> bool:
            nonlocal found
            found = self.group()
            return found.state == "Stable" and found.members == count

        self.wait_for(is_there, timeout_s, f"{count} members", lambda: found)
        return found

    def leader(self) -> WorkerProcess:
        """The worker that leads the group, once it is stable."""
        found: list[WorkerProcess] = []

        def is_known() -> bool:
            url = (self.group().leader_url or "").rstrip("/")
            found.extend(worker for worker in self.workers if worker.url == url)
            return bool(found)

        self.wait_for(is_known, WAIT_S, "a leader")
        return found[0]

    # --- REST

    def exchange(
        self, method: str, path: str, body: Any = None, *, worker: WorkerProcess | None = None, **more: Any
    ) -> tuple[int, Any]:
        """Status and body from that worker, or the first that runs; asked again while it says that the group is rebalanced."""
        client = (worker or self.live[0]).client
        deadline = time.monotonic() + WAIT_S
        while True:
            status, answer = client.send(method, path, body, **more)
            if not _is_momentary(status, answer):
                return status, answer
            assert time.monotonic() < deadline, f"{method} {path} at {client.url} still answers {status} {answer}"
            time.sleep(0.05)

    def send(self, method: str, path: str, body: Any = None, *, worker: WorkerProcess | None = None, **more: Any) -> Any:
        """The body of an answer that must not be an error; see `exchange`."""
        status, answer = self.exchange(method, path, body, worker=worker, **more)
        assert status < 400, f"{method} {path}: {status} {answer}\n{self.log_tails(1500)}"
        return answer

    def create(
        self,
        name: str,
        config: Mapping[str, Any],
        *,
        worker: WorkerProcess | None = None,
        initial_state: str | None = None,
    ) -> None:
        body = {"name": name, "config": dict(config), **({"initial_state": initial_state} if initial_state else {})}
        self.send("POST", "/connectors", body, worker=worker)

    def wait_for_state(
        self,
        connector: str,
        state: str = "RUNNING",
        *,
        tasks: int | None = None,
        timeout_s: float = WAIT_S,
        worker: WorkerProcess | None = None,
        settled: bool = True,
    ) -> dict[str, Any]:
        """The status once connector and all tasks are in the state, and with ``settled`` all on workers that run.

        Fails at once when something FAILED that was not waited for.
        """
        client = (worker or self.live[0]).client
        places = {one.worker_id for one in self.live}
        found: dict[str, Any] = {}

        def is_there() -> bool:
            nonlocal found
            try:
                found = client.status(connector)
            except NotFoundError:
                return False
            parts = [found["connector"], *found["tasks"]]
            failed = [part for part in parts if part["state"] == "FAILED" and state != "FAILED"]
            assert not failed, f"{connector} FAILED: {failed}"
            if settled and not {part["worker_id"] for part in parts} <= places:
                return False
            if tasks is not None and len(found["tasks"]) != tasks:
                return False
            if state == "FAILED":  # a task that fails leaves its connector running
                return any(part["state"] == state for part in parts)
            return all(part["state"] == state for part in parts) and bool(found["tasks"] or tasks == 0 or state == "STOPPED")

        self.wait_for(is_there, timeout_s, f"{connector} {state}", lambda: found)
        return found

    def wait_for(self, condition: Callable[[], bool], timeout_s: float, what: str, seen: Callable[[], Any] = lambda: "") -> None:
        """Waits for something; the failure shows ``seen`` and the ends of all logs."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, f"waited {timeout_s:g} s for {what}: {seen()}\n{self.log_tails()}"
            time.sleep(0.05)

    # --- what is stored and printed

    def config_records(self) -> list[Stored]:
        return read_topic(self.bootstrap, self.configs_topic)

    def configs(self) -> dict[str, Any]:
        """The last value of each key of the config topic."""
        return latest(self.config_records())

    def statuses(self) -> dict[str, Any]:
        return latest(read_topic(self.bootstrap, self.status_topic))

    def offsets(self) -> dict[str, Any]:
        """The last offset of each source partition; keys are the keys' JSON text."""
        return latest(read_topic(self.bootstrap, self.offsets_topic))

    def printed(self) -> list[dict[str, Any]]:
        """The JSON lines of all workers, each worker's in its order."""
        return [line for worker in self.workers for line in worker.printed()]

    def log_tails(self, size: int = 3000) -> str:
        return "\n".join(f"--- {worker.name} ({worker.kind.name})\n{worker.log_tail(size)}" for worker in self.workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for worker in self.workers:
            worker.end()


_MOMENTARY = ("rebalance", "stale configuration", "momentarily", "IO Error trying to forward REST request")


def _is_momentary(status: int, answer: Any) -> bool:
    """Whether the answer only says that the group is busy, or has not missed a leader yet: 409, or Apache's 500 for the same."""
    message = str(answer.get("message", "")) if isinstance(answer, dict) else ""
    return status in (409, 500, 503) and any(word in message for word in _MOMENTARY)


def _leader_url(assignment: bytes) -> str | None:
    """The leader's URL in an assignment of the Connect protocol, any version."""
    try:
        (length,) = struct.unpack_from(">h", assignment, 4)
        (size,) = struct.unpack_from(">h", assignment, 6 + length)
    except struct.error:
        return None
    return assignment[8 + length : 8 + length + size].decode()
