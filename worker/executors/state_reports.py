"""Reports the states of connectors and tasks that the control process finds out by itself, not from their process."""

from __future__ import annotations

from connect.errors import ConnectError
from worker.config.secrets import SecretMask
from worker.errors.trace import trace_of
from worker.executor import ExecutorListener
from worker.executors.futures import fail
from worker.executors.work_registry import ConnectorEntry, Entry, WorkRegistry
from worker.model import State


class StateReports:
    """Call its methods without the registry's lock: the listener may hold a lock of its own while it calls the executor."""

    def __init__(self, registry: WorkRegistry, listener: ExecutorListener, mask: SecretMask) -> None:
        self._registry = registry
        self._listener = listener
        self._mask = mask

    def restarting(self, entry: Entry) -> None:
        """Reports that the entry restarts in another process."""
        self._report(entry, State.RESTARTING, None)

    def stopped(self, entry: ConnectorEntry) -> None:
        """Reports that a connector without a process has stopped."""
        self._report(entry, State.STOPPED, None)

    def failed(self, entry: Entry, error: ConnectError) -> None:
        """Marks the entry as failed and reports it, unless it was stopped or replaced in the meantime."""
        with self._registry.lock:
            if not self._registry.is_current(entry):
                return
            entry.failed = True
        self._report(entry, State.FAILED, trace_of(error, self._mask))
        if isinstance(entry, ConnectorEntry):
            fail(entry.started, error)

    def reconfiguration(self, entry: ConnectorEntry) -> None:
        """Reports that the connector can be asked for its task configs again."""
        self._listener.on_reconfiguration_requested(entry.start_id, entry.name)

    def _report(self, entry: Entry, state: State, trace: str | None) -> None:
        if isinstance(entry, ConnectorEntry):
            self._listener.on_connector_state(entry.start_id, entry.name, state, trace, entry.version)
        else:
            self._listener.on_task_state(entry.start_id, entry.spec.id, state, trace, entry.version)
