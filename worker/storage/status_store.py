"""The store of connector and task statuses, and of the topics they use, in the status topic (Apache's
``KafkaStatusBackingStore``).

A status is valid once it was read back from the topic, whoever wrote it. Writes do not wait; one that no broker accepted is
retried unless another status of the same instance followed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from itertools import count
from typing import Any

from connect.errors import ConnectError, UnreachableError
from worker.kafka.log_writer import Written
from worker.kafka.topic_log import LogRecord, TopicLog, TopicLogSettings
from worker.model import ConnectorStatus, State, Status, TaskId
from worker.storage import record_codec
from worker.storage.record_codec import DocumentKind, DocumentRecord, KeyValue, StatusRecord, TopicStatus, TopicStatusRecord

log = logging.getLogger(__name__)

Instance = str | TaskId
"""A connector name, or a task."""


def may_write(known: Status | None, status: Status) -> bool:
    """Whether a status that may be late (FAILED, UNASSIGNED) must still be written: not after another worker's status with a
    newer generation, which shows that a successor runs the instance."""
    return known is None or known.worker_id == status.worker_id or known.generation <= status.generation


def is_late(known: Status | None, status: Status) -> bool:
    """Whether a status reports the end of a task that another worker runs in the same or a newer generation (KAFKA-12525).

    Unlike in Apache, statuses of the worker that runs the task are accepted within the same generation, because its own records
    are in order. So a stopped task is not shown as running.
    """
    return (
        status.state is State.UNASSIGNED
        and known is not None
        and known.state is State.RUNNING
        and known.worker_id != status.worker_id
        and known.generation >= status.generation
    )


def hides(read: Status, own: Status) -> bool:
    """Whether another worker's status of an instance that this worker runs is late: it has an earlier generation, or reports
    the end in the same one. Each worker writes over its own connection, so after an outage the last statuses of one may follow
    the first ones of its successor."""
    if read.worker_id == own.worker_id:
        return False
    return read.generation < own.generation or (read.generation == own.generation and read.state is State.UNASSIGNED)


class _ReadDocuments:
    """The documents of one kind. They are asked for much more often than they change."""

    def __init__(self) -> None:
        self._current: dict[str, Mapping[str, Any]] = {}
        self._shared: dict[str, Mapping[str, Any]] | None = None

    def take(self, name: str, document: Mapping[str, Any] | None) -> None:
        self._shared = None
        self._current.pop(name, None)
        if document is not None:
            self._current[name] = document

    def all(self) -> Mapping[str, Mapping[str, Any]]:
        """Returns a map that does not change."""
        if self._shared is None:
            self._shared = dict(self._current)
        return self._shared


class StatusStore:
    """Owns the log of the status topic. Methods are safe from any thread and do not wait, except :meth:`start`."""

    def __init__(
        self,
        settings: TopicLogSettings,
        worker_id: str,
        epoch_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """``settings`` come from :func:`worker.storage.topic_logs.status_log`; ``worker_id`` is this worker."""
        self._log = TopicLog(settings, self._on_record)
        self._worker_id = worker_id
        self._epoch_ms = epoch_ms
        self._lock = threading.Lock()  # guards the maps, which the log's thread changes
        # Held from checking the latest status until the record is sent, so that a retried status never follows a newer one.
        self._saying = threading.Lock()
        self._connectors: dict[str, Status] = {}
        self._tasks: dict[str, dict[int, Status]] = {}
        self._whole: dict[str, ConnectorStatus] = {}
        """Statuses of connectors with their tasks, built when somebody asks for them."""
        self._topics: dict[str, dict[str, TopicStatus]] = {}
        self._own: dict[Instance, Status] = {}
        """The latest statuses that this worker wrote for its instances."""
        self._own_read: set[Instance] = set()
        """Those of them that were read back."""
        self._documents = {kind: _ReadDocuments() for kind in DocumentKind}
        self._announced: set[tuple[str, str]] = set()
        """Connectors and topics whose records were sent but not read back yet."""
        self._numbers = count(1)
        self._latest: dict[str, int] = {}
        """The number of the latest requested write, by key."""

    def start(self, timeout_s: float | None = None) -> None:
        """Creates or checks the topic and reads it; see :meth:`TopicLog.start`."""
        self._log.start(timeout_s)

    def ask_to_close(self) -> None:
        """Makes a later close fast."""
        self._log.ask_to_close()

    def close(self) -> None:
        self._log.close()

    def refresh(self, timeout_s: float) -> None:
        """Waits until everything written before the call was read. Raises UnreachableError on timeout."""
        self._log.read_to_end(timeout_s)

    # --- what is known

    def get(self, instance: Instance) -> Status | None:
        """Returns the status of an instance. Its ``since_ms`` is when this worker first read the state."""
        with self._lock:
            return self._known(instance)

    def get_all(self, connector: str) -> dict[int, Status]:
        """Returns the statuses of a connector's tasks, by number."""
        with self._lock:
            return dict(self._tasks.get(connector, {}))

    def connector_statuses(self, connectors: Iterable[str]) -> list[ConnectorStatus]:
        """Returns the statuses of those connectors that have one, in this order, with the type ``unknown``. An unchanged status
        is the same object as before."""
        with self._lock:
            return [status for name in connectors if (status := self._status_of(name)) is not None]

    def _status_of(self, name: str) -> ConnectorStatus | None:
        status = self._whole.get(name)
        if status is None and (connector := self._connectors.get(name)) is not None:
            tasks = sorted(self._tasks.get(name, {}).items())
            status = self._whole[name] = ConnectorStatus(name, connector, tasks, "unknown")
        return status

    def connectors(self) -> frozenset[str]:
        """Returns the connectors that have a status, of their own or of a task."""
        with self._lock:
            return frozenset(self._connectors) | frozenset(self._tasks)

    def topics(self, connector: str) -> frozenset[str]:
        """Returns the topics that a connector has used since they were last reset."""
        with self._lock:
            return frozenset(self._topics.get(connector, ()))

    @property
    def is_read(self) -> bool:
        """Whether everything was read that the topic had when the worker started."""
        return self._log.is_read

    def documents(self, kind: DocumentKind) -> Mapping[str, Mapping[str, Any]]:
        """Returns the documents of a kind by name, in the order in which they were written. The map does not change."""
        with self._lock:
            return self._documents[kind].all()

    def workers(self) -> frozenset[str]:
        """Returns the workers that statuses name."""
        with self._lock:
            statuses = [*self._connectors.values(), *(one for tasks in self._tasks.values() for one in tasks.values())]
            return frozenset(status.worker_id for status in statuses)

    # --- writing

    def put(self, instance: Instance, status: Status) -> None:
        """Writes a status, and again if a late status of another worker follows it."""
        with self._saying:
            self._keep(instance, status)
            self._send(record_codec.status_record(instance, status))

    def put_safe(self, instance: Instance, status: Status) -> None:
        """Writes a status unless another worker has reported a newer generation before it is sent or resent: the last status
        of a worker must not hide that its successor runs."""
        with self._saying:
            if may_write(self.get(instance), status):
                self._keep(instance, status)
                self._send(record_codec.status_record(instance, status), lambda: may_write(self.get(instance), status))
            else:
                self._keep(instance, None)
                log.debug("%s of %s is not written: another worker has it now", status.state.value, instance)

    def delete(self, instance: Instance) -> None:
        """Deletes a status."""
        with self._saying:
            self._keep(instance, None)
            self._send(record_codec.status_tombstone(instance))

    def _keep(self, instance: Instance, status: Status | None) -> None:
        with self._lock:
            self._own_read.discard(instance)
            if status is None or status.state is State.UNASSIGNED:
                self._own.pop(instance, None)
            else:
                self._own[instance] = status

    def put_document(self, kind: DocumentKind, name: str, document: Mapping[str, Any] | None) -> Future[Written | None]:
        """Replaces a document; None deletes it. Pass the future to :meth:`await_read`."""
        return self._send(record_codec.document_record(kind, name, document))

    def add_topic(self, connector: str, task: int, topic: str) -> None:
        """Records that a connector uses a topic, unless that is known."""
        with self._lock:
            if topic in self._topics.get(connector, ()) or (connector, topic) in self._announced:
                return
            self._announced.add((connector, topic))
        self._send(record_codec.topic_status_record(TopicStatus(topic, connector, task, self._epoch_ms())))

    def reset_topics(self, connector: str) -> list[Future[Written | None]]:
        """Resets the topics of a connector, including those whose records are still in flight. Pass the result to
        :meth:`await_read`."""
        with self._lock:
            underway = {topic for name, topic in self._announced if name == connector}
            self._announced -= {(connector, topic) for topic in underway}
            topics = underway | set(self._topics.get(connector, ()))
        return [self._send(record_codec.topic_status_tombstone(connector, topic)) for topic in sorted(topics)]

    def await_read(self, sent: Sequence[Future[Written | None]], timeout_s: float) -> None:
        """Waits until these writes were read back. Raises UnreachableError, and the errors of the writes."""
        deadline = time.monotonic() + timeout_s
        if wait(sent, timeout_s).not_done:
            raise UnreachableError(
                f"a record for topic {self._log.topic} was not written within {timeout_s:g} s; it is retried. Check that the "
                "brokers run, and that enough replicas of the topic are in sync"
            )
        written = [where for where in (future.result() for future in sent) if where is not None]
        self._log.await_read(written, max(0.0, deadline - time.monotonic()))

    def _send(self, record: KeyValue, still_true: Callable[[], bool] = lambda: True) -> Future[Written | None]:
        """Writes a record. The future completes with its location, or with None if another record replaced it."""
        outcome: Future[Written | None] = Future()
        key = record.key.decode()
        number = next(self._numbers)
        with self._lock:
            self._latest[key] = number

        def sent(future: Future[Written]) -> None:
            error = future.exception()
            with self._lock:
                current = self._latest.get(key) == number
                if error is None and current:
                    del self._latest[key]
            if error is None:
                outcome.set_result(future.result())
            elif not isinstance(error, UnreachableError):
                log.error("The record %s of status topic %s was not written: %s", key, self._log.topic, error)
                outcome.set_exception(error)
            elif current and still_true():
                again()
            else:
                outcome.set_result(None)

        def again() -> None:
            try:
                future = self._log.send(record.key, record.value)
            except ConnectError as e:
                log.warning("The record %s of status topic %s is not written: %s", key, self._log.topic, e.message)
                outcome.set_exception(e)
                return
            if future.done() and (error := future.exception()) is not None:
                # The client did not even queue it: resending it at once would not help.
                log.error("The record %s of status topic %s is not written: %s", key, self._log.topic, error)
                outcome.set_exception(error)
            else:
                future.add_done_callback(sent)

        again()
        return outcome

    # --- reading, on the log's thread

    def _on_record(self, record: LogRecord) -> None:
        match record_codec.decode_status(record.key, record.value):
            case StatusRecord(id=instance, status=status):
                with self._lock:
                    self._take(instance, status)
                    own = self._hidden_by(instance, status)
                if own is not None:
                    self._say_again(instance, own)
            case TopicStatusRecord(connector=connector, topic=topic, status=status):
                with self._lock:
                    self._take_topic(connector, topic, status)
            case DocumentRecord(kind=kind, name=name, document=document):
                with self._lock:
                    self._documents[kind].take(name, document)
            case unreadable:
                log.warning("Record %d of status topic %s is skipped: %s", record.offset, self._log.topic, unreadable.reason)

    def _say_again(self, instance: Instance, own: Status) -> None:
        with self._saying:
            if self._own.get(instance) is own:
                log.debug("%s of %s is written again after a late status of another worker", own.state.value, instance)
                self._send(record_codec.status_record(instance, own), lambda: self._own.get(instance) is own)

    def _hidden_by(self, instance: Instance, read: Status | None) -> Status | None:
        """Writes this worker's latest status again after a late one of another worker."""
        own = self._own.get(instance)
        if own is None:
            return None
        if read is None:
            del self._own[instance]
        elif read.worker_id != own.worker_id:
            if instance in self._own_read and hides(read, own):
                self._own_read.discard(instance)
                return own
        elif (read.state, read.generation) == (own.state, own.generation):
            self._own_read.add(instance)
        return None

    def _take(self, instance: Instance, status: Status | None) -> None:
        before = self._known(instance)
        if status is not None:
            if isinstance(instance, TaskId) and is_late(before, status):
                return
            same = before if before is not None and before.state is status.state else None
            status = replace(status, since_ms=self._epoch_ms() if same is None else same.since_ms)
        self._whole.pop(instance if isinstance(instance, str) else instance.connector, None)
        if isinstance(instance, str):
            if status is None:
                self._connectors.pop(instance, None)
            else:
                self._connectors[instance] = status
            return
        tasks = self._tasks.setdefault(instance.connector, {})
        if status is None:
            tasks.pop(instance.task, None)
        else:
            tasks[instance.task] = status
        if not tasks:
            del self._tasks[instance.connector]

    def _take_topic(self, connector: str, topic: str, status: TopicStatus | None) -> None:
        self._announced.discard((connector, topic))
        topics = self._topics.setdefault(connector, {})
        if status is None:
            topics.pop(topic, None)
        else:
            topics[topic] = status
        if not topics:
            del self._topics[connector]

    def _known(self, instance: Instance) -> Status | None:
        if isinstance(instance, str):
            return self._connectors.get(instance)
        return self._tasks.get(instance.connector, {}).get(instance.task)
