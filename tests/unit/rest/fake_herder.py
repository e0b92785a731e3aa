"""A herder without a runtime, to test the REST API without a broker."""

from __future__ import annotations

import base64
import hmac
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from connect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConfigError,
    ConnectError,
    ForbiddenError,
    NotFoundError,
    UnsupportedError,
)
from tests.support.waiting import WAIT_S
from worker.cancellation import Cancellation
from worker.model import (
    ConfigVersion,
    ConnectorFileState,
    ConnectorInfo,
    ConnectorStatus,
    ErrorCounts,
    Health,
    HealthCheck,
    LoggerLevel,
    OffsetEntry,
    PreviewRequest,
    Readiness,
    RequestSignature,
    RestartPlan,
    ServerInfo,
    State,
    Status,
    SystemQuestion,
    TargetState,
    TaskId,
    TaskInfo,
    TaskProgress,
    TaskSignal,
)
from worker.observability.diagnosis.snapshot import ConnectorSnapshot, KafkaFacts
from worker.observability.metrics.families import MetricFamily, counter
from worker.observability.verifications import VerificationResults

_STATES = {TargetState.STARTED: State.RUNNING, TargetState.PAUSED: State.PAUSED, TargetState.STOPPED: State.STOPPED}


class FakeDocuments:
    """Documents in memory."""

    def __init__(self) -> None:
        self.stored: dict[str, Mapping[str, Any]] = {}
        self.is_read = True
        self.failure: ConnectError | None = None
        """What the next writes raise."""
        self.on_put: Callable[[], None] = lambda: None
        """Called by each write."""

    def all(self) -> Mapping[str, Mapping[str, Any]]:
        return dict(self.stored)

    def put(self, name: str, document: Mapping[str, Any]) -> None:
        if self.failure is not None:
            raise self.failure
        self.on_put()
        self.stored[name] = document

    def discard(self, names: Collection[str]) -> None:
        for name in names:
            del self.stored[name]


class FakeHerder:
    """Keeps configurations and target states; every connector has one task unless it is stopped."""

    worker_id = "localhost:8083"

    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str | None]] = {}
        self.targets: dict[str, TargetState] = {}
        self.restarted: list[object] = []
        self.altered: list[tuple[str, Any]] = []
        self.previewed: list[tuple[Mapping[str, str | None], PreviewRequest]] = []
        self.progress_requests = 0
        self.asked: list[tuple[Mapping[str, str | None], SystemQuestion]] = []
        self.hangs = threading.Event()
        """Set while a connector of class Hangs is asked."""
        self.cancelled = threading.Event()
        self.task_workers: dict[str, list[str]] = {}
        """The workers of a connector's tasks, if there are several."""
        self.versions: dict[str, list[ConfigVersion]] = {}
        self.levels: dict[str, LoggerLevel] = {"root": LoggerLevel("INFO", None)}
        self.cluster_levels: dict[str, str] = {}
        self.others: list[str] = []
        self.verifications = VerificationResults(FakeDocuments())
        self.ended_sessions = FakeDocuments()
        self.schedules: dict[str, dict[str, Any]] = {}
        self.broker_answers = True
        self.requested: list[tuple[str, dict[str, Any], Any]] = []

    def timeout_message(self) -> str:
        return "Request timed out"

    def server_info(self) -> ServerInfo:
        return ServerInfo("1.2.3", "abc", "cluster")

    def health(self) -> Health:
        return Health("healthy", "Worker has completed startup and is ready to handle requests.")

    def verification_schedule(self, name: str) -> dict[str, Any] | None:
        return self.schedules.get(name)

    def other_workers(self) -> list[str]:
        return list(self.others)

    def liveness(self) -> Readiness:
        return Readiness([HealthCheck("herder", True, "responds")])

    def readiness(self) -> Readiness:
        return Readiness([HealthCheck("broker", self.broker_answers, "answers" if self.broker_answers else "does not answer")])

    def metrics(self) -> list[MetricFamily]:
        return [counter("sluice_test_total", 'A "test".').add(2, {"connector": 'a"b\\c'})]

    def connectors(self) -> list[str]:
        return sorted(self.configs)

    def _known(self, name: str) -> str:
        if name not in self.configs:
            raise NotFoundError(f"Connector {name} not found")
        return name

    def _tasks(self, name: str) -> list[TaskId]:
        return [] if self.targets[name] is TargetState.STOPPED else [TaskId(name, 0)]

    def dead_letters(self, name: str, request: Mapping[str, Any], edits: Mapping[str, str | None] | None) -> dict[str, Any]:
        self.requested.append((self._known(name), dict(request), edits))
        found: dict[str, Any] = {"connector": name, "topic": "queue", "complete": True}
        match request["action"]:
            case "list":
                return {**found, "records": 0, "left": 0, "newest_ms": None, "letters": []}
            case "causes":
                return {**found, "letters": 0, "causes": []}
            case _:
                counts: dict[str, Any] = {"checked": 0, "replayed": 0, "verdicts": {}}
                return {**found, "dry_run": True, **counts, "next": {}, "letters": []}

    def connector_info(self, name: str) -> ConnectorInfo:
        return ConnectorInfo(name, self.configs[self._known(name)], self._tasks(name), "source")

    def connector_status(self, name: str) -> ConnectorStatus:
        if name not in self.configs:
            raise NotFoundError(f"No status found for connector {name}")
        status = Status(_STATES[self.targets[name]], self.worker_id, version="1.0")
        tasks = [(t.task, status) for t in self._tasks(name)]
        if name in self.task_workers:
            tasks = [(number, Status(State.RUNNING, worker)) for number, worker in enumerate(self.task_workers[name])]
        return ConnectorStatus(name, status, tasks, "source")

    def connector_statuses(self, names: Iterable[str]) -> list[ConnectorStatus]:
        found = []
        for name in names:
            with suppress(NotFoundError):
                found.append(self.connector_status(name))
        return found

    def task_status(self, task: TaskId) -> Status:
        if task.connector not in self.configs or task not in self._tasks(task.connector):
            raise NotFoundError(f"No status found for task {task}")
        return Status(State.FAILED, self.worker_id, trace="boom")

    def task_infos(self, name: str) -> list[TaskInfo]:
        return [TaskInfo(task, {"file": "x"}) for task in self._tasks(self._known(name))]

    def put_connector(
        self,
        name: str,
        config: Mapping[str, str | None],
        *,
        replace: bool,
        target_state: TargetState | None = None,
    ) -> tuple[ConnectorInfo, bool]:
        if "connector.class" not in config:
            raise BadRequestError("Connector config contains no connector type")
        created = name not in self.configs
        if not created and not replace:
            raise AlreadyExistsError(f"Connector {name} already exists")
        self.configs[name] = dict(config)
        self.targets.setdefault(name, target_state or TargetState.STARTED)
        return self.connector_info(name), created

    def patch_connector(self, name: str, changes: Mapping[str, str | None]) -> ConnectorInfo:
        merged = {**self.configs[self._known(name)], **changes}
        self.configs[name] = {key: value for key, value in merged.items() if value is not None}
        return self.connector_info(name)

    def delete_connector(self, name: str) -> None:
        del self.configs[self._known(name)]

    def set_target_state(self, name: str, state: TargetState) -> None:
        self.targets[self._known(name)] = state

    def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool) -> RestartPlan | None:
        self.restarted.append((self._known(name), include_tasks, only_failed))
        return RestartPlan(self.connector_status(name)) if include_tasks or only_failed else None

    def restart_task(self, task: TaskId) -> None:
        self.restarted.append(task)

    def validate(self, plugin: str, config: Mapping[str, Any]) -> dict[str, Any]:
        if "connector.class" not in config:
            raise BadRequestError("Connector config {} contains no connector type")
        if (retries := config.get("producer.override.retries")) is not None:
            raise ConfigError.invalid("retries", retries, "Not a number of type INT")
        return {"name": config["connector.class"], "error_count": 0, "groups": [], "configs": []}

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]:
        found = [{"class": "Source", "type": "source", "version": "1.0"}]
        return found if connectors_only else [*found, {"class": "Json", "type": "converter"}]

    def plugin_config(self, plugin: str, version: str | None = None) -> list[dict[str, Any]]:
        raise NotFoundError(f"Unknown plugin {plugin}.")

    def preview(self, config: Mapping[str, str | None], request: PreviewRequest) -> dict[str, Any]:
        self.previewed.append((config, request))
        return {"source": {"kind": "given", "topic": None, "skipped": 0}, "error": None, "records": []}

    def external_system(
        self, config: Mapping[str, str | None], question: SystemQuestion, cancellation: Cancellation
    ) -> dict[str, Any]:
        self.asked.append((config, question))
        if config.get("connector.class") == "Hangs":
            self.hangs.set()
            assert cancellation.wait(WAIT_S)
            if cancellation.is_cancelled:
                self.cancelled.set()
        if question is SystemQuestion.CAPABILITIES:
            return {"connection_test": True, "collection_keys": []}
        if config.get("connector.class") == "Plain":
            raise UnsupportedError("Plain has no connection test")
        if question is SystemQuestion.CONNECTION_TEST:
            return {"state": "passed", "duration_ms": 1, "steps": []}
        return {"collections": [], "hidden": 0, "is_truncated": False, "keys": []}

    def offsets(self, name: str) -> list[OffsetEntry]:
        self._known(name)
        return [OffsetEntry({"filename": "x"}, {"position": 6}), OffsetEntry({"filename": "y"}, None)]

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry] | None) -> str:
        self.altered.append((self._known(name), offsets))
        return "done"

    def topics(self, name: str) -> list[str]:
        if name == "untracked":
            raise ForbiddenError("Topic tracking is disabled.")
        return ["t"] if name in self.configs else []

    def reset_topics(self, name: str) -> None:
        self.altered.append((name, "topics"))

    def history(self, name: str) -> list[ConfigVersion]:
        if name not in self.versions:
            raise NotFoundError(f"No history found for connector {name}")
        return self.versions[name]

    def rollback(self, name: str, version: int) -> tuple[ConnectorInfo, bool]:
        config = next(one.config for one in self.history(name) if one.version == version)
        return self.put_connector(name, config or {}, replace=True)

    def connector_files(self) -> list[ConnectorFileState]:
        return [ConnectorFileState("a.json", None, "invalid", "no")]

    def progress(self, task: TaskId) -> TaskProgress | None:
        workers = self.task_workers.get(task.connector)
        if workers is not None and workers[task.task] != self.worker_id:
            return None
        errors = ErrorCounts(3, 2, 2, 1, 2, 2, 0, 1_700_000_000_000)
        return TaskProgress(records=10, bytes=100, details={"rows": 5}, errors=errors)

    def progress_of(self, tasks: Collection[TaskId]) -> Mapping[TaskId, TaskProgress]:
        self.progress_requests += 1
        return {task: found for task in tasks if (found := self.progress(task)) is not None}

    def kafka_facts(self, connectors: Sequence[ConnectorSnapshot]) -> KafkaFacts:
        return KafkaFacts(error="no Kafka broker answers at b:9092 with password=hunter2")

    def rebalance_times_ms(self) -> Sequence[int]:
        return ()

    def mask_secrets(self, text: str) -> str:
        return text.replace("hunter2", "****")

    def signal_task(self, task: TaskId, signal: TaskSignal) -> bool:
        if signal.type == "unknown":
            raise BadRequestError("unknown signal type unknown")
        self.altered.append((str(task), signal))
        return task.connector != "elsewhere"

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]], signature: RequestSignature | None) -> None:
        raise ConnectError("not supported")

    def fence_zombies(self, name: str, signature: RequestSignature | None) -> None:
        raise ConnectError("not supported")

    def take_reload_turn(self, worker: str, signature: RequestSignature | None, *, done: bool) -> None:
        raise ConnectError("not supported")

    session_key = b"key"

    def sign_request(self, text: bytes) -> RequestSignature | None:
        signature = base64.b64encode(hmac.digest(self.session_key, text, "sha256")).decode()
        return RequestSignature(text, signature, "HmacSHA256")

    def verify_request(self, signature: RequestSignature | None) -> None:
        expected = None if signature is None else self.sign_request(signature.body)
        if signature is None or expected is None or signature.signature != expected.signature:
            raise ForbiddenError("Internal request contained invalid signature.")

    def all_loggers(self) -> dict[str, LoggerLevel]:
        return self.levels

    def logger(self, name: str) -> LoggerLevel | None:
        return self.levels.get(name)

    def set_worker_logger(self, namespace: str, level: str) -> list[str]:
        self.levels[namespace] = LoggerLevel(level, 1)
        return [namespace]

    def set_cluster_logger(self, namespace: str, level: str) -> None:
        self.cluster_levels[namespace] = level

    def close(self, timeout_s: float) -> None:
        """Nothing to stop."""
