"""A Connect cluster with its own internal topics and short timeouts. Its workers may be of several implementations."""

from __future__ import annotations

import contextlib
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

from connect.errors import ConnectError, NotFoundError
from rest.client import ConnectClient
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import LOOPBACK
from tests.cluster.topics import Stored, latest, read_topic
from tests.cluster.worker_process import SLUICE, Kind, WorkerProcess
from tests.support.waiting import WAIT_S, Deadline, eventually

JSON = "org.apache.kafka.connect.json.JsonConverter"
_BROKER_UNAVAILABLE = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT)
_COORDINATOR_UNAVAILABLE = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
"""Errors for group requests right after a broker restart."""
_LOST_TRANSACTION = "org.apache.kafka.common.errors.InvalidTxnStateException"
"""A broker with transactions of version 2 may answer a producer of Apache's so although nobody else used its transactional ID.
The transaction is aborted, and its task fails; no record is lost. KAFKA-19690 and KAFKA-20785 describe cases."""


@dataclass(frozen=True, slots=True)
class Group:
    """The worker group as the broker describes it."""

    state: str
    members: int
    leader_url: str | None
    """None while the group is not stable."""


class Cluster:
    """Workers in one group. Leaving its context kills all of them. Not thread-safe.

    Workers are numbered in the order of their creation. They keep number, folder, log, and port across restarts.
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
            # Few processes, since each takes a second of CPU to start.
            "task.executors": "2",
            # A killed worker does not leave its group: the others wait for its session to time out.
            "session.timeout.ms": "4000",
            "heartbeat.interval.ms": "500",
            "rebalance.timeout.ms": "10000",
            "scheduled.rebalance.max.delay.ms": "1000",
            "consumer.session.timeout.ms": "4000",
            "consumer.heartbeat.interval.ms": "500",
        }

    # --- workers

    def add(self, kind: Kind = SLUICE, properties: Mapping[str, str] | None = None, *, host: str = LOOPBACK) -> WorkerProcess:
        """Adds a worker without starting it. Other workers reach it at ``host``."""
        name = f"worker-{len(self.workers)}"
        worker = WorkerProcess(kind, self.home / self.name, name, {**self.properties, **(properties or {})}, host=host)
        self.workers.append(worker)
        return worker

    def start(self, *workers: WorkerProcess) -> None:
        """Starts these workers, or all stopped ones, in parallel. Returns when the group is stable with all running workers."""
        starting = workers or tuple(worker for worker in self.workers if not worker.running)
        for worker in starting:
            worker.start()
        for worker in starting:
            worker.wait_until_up()
        self.wait_for_members(len(self.live))

    def stop(self, *workers: WorkerProcess) -> None:
        """Stops these workers, or all running ones, in parallel with SIGTERM. Fails if one does not shut down gracefully."""
        stopping = workers or tuple(self.live)
        for worker in stopping:
            worker.terminate()
        for worker in stopping:
            worker.stop()

    @property
    def live(self) -> list[WorkerProcess]:
        """The workers that are running and not frozen."""
        return [worker for worker in self.workers if worker.running and not worker.frozen]

    def client(self, number: int | None = None) -> ConnectClient:
        """Returns a REST client for the worker with this number, or for the first running one."""
        return (self.workers[number] if number is not None else self.live[0]).client

    def group(self) -> Group:
        with warnings.catch_warnings():
            # Its replacements parse assignments in the consumer's format, which Connect's do not have.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                found = self._admin.list_groups(self.group_id, timeout=WAIT_S)
            except KafkaException as e:
                # The client notices a connection closed by the broker only at its next use.
                if e.args[0].code() not in (*_BROKER_UNAVAILABLE, *_COORDINATOR_UNAVAILABLE):
                    raise
                return Group("Unknown", 0, None)
        if not found:
            return Group("Dead", 0, None)
        stable = found[0].state == "Stable"
        leader = next((_leader_url(one.assignment) for one in found[0].members if one.assignment), None) if stable else None
        return Group(found[0].state, len(found[0].members), leader)

    def wait_for_members(self, count: int) -> Group:
        """Waits until the group is stable with this many members and returns it."""
        found = Group("Unknown", 0, None)

        def has_all_members() -> bool:
            nonlocal found
            found = self.group()
            return found.state == "Stable" and found.members == count

        self.wait_for(has_all_members, WAIT_S, f"{count} members", lambda: found)
        return found

    def leader(self) -> WorkerProcess:
        """Waits until the group is stable and returns its leader."""
        found: list[WorkerProcess] = []

        def has_leader() -> bool:
            url = (self.group().leader_url or "").rstrip("/")
            found.extend(worker for worker in self.workers if worker.url == url)
            return bool(found)

        self.wait_for(has_leader, WAIT_S, "a leader")
        return found[0]

    # --- REST

    def exchange(
        self, method: str, path: str, body: Any = None, *, worker: WorkerProcess | None = None, **more: Any
    ) -> tuple[int, Any]:
        """Sends a request to the worker, or the first running one, until no rebalance is in progress. Returns status and body."""
        client = (worker or self.live[0]).client
        deadline = Deadline(f"another answer to {method} {path} at {client.url}", lambda: found)
        while _is_transient(*(found := client.send(method, path, body, **more))):
            deadline.check()
            time.sleep(0.1)
        return found

    def send(self, method: str, path: str, body: Any = None, *, worker: WorkerProcess | None = None, **more: Any) -> Any:
        """Sends a request that must succeed and returns the body; see `exchange`."""
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
        worker: WorkerProcess | None = None,
        settled: bool = True,
    ) -> dict[str, Any]:
        """Waits until the connector and all tasks have this state, and with ``settled`` run on live workers. Returns the status.

        Fails at once if something FAILED unexpectedly. Tasks of Apache that the broker has failed are restarted.
        """
        client = (worker or self.live[0]).client
        live_ids = {one.worker_id for one in self.live}
        found: dict[str, Any] = {}

        def is_in_state() -> bool:
            nonlocal found
            try:
                found = client.status(connector)
            except NotFoundError:
                return False
            parts = [found["connector"], *found["tasks"]]
            failed = [part for part in parts if part["state"] == "FAILED" and state != "FAILED"]
            if failed and all(_LOST_TRANSACTION in part["trace"] for part in failed):
                with contextlib.suppress(ConnectError):  # refused while the group rebalances
                    for part in failed:
                        client.restart_task(connector, part["id"])
                return False
            assert not failed, f"{connector} FAILED: {failed}"
            if settled and not {part["worker_id"] for part in parts} <= live_ids:
                return False
            if tasks is not None and len(found["tasks"]) != tasks:
                return False
            if state == "FAILED":  # the connector of a failed task keeps running
                return any(part["state"] == state for part in parts)
            return all(part["state"] == state for part in parts) and bool(found["tasks"] or tasks == 0 or state == "STOPPED")

        self.wait_for(is_in_state, WAIT_S, f"{connector} {state}", lambda: found)
        return found

    def wait_for(self, condition: Callable[[], bool], timeout_s: float, what: str, seen: Callable[[], Any] = lambda: "") -> None:
        """Waits until the condition holds. On a timeout the error shows ``seen()`` and the ends of all logs."""
        eventually(condition, what, lambda: f"{seen()}\n{self.log_tails()}", timeout_s=timeout_s, pause_s=0.1)

    # --- stored records and output

    def config_records(self) -> list[Stored]:
        return read_topic(self.bootstrap, self.configs_topic)

    def configs(self) -> dict[str, Any]:
        """Returns the last value of each key in the config topic."""
        return latest(self.config_records())

    def statuses(self) -> dict[str, Any]:
        return latest(read_topic(self.bootstrap, self.status_topic))

    def offsets(self) -> dict[str, Any]:
        """Returns the last offset of each source partition, by the JSON text of its key."""
        return latest(read_topic(self.bootstrap, self.offsets_topic))

    def printed(self) -> list[dict[str, Any]]:
        """Returns the JSON lines that the workers printed, each worker's in order."""
        return [line for worker in self.workers for line in worker.printed()]

    def log_tails(self, size: int = 3000) -> str:
        return "\n".join(f"--- {worker.name} ({worker.kind.name})\n{worker.log_tail(size)}" for worker in self.workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for worker in self.workers:
            worker.end()


_TRANSIENT_MESSAGES = ("rebalance", "stale configuration", "momentarily", "IO Error trying to forward REST request")


def _is_transient(status: int, answer: Any) -> bool:
    """Whether the response reports a rebalance or an unreachable leader: 409, or Apache's 500 for the same."""
    message = str(answer.get("message", "")) if isinstance(answer, dict) else ""
    return status in (409, 500, 503) and any(word in message for word in _TRANSIENT_MESSAGES)


def _leader_url(assignment: bytes) -> str | None:
    """Reads the leader's URL from an assignment of any version of the Connect protocol."""
    try:
        (length,) = struct.unpack_from(">h", assignment, 4)
        (size,) = struct.unpack_from(">h", assignment, 6 + length)
    except struct.error:
        return None
    return assignment[8 + length : 8 + length + size].decode()
