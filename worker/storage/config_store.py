"""The store of connector configs in the config topic, and the herders' writes (Apache's ``KafkaConfigBackingStore``).

Every write returns after it was read back, so that a snapshot taken then includes it. With a leader's writer (exactly-once
preparing or enabled), records that only a leader writes are written in transactions, one per logical write, after
:meth:`claim_write_privileges`; target states and logger levels come from any worker and are written without transactions, as
Apache's workers do.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Protocol

from connect import crash_points
from worker.kafka.topic_log import LogRecord, TopicLog, TopicLogSettings
from worker.model import TargetState, TaskId
from worker.storage import record_codec
from worker.storage.config_state import (
    ConfigState,
    ConnectorRemoved,
    ConnectorUpdated,
    TargetStateUpdated,
    TasksUpdated,
    Update,
    apply,
)
from worker.storage.record_codec import KeyValue, LoggerRecord, Properties, RestartRequest, SessionKey

log = logging.getLogger(__name__)

WRITE_TIMEOUT_S = 30.0
"""The timeout of one write, until it is read back."""


class ConfigListener(Protocol):
    """Receives records written after the store was started. Called on the store's thread; a snapshot taken then includes the
    change. Must not block."""

    def on_connector_config(self, name: str) -> None:
        """The connector is new, or its config was written (even if unchanged)."""

    def on_connector_removed(self, name: str) -> None: ...

    def on_task_configs(self, name: str, tasks: Sequence[TaskId]) -> None:
        """A set of tasks was committed; empty if there are no tasks any more, or the set is incomplete."""

    def on_target_state(self, name: str) -> None:
        """The target state of an existing connector was written."""

    def on_session_key(self, key: SessionKey) -> None: ...

    def on_restart_request(self, request: RestartRequest) -> None: ...

    def on_logger_level(self, namespace: str, level: str) -> None: ...


class ConfigStore:
    """Owns the log of the config topic. Methods are safe from any thread except the listener's.

    Methods that write raise UnreachableError if the broker is unavailable or slow, and FencedError if this worker does not have
    the right to write (any more).
    """

    def __init__(self, settings: TopicLogSettings, listener: ConfigListener) -> None:
        """``settings`` come from :func:`worker.storage.topic_logs.config_log`."""
        self._state = ConfigState()
        self._listener = listener
        self._in_transactions = settings.leader is not None
        self._log = TopicLog(settings, self._on_record)

    def start(self, timeout_s: float | None = None) -> None:
        """Creates or checks the topic and reads it; see :meth:`TopicLog.start`."""
        self._log.start(timeout_s)

    def ask_to_close(self) -> None:
        """Makes a later close fast."""
        self._log.ask_to_close()

    def close(self) -> None:
        self._log.close()

    def snapshot(self) -> ConfigState:
        """Returns the state that was read so far; costs nothing."""
        return self._state

    def refresh(self, timeout_s: float) -> None:
        """Waits until everything written before the call was read. Raises UnreachableError on timeout."""
        self._log.read_to_end(timeout_s)

    def claim_write_privileges(self, timeout_s: float = WRITE_TIMEOUT_S) -> None:
        """Claims the right to write as leader and fences an earlier leader. Does nothing if configs are not written in
        transactions, or if this worker has the right already."""
        if self._in_transactions:
            self._log.claim(timeout_s)

    def relinquish_write_privileges(self) -> None:
        """Gives up the right to write as leader."""
        self._log.relinquish()

    def put_connector(self, name: str, config: Properties, target: TargetState | None = None) -> None:
        """Creates or changes a connector; ``target`` is the initial state of a new one."""
        records = [] if target is None else [record_codec.target_state_record(name, target)]
        self._write_as_leader([*records, record_codec.connector_record(name, config)])

    def remove_connector(self, name: str) -> None:
        """Deletes a connector with its target state. Its remaining task records mean nothing from then on."""
        self._write_as_leader([record_codec.connector_tombstone(name), record_codec.target_state_tombstone(name)])

    def put_task_configs(self, name: str, configs: Sequence[Properties]) -> None:
        """Writes a whole new set of tasks, then its commit: other workers see all of it at once."""
        deadline = time.monotonic() + WRITE_TIMEOUT_S
        if configs:
            tasks = [record_codec.task_record(TaskId(name, number), config) for number, config in enumerate(configs)]
            self._write_as_leader(tasks, deadline)
            crash_points.point("cluster.tasks_written")
        self._write_as_leader([record_codec.commit_record(name, len(configs))], deadline)

    def put_target_state(self, name: str, target: TargetState) -> None:
        self._write([record_codec.target_state_record(name, target)])

    def put_session_key(self, key: SessionKey) -> None:
        self._write_as_leader([record_codec.session_key_record(key)])

    def put_restart_request(self, request: RestartRequest) -> None:
        self._write_as_leader([record_codec.restart_record(request)])

    def put_task_count_record(self, name: str, task_count: int) -> None:
        """Records that producers of earlier tasks are fenced, and the size of the current set."""
        self._write_as_leader([record_codec.task_count_record(name, task_count)])

    def put_logger_level(self, namespace: str, level: str) -> None:
        """Sets a log level on every worker that is in the cluster now."""
        self._write([record_codec.logger_record(LoggerRecord(namespace, level))])

    def _write(self, records: Sequence[KeyValue], deadline: float | None = None) -> None:
        deadline = time.monotonic() + WRITE_TIMEOUT_S if deadline is None else deadline
        written = self._log.send_all(records, deadline - time.monotonic())
        self._log.await_read(written, deadline - time.monotonic())

    def _write_as_leader(self, records: Sequence[KeyValue], deadline: float | None = None) -> None:
        if not self._in_transactions:
            self._write(records, deadline)
            return
        deadline = time.monotonic() + WRITE_TIMEOUT_S if deadline is None else deadline
        written = self._log.send_transaction(records, deadline - time.monotonic())
        self._log.await_read(written, deadline - time.monotonic())

    # The log's thread

    def _on_record(self, record: LogRecord) -> None:
        self._state, update, problem = apply(self._state, record_codec.decode_config(record.key, record.value), record.offset)
        if problem is not None:
            key = (record.key or b"")[:100].decode("utf-8", "backslashreplace")
            log.error(
                "Record %d of config topic %s (key %s) is skipped: %s", record.offset, self._log.topic, key, problem
            )  # fmt: skip
        # Past restarts and log levels are not applied again; for the rest, a herder takes a snapshot after the start.
        if update is not None and record.live:
            self._tell(update)

    def _tell(self, update: Update) -> None:
        listener = self._listener
        match update:
            case ConnectorUpdated(name):
                listener.on_connector_config(name)
            case ConnectorRemoved(name):
                listener.on_connector_removed(name)
            case TasksUpdated(name, tasks):
                listener.on_task_configs(name, tasks)
            case TargetStateUpdated(name):
                listener.on_target_state(name)
            case SessionKey():
                listener.on_session_key(update)
            case RestartRequest():
                listener.on_restart_request(update)
            case LoggerRecord(namespace, level):
                listener.on_logger_level(namespace, level)
