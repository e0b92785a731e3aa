"""The herder's interface: the operations behind the REST API, in standalone and distributed mode.

Each group of REST routes depends on one of the protocols below; :class:`Herder` combines them. Every method may be called from
any thread and may block up to the request timeout. Errors are those of :mod:`connect.errors`; REST maps them to statuses in one
place. Unknown connectors raise NotFoundError unless a method says otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from worker.cancellation import Cancellation
from worker.model import (
    ConfigVersion,
    ConnectorFileState,
    ConnectorInfo,
    ConnectorStatus,
    Health,
    LoggerLevel,
    OffsetEntry,
    PreviewRequest,
    Readiness,
    RequestSignature,
    RestartPlan,
    ServerInfo,
    Status,
    SystemQuestion,
    TargetState,
    TaskId,
    TaskInfo,
    TaskProgress,
    TaskSignal,
)
from worker.observability.diagnosis.snapshot import ConnectorSnapshot, KafkaFacts
from worker.observability.metrics.families import MetricFamily
from worker.observability.verifications import VerificationResults
from worker.storage.documents import Documents


class WorkerInformation(Protocol):
    """Identity and health of this worker."""

    @property
    def worker_id(self) -> str:
        """``host:port`` as shown in statuses."""

    def server_info(self) -> ServerInfo: ...

    def health(self) -> Health: ...

    def liveness(self) -> Readiness:
        """Whether the process still works: False only if a restart is the remedy. Does not block."""

    def readiness(self) -> Readiness:
        """Whether the worker runs its share and reaches Kafka. Blocks for a second or two at most."""

    def timeout_message(self) -> str:
        """Returns the error message for a request that exceeds the request timeout: what the worker is doing, if known."""


class ConnectorReader(Protocol):
    """Configurations and statuses of connectors."""

    def connectors(self) -> list[str]:
        """Returns the names, sorted."""

    def connector_info(self, name: str) -> ConnectorInfo: ...

    def connector_status(self, name: str) -> ConnectorStatus: ...

    def connector_statuses(self, names: Iterable[str]) -> list[ConnectorStatus]:
        """Returns the statuses of those connectors that have one, in this order."""


class VerificationOperations(ConnectorReader, Protocol):
    """The last results of ``sluice verify``."""

    @property
    def verifications(self) -> VerificationResults: ...

    def verification_schedule(self, name: str) -> dict[str, Any] | None:
        """Returns ``interval_ms`` of a connector's schedule, whether the connector is ``paused`` or stopped, when its last run
        ended (``last_ms``), on which worker (``worker_id``), why it failed (``error``), since when runs fail
        (``failing_since_ms``), and when the next one is due (``next_ms``); None without a schedule."""


class SessionOperations(Protocol):
    """Sessions of the web page, on all workers of the cluster."""

    @property
    def ended_sessions(self) -> Documents:
        """The sessions that users have ended, by :mod:`rest.security.sessions`."""


class ConnectorOperations(ConnectorReader, Protocol):
    """Creating, changing, and deleting connectors."""

    def put_connector(
        self,
        name: str,
        config: Mapping[str, str | None],
        *,
        replace: bool,
        target_state: TargetState | None = None,
    ) -> tuple[ConnectorInfo, bool]:
        """Creates or changes a connector; the flag says whether it was created. Returns once its tasks were asked to start.

        Raises AlreadyExistsError when it exists and ``replace`` is False, BadRequestError with Kafka's list of errors when
        the configuration is invalid.
        """

    def patch_connector(self, name: str, changes: Mapping[str, str | None]) -> ConnectorInfo:
        """Merges changes into the configuration; None removes a key."""

    def delete_connector(self, name: str) -> None: ...

    def set_target_state(self, name: str, state: TargetState) -> None:
        """Pauses, resumes, or stops a connector. Returns before the tasks have followed."""

    def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool) -> RestartPlan | None:
        """Restarts a connector. Returns the plan that is being carried out, or None when only the connector instance restarts."""


class TaskOperations(Protocol):
    """Reading and restarting tasks."""

    def task_status(self, task: TaskId) -> Status: ...

    def task_infos(self, name: str) -> list[TaskInfo]: ...

    def restart_task(self, task: TaskId) -> None: ...


class ProgressReader(Protocol):
    """Live figures of tasks."""

    def connector_status(self, name: str) -> ConnectorStatus: ...

    def progress(self, task: TaskId) -> TaskProgress | None:
        """Returns the live figures of a task that runs on this worker, else None."""

    def progress_of(self, tasks: Collection[TaskId]) -> Mapping[TaskId, TaskProgress]:
        """Returns the live figures of those of the tasks that run on this worker. Asks each executor process once."""


class MetricsReader(Protocol):
    """Metrics of this worker."""

    def metrics(self) -> Sequence[MetricFamily]:
        """Returns all metrics as of now. Waits for executors, at most two seconds."""


class DiagnosisReader(WorkerInformation, ProgressReader, VerificationOperations, Protocol):
    """What a diagnosis looks at."""

    def connectors(self) -> list[str]: ...

    def connector_info(self, name: str) -> ConnectorInfo: ...

    def connector_statuses(self, names: Iterable[str]) -> list[ConnectorStatus]: ...

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]: ...

    def kafka_facts(self, connectors: Sequence[ConnectorSnapshot]) -> KafkaFacts:
        """Asks Kafka about topics and groups of connectors. Blocks a few seconds at most; an error is part of the answer."""

    def rebalance_times_ms(self) -> Sequence[int]:
        """Returns when the last rebalances of the worker group ended that no new configuration has caused, in ms since 1970."""

    def mask_secrets(self, text: str) -> str:
        """Masks every known secret in a text (promise 9)."""


class SignalOperations(Protocol):
    """Signals to running tasks."""

    def connector_status(self, name: str) -> ConnectorStatus: ...

    def signal_task(self, task: TaskId, signal: TaskSignal) -> bool:
        """Sends a signal to a task. Returns False if the task does not run at the moment. Raises BadRequestError if the
        connector's tasks take no signals, or not this one, NotLeaderError if another worker runs the task."""


class PluginCatalog(Protocol):
    """Plugins of this worker, their keys, and validation of configurations."""

    def validate(self, plugin: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the whole validation result in REST's form (name, error_count, groups, configs)."""

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]:
        """Returns the available plugins in REST's form: class, type, version. Built by ``worker.validation.list_plugins``."""

    def plugin_config(self, plugin: str, version: str | None = None) -> list[dict[str, Any]]:
        """Returns a plugin's keys in REST's form. Built by ``worker.validation.plugin_config``.

        Raises NotFoundError for an unknown plugin, BadRequestError for a class that is not a plugin with a ConfigDef, or for an
        unavailable version.
        """


class PreviewOperations(Protocol):
    """Runs records through the transformations of a configuration that need not be in use."""

    def preview(self, config: Mapping[str, str | None], request: PreviewRequest) -> dict[str, Any]:
        """Returns the records before and after each transformation, in REST's form. Raises BadRequestError if there are no
        records to run."""


class ExternalSystemOperations(Protocol):
    """Connection tests, and lists of the tables that a configuration can name."""

    def external_system(
        self, config: Mapping[str, str | None], question: SystemQuestion, cancellation: Cancellation
    ) -> dict[str, Any]:
        """Answers as :func:`worker.validation.external_systems.answer_about_system` does, without secrets. The configuration
        need not be in use."""


class OffsetOperations(Protocol):
    """Reading and changing stored offsets (KIP-875)."""

    def offsets(self, name: str) -> list[OffsetEntry]: ...

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry] | None) -> str:
        """Changes the stored offsets of a stopped connector; None resets all of them. Returns REST's message. Raises
        BadRequestError for a connector that is not stopped and for invalid offsets."""


class TopicOperations(Protocol):
    """Topics that connectors have used (KIP-558)."""

    def topics(self, name: str) -> list[str]:
        """Returns the topics that the connector has used; none for unknown connectors. Raises ForbiddenError when tracking is
        disabled."""

    def reset_topics(self, name: str) -> None:
        """Clears the topics. Raises ForbiddenError when resetting is disabled."""


class HistoryOperations(Protocol):
    """Earlier configurations of connectors, and the files of ``connectors.dir``."""

    def history(self, name: str) -> list[ConfigVersion]:
        """Returns the configurations that a connector has had, oldest first, also of deleted ones. Raises NotFoundError for an
        unknown name."""

    def rollback(self, name: str, version: int) -> tuple[ConnectorInfo, bool]:
        """Restores an earlier configuration, like :meth:`ConnectorOperations.put_connector`; the flag says whether the connector
        was created. Raises NotFoundError for a version that is not (or no longer) stored, BadRequestError for a deletion."""

    def connector_files(self) -> list[ConnectorFileState]:
        """Returns the files of ``connectors.dir`` as this worker sees them, sorted by name; empty without that key."""


class ClusterInternal(Protocol):
    """Requests of other workers to the leader of a cluster."""

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]], signature: RequestSignature | None) -> None:
        """Stores the task configurations that the connector's worker has computed."""

    def fence_zombies(self, name: str, signature: RequestSignature | None) -> None:
        """Fences producers of earlier tasks of an exactly-once source."""

    def take_reload_turn(self, worker: str, signature: RequestSignature | None, *, done: bool) -> None:
        """Gives a worker the turn to restart connectors with new config provider values, or ends it. Raises IllegalStateError
        while another worker has it."""

    def sign_request(self, text: bytes) -> RequestSignature | None:
        """Signs a text for another worker with the cluster's session key; None if there is none."""

    def verify_request(self, signature: RequestSignature | None) -> None:
        """Raises ForbiddenError, BadRequestError, or NotReadyError unless a worker of the cluster has signed the text."""


class LoggerOperations(Protocol):
    """Log levels, on this worker or on the whole cluster."""

    def all_loggers(self) -> dict[str, LoggerLevel]: ...

    def logger(self, name: str) -> LoggerLevel | None: ...

    def set_worker_logger(self, namespace: str, level: str) -> list[str]:
        """Sets a level on this worker. Returns the names of the changed loggers."""

    def set_cluster_logger(self, namespace: str, level: str) -> None:
        """Sets a level on every worker of the cluster (KIP-976). Returns before the others have followed."""


class DeadLetterOperations(Protocol):
    """The dead letter queues of connectors."""

    def dead_letters(self, name: str, request: Mapping[str, Any], edits: Mapping[str, str | None] | None) -> dict[str, Any]:
        """Answers a request as :func:`worker.dead_letters.engine.answer` does, with the connector's configuration and edits of
        it; None removes a key.

        Raises BadRequestError for invalid requests, IllegalStateError for a connector without a queue.
        """


class LogOperations(Protocol):
    """Where the log lines of connectors are."""

    @property
    def worker_id(self) -> str: ...

    def connectors(self) -> list[str]: ...

    def other_workers(self) -> list[str]:
        """Returns the IDs of the other workers of the cluster, sorted: those that statuses name, some of which may be gone, the
        leader, and, on the leader, all members. Does not block."""


class Herder(
    DiagnosisReader,
    WorkerInformation,
    ConnectorOperations,
    TaskOperations,
    ProgressReader,
    MetricsReader,
    SignalOperations,
    PluginCatalog,
    PreviewOperations,
    ExternalSystemOperations,
    OffsetOperations,
    TopicOperations,
    HistoryOperations,
    ClusterInternal,
    LoggerOperations,
    LogOperations,
    DeadLetterOperations,
    VerificationOperations,
    SessionOperations,
    Protocol,
):
    """All operations behind the REST API, and the herder's shutdown."""

    def close(self, timeout_s: float) -> None:
        """Stops all connectors and tasks gracefully and commits their offsets within the time."""
