"""A source task: its thread, its plugins, and its loop of polling and delivering.

How what it polls becomes durable is :mod:`worker.source.at_least_once` (at-least-once) or :mod:`worker.source.exactly_once`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from connect.errors import ConnectError, RetriableError
from connect.record import SourceRecord
from connect.source import TransactionContext
from worker.executor import WorkerServices
from worker.kafka.idempotence import WITHOUT
from worker.kafka.record_producer import ProduceCancelled, ProducerLostError
from worker.kafka.transactions import TransactionLostError
from worker.model import ErrorCounts, Stopped, TaskId, TaskProgress
from worker.source.at_least_once import AtLeastOnce, Outcome, SourceDelivery
from worker.source.exactly_once import ExactlyOnce
from worker.source.runtime import FlushTiming, SourceParts
from worker.storage.offset_store import ConnectorOffsetReader
from worker.tasks.worker_task import TaskListener, WorkerTask, plugin_details

log = logging.getLogger(__name__)

_IDLE_FIRST_S, _IDLE_MOST_S = 0.001, 0.1
_RETRY_FIRST_S, _RETRY_MOST_S = 0.1, 5.0
_PAUSE_LOOK_S = 1.0
_FRUITLESS = 3
"""So often a task may lose its transaction or its producer in a row without any reason seen: then its settings are to blame, not
the brokers."""
_STOP_COMES_S = 30.0


class _Context:
    """What the task is given (:class:`connect.source.SourceTaskContext`)."""

    def __init__(
        self, config: Mapping[str, str], offset_reader: ConnectorOffsetReader, transactions: TransactionContext | None
    ) -> None:
        self._config = config
        self._offset_reader = offset_reader
        self._transactions = transactions

    def configs(self) -> Mapping[str, str]:
        return self._config

    @property
    def offset_reader(self) -> ConnectorOffsetReader:
        return self._offset_reader

    @property
    def transaction_context(self) -> TransactionContext | None:
        return self._transactions


class SourceWorkerTask(WorkerTask):
    """Runs one source task."""

    def __init__(
        self,
        task_id: TaskId,
        listener: TaskListener,
        make_parts: Callable[[Callable[[], bool], bool], SourceParts],
        services: WorkerServices,
        timing: FlushTiming,
        *,
        run: int = 0,
        version: str | None = None,
        paused: bool = False,
    ) -> None:
        """``make_parts`` is called on the task's thread, with what its producer asks whether to give up, and whether that may
        number its batches. ``run`` is what the worker knows this start by."""
        super().__init__(task_id, listener, version=version, paused=paused)
        self._make_parts = make_parts
        self._services = services
        self._timing = timing
        self._run_number = run
        self._offset_reader = self._new_reader()
        self._parts: SourceParts | None = None
        self._started = False
        self._counts = ErrorCounts()
        self._fruitless = 0
        self._numbered = True

    def progress(self) -> TaskProgress:
        parts = self._parts
        details = plugin_details(parts.task) if parts is not None and self._started else {}
        return TaskProgress(self._records, self._bytes, None, details, self._counts)

    def _new_reader(self) -> ConnectorOffsetReader:
        return ConnectorOffsetReader(self._services.offsets, self.id.connector, self.control.wait_for_stop)

    def count(self, records: int, size_bytes: int) -> None:
        self._records += records
        self._bytes += size_bytes

    def tell_topics(self, topics: Collection[str]) -> None:
        if not self.cancelled:
            self._listener.on_topics(self, topics)

    def _stop_plugin(self) -> None:
        if self._parts is not None:
            try:
                self._parts.task.stop()
            except BaseException:
                log.exception("stop() of task %s failed", self.id)

    def _cut_off(self) -> None:
        self._offset_reader.close()
        if self._parts is not None:
            self._parts.producer.cancel()
            self._parts.errors.cancel()

    def _execute(self) -> None:
        while self._live() and not self.control.stopping:
            self._offset_reader = self._new_reader()
            self._wait_if_born_paused()

    def _live(self) -> bool:
        """The life of one instance of the connector's task. True when there is to be another."""
        parts = self._make_parts(self.control.is_stopping, self._numbered)
        parts.errors.counts.add(self._counts)
        self._parts, self._counts = parts, parts.errors.counts
        self._started = False
        again: SourceDelivery | None = None
        try:
            if not parts.errors.open(self.control.wait_for_stop) or self.control.stopping:
                return False
            delivery = self._delivery(parts)
            if not delivery.prepare():
                return False
            parts.task.initialize(_Context(parts.config, self._offset_reader, delivery.context))
            parts.task.start(parts.config)
            self._started = True
            if self.control.is_stopping():
                parts.task.stop()  # the request came before the task could hear it
            self._listener.on_running(self)
            outcome = Outcome.FAILED
            try:
                self._loop(parts, delivery)
                outcome = Outcome.STOPPED
            except (ProduceCancelled, Stopped):
                outcome = Outcome.INTERRUPTED
                log.info("Task %s stops with records that the broker did not take; they will be read again", self.id)
            except (TransactionLostError, ProducerLostError) as e:
                if self.control.stopping or not self._is_worth_it(delivery, e):
                    raise
                again = delivery
            finally:
                delivery.finish(outcome)
        finally:
            self._close(parts)
        return again is not None and self._may_begin_again(again)

    def _is_worth_it(self, delivery: SourceDelivery, error: TransactionLostError | ProducerLostError) -> bool:
        if isinstance(error, ProducerLostError) and error.refused:
            self._numbered = False
            log.warning("Task %s begins again with a producer that numbers no batches: %s. %s", self.id, error.message, WITHOUT)
            return True
        self._fruitless = 0 if delivery.fruitful or delivery.disturbed else self._fruitless + 1
        if self._fruitless > _FRUITLESS:
            return False
        reason = error.reason if isinstance(error, TransactionLostError) else error.message
        log.warning("Task %s begins again from what it has committed: %s", self.id, reason)
        return True

    def _may_begin_again(self, delivery: SourceDelivery) -> bool:
        self.control.wait_for_stop(min(_RETRY_FIRST_S * 2**self._fruitless, _RETRY_MOST_S))
        try:
            return delivery.may_begin_again()
        except ConnectError as e:
            log.warning("Task %s does not begin again: %s", self.id, e.message)
            # What ends it is on its way: a failure told before that would be one of a run that is over.
            if self.control.wait_for_stop(_STOP_COMES_S):
                return False
            raise

    def _delivery(self, parts: SourceParts) -> SourceDelivery:
        if parts.exactly is None:
            return AtLeastOnce(self, parts, self._services.offsets, self._timing)
        return ExactlyOnce(self, parts, parts.exactly, self._services, self._timing, self._run_number)

    def _loop(self, parts: SourceParts, delivery: SourceDelivery) -> None:
        control = self.control
        idle_s, retry_s = _IDLE_FIRST_S, _RETRY_FIRST_S
        delivery.begin()
        while not control.stopping:
            if control.paused:
                self._stay_paused(delivery)
                delivery.begin()
                continue
            began = time.monotonic()
            try:
                batch = parts.task.poll()
                retry_s = _RETRY_FIRST_S
            except RetriableError as e:
                log.warning("poll() failed and is called again in %.1f s: %s", retry_s, e.message)
                batch = None
                control.wait_for_stop(retry_s)
                retry_s = min(retry_s * 2, _RETRY_MOST_S)
            parts.errors.check()
            try:
                delivery.deliver(batch)
            except (AttributeError, TypeError) as e:
                raise _explained(e, batch, type(parts.task)) from e
            if batch:
                idle_s = _IDLE_FIRST_S
            elif time.monotonic() - began < _IDLE_FIRST_S:
                # A task that answers "nothing" at once would keep a core busy asking.
                control.wait_for_stop(idle_s)
                idle_s = min(idle_s * 2, _IDLE_MOST_S)

    def _stay_paused(self, delivery: SourceDelivery) -> None:
        self._listener.on_paused(self)
        delivery.settle()
        while not self.control.wait_while_paused(_PAUSE_LOOK_S):
            delivery.settle()
        if not self.control.stopping:
            self._listener.on_running(self)

    def _close(self, parts: SourceParts) -> None:
        self._offset_reader.close()
        # A task that was asked to end has waited for its reports in the last flush already.
        parts.errors.close(0.0 if self.cancelled or self.control.stopping else self._timing.last_timeout_s)
        for what in (parts.task, parts.chain, parts.converters, parts.producer):
            try:
                what.close()
            except Exception:
                log.exception("close() of %s failed in task %s", type(what).__name__, self.id)


def _explained(error: Exception, batch: object, task: type) -> Exception:
    """The error of a delivery; where ``poll`` returned something else than it may, one that says so."""
    if isinstance(batch, str | Mapping) or not isinstance(batch, Iterable):
        found = type(batch).__name__
    else:
        strange = next((one for one in batch if not isinstance(one, SourceRecord)), error)
        if strange is error:
            return error
        found = f"a sequence with {type(strange).__name__} in it"
    return ConnectError(f"poll() of {task.__qualname__} must return a sequence of SourceRecord, or None, but returned {found}")
