"""The herder: what a worker does for its operators, in standalone and distributed mode.

`rest/` and `sluice/` know only this module and :mod:`worker.model`. Every method may be called from any thread and may block up
to the request timeout. Errors are those of :mod:`connect.errors`; REST maps them to statuses in one place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from worker.model import (
    ConfigVersion,
    ConnectorFileState,
    ConnectorInfo,
    ConnectorStatus,
    Health,
    LoggerLevel,
    OffsetEntry,
    RequestSignature,
    RestartPlan,
    ServerInfo,
    Status,
    TargetState,
    TaskId,
    TaskInfo,
    TaskProgress,
)


class Herder(Protocol):
    """The operations behind the REST API. Unknown connectors raise NotFoundError unless a method says otherwise."""

    @property
    def worker_id(self) -> str:
        """``host:port`` as shown in statuses."""

    def server_info(self) -> ServerInfo: ...

    def health(self) -> Health: ...

    def connectors(self) -> list[str]:
        """Names, sorted."""

    def connector_info(self, name: str) -> ConnectorInfo: ...

    def connector_status(self, name: str) -> ConnectorStatus: ...

    def task_status(self, task: TaskId) -> Status: ...

    def task_infos(self, name: str) -> list[TaskInfo]: ...

    def put_connector(
        self,
        name: str,
        config: Mapping[str, str | None],
        *,
        replace: bool,
        target_state: TargetState | None = None,
    ) -> tuple[ConnectorInfo, bool]:
        """Creates or changes a connector; the flag says whether it was created. Returns when its tasks were asked to start.

        Raises AlreadyExistsError when it exists and ``replace`` is False, BadRequestError with Kafka's list of errors when
        the configuration is invalid.
        """

    def patch_connector(self, name: str, changes: Mapping[str, str | None]) -> ConnectorInfo:
        """Merges changes into the configuration; a None takes the key out."""

    def delete_connector(self, name: str) -> None: ...

    def set_target_state(self, name: str, state: TargetState) -> None:
        """Pause, resume, stop. Returns before the tasks have followed."""

    def restart_connector(self, name: str, *, include_tasks: bool, only_failed: bool) -> RestartPlan | None:
        """Restarts; None for the plain form (connector instance only), else the plan that is being carried out."""

    def restart_task(self, task: TaskId) -> None: ...

    def validate(self, plugin: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """The whole validation answer as REST gives it (name, error_count, groups, configs)."""

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]:
        """What this worker can run, as REST lists it: class, type, version. ``worker.validation.plugin_list`` makes it."""

    def plugin_config(self, plugin: str, version: str | None = None) -> list[dict[str, Any]]:
        """The table of a plugin's keys as REST shows it; ``worker.validation.plugin_config`` makes it.

        Raises NotFoundError for an unknown plugin, BadRequestError for a class that is no plugin with a table, or a version
        that is not there.
        """

    def offsets(self, name: str) -> list[OffsetEntry]: ...

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry] | None) -> str:
        """Changes stored offsets of a stopped connector, all of them forgotten for None (KIP-875). Returns the sentence that REST
        answers with. Raises BadRequestError for a connector that is not stopped, and for offsets that make no sense."""

    def topics(self, name: str) -> list[str]:
        """The topics that the connector has used, of unknown connectors none (KIP-558). Raises ForbiddenError when that is not
        tracked."""

    def reset_topics(self, name: str) -> None:
        """Forgets them. Raises ForbiddenError where that is not allowed."""

    def history(self, name: str) -> list[ConfigVersion]:
        """The configurations that a connector has had, the oldest first; of deleted ones too. Raises NotFoundError for a name
        that nothing is known of."""

    def rollback(self, name: str, version: int) -> tuple[ConnectorInfo, bool]:
        """Gives a connector an earlier configuration; like :meth:`put_connector`, and the flag says whether it had to be created.
        Raises NotFoundError for a version that is not there (any more), BadRequestError for one that is a deletion."""

    def connector_files(self) -> list[ConnectorFileState]:
        """The files of ``connectors.dir`` as this worker sees them, sorted by name; none without that key."""

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]], signature: RequestSignature | None) -> None:
        """Takes tasks that the connector's worker has computed. For other workers; only the leader of a cluster has it."""

    def fence_zombies(self, name: str, signature: RequestSignature | None) -> None:
        """Fences producers of earlier tasks of an exactly-once source. For other workers; only the leader has it."""

    def all_loggers(self) -> dict[str, LoggerLevel]: ...

    def logger(self, name: str) -> LoggerLevel | None: ...

    def set_worker_logger(self, namespace: str, level: str) -> list[str]:
        """Sets a level on this worker; the names of the loggers it changed."""

    def set_cluster_logger(self, namespace: str, level: str) -> None:
        """Sets a level on every worker of the cluster (KIP-976). Returns before the others have followed."""

    def progress(self, task: TaskId) -> TaskProgress | None:
        """Live numbers of a task that runs on this worker, else None."""

    def close(self, timeout_s: float) -> None:
        """Stops all tasks and connectors gracefully and commits what they have, within the time."""
