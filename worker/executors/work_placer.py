"""Chooses the process of a connector instance or task, and starts it when needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from connect.errors import ConnectError
from worker.config.isolation import parse_isolation
from worker.executor import ConnectorSpec
from worker.executors.process_handle import ProcessHandle
from worker.executors.process_registry import ProcessRegistry
from worker.executors.state_reports import StateReports
from worker.executors.work_registry import ConnectorEntry, Entry, TaskEntry, WorkRegistry


class WorkPlacer:
    """Runs in the connectors' queues."""

    def __init__(
        self,
        registry: WorkRegistry,
        processes: ProcessRegistry,
        environments: Sequence[Path],
        reports: StateReports,
        quarantine_of: Callable[[str], str | None],
    ) -> None:
        """``quarantine_of`` returns the key of the process that a connector is quarantined in, if it is."""
        self._registry = registry
        self._processes = processes
        self._environments = environments
        self._reports = reports
        self._quarantine_of = quarantine_of

    def place(self, entry: Entry) -> ProcessHandle | None:
        """Assigns a process to the entry and returns it.

        Returns None when the entry was stopped or replaced in the meantime, or when there is no process for it; that is reported
        as its failure.
        """
        while True:
            try:
                process = self._process_for(entry)
            except ConnectError as e:
                self._reports.failed(entry, e)
                return None
            with self._registry.lock:
                if not self._registry.is_current(entry):
                    return None
                # A process whose exit was already handled would never report anything.
                if not process.is_cleaned_up:
                    entry.process = process
                    entry.failed = False
                    return process

    def process_for_query(self, entry: ConnectorEntry | None, connector: ConnectorSpec) -> ProcessHandle:
        """A process that can load the connector's class: its own if it runs. Raises ConfigError."""
        isolation = parse_isolation(connector.config, self._environments)
        if entry is not None and entry.process is not None:
            return entry.process
        return self._processes.for_query(isolation.environment)

    def _process_for(self, entry: Entry) -> ProcessHandle:
        connector = entry.spec if isinstance(entry, ConnectorEntry) else entry.spec.connector
        isolation = parse_isolation(connector.config, self._environments)
        quarantine = self._quarantine_of(connector.name)
        if isolation.dedicated:
            return self._processes.dedicated(connector.name, isolation)
        if quarantine is not None:
            return self._processes.quarantine(quarantine)
        if isinstance(entry, TaskEntry):
            return self._processes.shared_for_task(connector.name)
        return self._processes.shared_for_instance(connector.name)
