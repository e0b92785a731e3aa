"""The herder operations that standalone and distributed workers carry out in the same way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from connect.errors import ForbiddenError, NotFoundError, UnsupportedError
from worker.cancellation import Cancellation
from worker.config.resolved_config import ResolvedConfigs
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.executor import ConnectorSpec, Executor
from worker.kafka.cluster import Cluster
from worker.kafka.settings import client_settings_of
from worker.model import (
    ConfigVersion,
    ConnectorFileState,
    ConnectorInfo,
    ConnectorStatus,
    LoggerLevel,
    OffsetEntry,
    Origin,
    PreviewRequest,
    Readiness,
    RequestSignature,
    ServerInfo,
    State,
    SystemQuestion,
    TargetState,
    TaskId,
    TaskProgress,
)
from worker.observability.diagnosis.kafka_facts import read_kafka_facts
from worker.observability.diagnosis.snapshot import ConnectorSnapshot, KafkaFacts
from worker.observability.loggers import Loggers
from worker.observability.metrics.families import MetricFamily
from worker.observability.verifications import VerificationResults
from worker.observability.worker_metrics.collector import WorkerMetrics
from worker.observability.worker_metrics.start_counts import StartCounts
from worker.observability.worker_metrics.verification_families import schedule_families, verification_families
from worker.observability.worker_metrics.worker_view import WorkerCondition
from worker.operations.connectors_dir.sync import ConnectorDirectory, HerderTarget
from worker.operations.dead_letters import DeadLetterRequests
from worker.operations.external_systems import ask_about_system
from worker.operations.history.versions import History, config_to_restore, no_history
from worker.operations.offsets.alter import alter_sink_offsets, alter_source_offsets
from worker.operations.offsets.changes import shown_entries
from worker.operations.offsets.sink_groups import SinkGroups
from worker.operations.preview import preview_config
from worker.operations.verification.answers import PipelineAnswers
from worker.operations.verification.child import VerificationChild
from worker.operations.verification.schedule import VerificationSchedule
from worker.storage.documents import Documents
from worker.storage.offset_store import OffsetStore
from worker.storage.record_codec import DocumentKind
from worker.validation.config_validator import ConfigValidator
from worker.version import server_info


class HerderOperations(ABC):
    """A part of :class:`worker.herder.Herder`, which REST sees as one object; the subclasses are the herders."""

    def __init__(
        self,
        config: WorkerConfig,
        worker_id: str,
        executor: Executor,
        values: ResolvedConfigs,
        loggers: Loggers,
        history: History,
        cluster: Cluster,
        condition: WorkerCondition,
        starts: StartCounts,
        documents: Callable[[DocumentKind], Documents],
        running_configs: Callable[[], Mapping[str, Mapping[str, str | None]]],
        applies_files: Callable[[], bool] = lambda: True,
    ) -> None:
        """``documents`` returns the store of a kind of documents, ``running_configs`` the configurations of the connectors whose
        instances run here and are neither paused nor stopped; ``applies_files`` says whether this worker applies
        ``connectors.dir`` at the moment."""
        self.loggers = loggers
        self._config = config
        self._worker_id = worker_id
        self._executor = executor
        self._resolver = values
        self._check = ConfigValidator(executor, values, self._mask)
        self._dead_letters = DeadLetterRequests(executor, values, self._mask)
        self._history = history
        self._cluster = cluster
        self._sink_groups = SinkGroups(config)
        self.worker_metrics = WorkerMetrics(executor, condition.view, starts)
        self._verification_schedule = VerificationSchedule(
            VerificationResults(documents(DocumentKind.VERIFICATION)),
            self._stored_configs,
            running_configs,
            lambda config: values.resolve_for_validation(config).values,
            lambda on_result: PipelineAnswers(config, self, on_result).answer,
            self._mask,
            VerificationChild,
            worker_id,
        )
        self.ended_sessions = documents(DocumentKind.ENDED_SESSION)
        self.worker_metrics.add_source(lambda: verification_families(self.verifications.all(), self._stored_configs))
        self.worker_metrics.add_source(lambda: schedule_families(self._verification_schedule.all_active(self._is_started)))
        self._condition = condition
        self._directory: ConnectorDirectory | None = None
        if config.connectors_dir is not None:
            target = HerderTarget(self._put_from, self._delete_from, self._stored_configs, history, applies_files)
            self._directory = ConnectorDirectory(config.connectors_dir, target)

    # --- what the herders do each in their own way

    @abstractmethod
    def put_connector(
        self,
        name: str,
        config: Mapping[str, str | None],
        *,
        replace: bool,
        target_state: TargetState | None = None,
        origin: Origin = Origin.REST,
    ) -> tuple[ConnectorInfo, bool]: ...

    @abstractmethod
    def delete_connector(self, name: str, *, origin: Origin = Origin.REST) -> None: ...

    @abstractmethod
    def _stored_configs(self) -> Mapping[str, Mapping[str, str | None]]:
        """Returns the configurations of all connectors, variables unresolved."""

    @abstractmethod
    def _stored_config(self, name: str) -> Mapping[str, str | None]:
        """Returns a connector's configuration, variables unresolved. Raises NotFoundError."""

    @abstractmethod
    def connectors(self) -> list[str]: ...

    @abstractmethod
    def connector_info(self, name: str) -> ConnectorInfo: ...

    @abstractmethod
    def topics(self, name: str) -> list[str]: ...

    @abstractmethod
    def offsets(self, name: str) -> list[OffsetEntry]: ...

    def _require_writable(self) -> None:
        """Raises NotLeaderError when another worker changes connectors."""

    # --- worker

    @property
    def _mask(self) -> SecretMask:
        return self._config.providers.mask

    @property
    def worker_id(self) -> str:
        return self._worker_id

    def server_info(self) -> ServerInfo:
        return server_info(self._cluster.cluster_id)

    def other_workers(self) -> list[str]:
        return []

    def liveness(self) -> Readiness:
        return self._condition.liveness()

    def readiness(self) -> Readiness:
        return self._condition.readiness()

    def progress(self, task: TaskId) -> TaskProgress | None:
        return self._executor.progress(task)

    def progress_of(self, tasks: Collection[TaskId]) -> Mapping[TaskId, TaskProgress]:
        return self._executor.progress_of(tasks)

    def metrics(self) -> Sequence[MetricFamily]:
        return self.worker_metrics.collect()

    def take_reload_turn(self, worker: str, signature: RequestSignature | None, *, done: bool) -> None:
        raise UnsupportedError("Kafka Connect in standalone mode has no other workers.")

    # --- verification

    @property
    def verifications(self) -> VerificationResults:
        return self._verification_schedule.results

    def verification_schedule(self, name: str) -> dict[str, Any] | None:
        return self._verification_schedule.shown(name, self._stored_config(name), is_started=self._is_started(name))

    def _is_started(self, name: str) -> bool:
        """Whether a connector is neither paused nor stopped, wherever it runs."""
        with suppress(NotFoundError):
            return self.connector_status(name).connector.state not in (State.PAUSED, State.STOPPED)
        return True  # it starts

    # --- plugins

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]:
        return self._executor.plugins(connectors_only=connectors_only)

    def plugin_config(self, plugin: str, version: str | None = None) -> list[dict[str, Any]]:
        return self._executor.plugin_config(plugin, version)

    def validate(self, plugin: str, config: Mapping[str, Any]) -> dict[str, Any]:
        # The class that the configuration names counts, not the one in the path (recording validate-empty).
        return self._check.validate(config)[0]

    def preview(self, config: Mapping[str, str | None], request: PreviewRequest) -> dict[str, Any]:
        return preview_config(self._executor, self._resolver, self._mask, config, request)

    def external_system(
        self, config: Mapping[str, str | None], question: SystemQuestion, cancellation: Cancellation
    ) -> dict[str, Any]:
        return ask_about_system(self._executor, self._resolver, self._mask, config, question, cancellation)

    # --- diagnosis

    def kafka_facts(self, connectors: Sequence[ConnectorSnapshot]) -> KafkaFacts:
        java = {
            **client_settings_of(self._config.originals),
            "bootstrap.servers": ",".join(self._config.bootstrap_servers),
            "client.id": "connect-diagnosis",
        }
        return read_kafka_facts(java, connectors)

    def rebalance_times_ms(self) -> Sequence[int]:
        return ()

    @abstractmethod
    def connector_status(self, name: str) -> ConnectorStatus:
        """Returns the status of a connector. Raises NotFoundError."""

    def connector_statuses(self, names: Iterable[str]) -> list[ConnectorStatus]:
        """Returns the statuses of those connectors that have one, in this order."""
        found = []
        for name in names:
            with suppress(NotFoundError):
                found.append(self.connector_status(name))
        return found

    def mask_secrets(self, text: str) -> str:
        return self._mask.mask(text)

    # --- loggers

    def all_loggers(self) -> dict[str, LoggerLevel]:
        return self.loggers.all_loggers()

    def logger(self, name: str) -> LoggerLevel | None:
        return self.loggers.logger(name)

    def set_worker_logger(self, namespace: str, level: str) -> list[str]:
        return self.loggers.set_worker_logger(namespace, level)

    # --- configurations

    def patch_connector(self, name: str, changes: Mapping[str, str | None]) -> ConnectorInfo:
        self._require_writable()
        config = dict(self._stored_config(name))
        for key, value in changes.items():
            if value is None:
                config.pop(key, None)
            else:
                config[key] = value
        return self.put_connector(name, config, replace=True)[0]

    def history(self, name: str) -> list[ConfigVersion]:
        versions = self._history.versions(name)
        if not versions and name not in self._stored_configs():
            raise no_history(name)
        return versions

    def rollback(self, name: str, version: int) -> tuple[ConnectorInfo, bool]:
        self._require_writable()
        config = config_to_restore(name, self._history.version(name, version))
        return self.put_connector(name, config, replace=True, origin=Origin.ROLLBACK)

    def connector_files(self) -> list[ConnectorFileState]:
        return [] if self._directory is None else self._directory.files()

    def sign_request(self, text: bytes) -> RequestSignature | None:
        """Signs a text for another worker. A worker of no cluster has no key."""
        return None

    def verify_request(self, signature: RequestSignature | None) -> None:
        """Verifies the signature of another worker. Raises UnsupportedError in a worker of no cluster."""
        raise UnsupportedError("A standalone worker accepts no requests from other workers")

    def _record_deletion(self, name: str, origin: Origin) -> None:
        self._history.record(name, None, origin)
        self.verifications.discard(name)

    def _put_from(self, origin: Origin, name: str, config: Mapping[str, str | None], state: TargetState | None) -> None:
        self.put_connector(name, config, replace=True, target_state=state, origin=origin)

    def _delete_from(self, origin: Origin, name: str) -> None:
        self.delete_connector(name, origin=origin)

    # --- dead letters

    def dead_letters(self, name: str, request: Mapping[str, Any], edits: Mapping[str, str | None] | None) -> dict[str, Any]:
        return self._dead_letters.answer(name, self._stored_config(name), request, edits or {})

    # --- offsets and topics

    def _read_offsets(
        self, spec: ConnectorSpec, connector_type: str, source_store: Callable[[], OffsetStore]
    ) -> list[OffsetEntry]:
        if connector_type == "sink":
            return self._sink_groups.offsets(spec.name, spec.config)
        return shown_entries(spec.name, source_store().entries(spec.name))

    def _change_offsets(
        self,
        spec: ConnectorSpec,
        connector_type: str,
        source_store: Callable[[], OffsetStore],
        offsets: Sequence[OffsetEntry] | None,
    ) -> str:
        if connector_type == "sink":
            return alter_sink_offsets(self._executor, self._sink_groups, spec, offsets)
        return alter_source_offsets(self._executor, source_store(), spec, offsets)

    def _require_topic_tracking(self, *, reset: bool = False) -> None:
        if not self._config.topic_tracking_enable:
            raise ForbiddenError("Topic tracking is disabled.")
        if reset and not self._config.topic_tracking_allow_reset:
            raise ForbiddenError("Topic tracking reset is disabled.")
