"""The loop of a sink task: poll, decode, put, and commit.

The rules are those of Kafka Connect's ``WorkerSinkTask``. Everything runs on the task's thread, including the callbacks of a
rebalance, which the client calls inside ``SinkConsumer.take``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from confluent_kafka import Message

from connect.trace_context import find_links
from worker.errors.config import ErrorSettings
from worker.kafka.sink_consumer import MissingOffsetError
from worker.observability.activity import TaskPhase
from worker.sink.batch import PutBatch
from worker.sink.commits import SinkCommits
from worker.sink.context import SinkContext
from worker.sink.decoding import MessageDecoder
from worker.sink.delivery import SinkDelivery
from worker.sink.errant_reporter import ErrantReporter
from worker.sink.pauses import ConsumptionPauses
from worker.sink.positions import SinkPositions
from worker.sink.range_reads import RangeReads
from worker.sink.rebalance import PartitionHandler, RebalanceCallbacks
from worker.sink.runtime import SinkTaskHandle, SinkTaskRuntime
from worker.sink.topic_discovery import TopicDiscovery

log = logging.getLogger(__name__)

_SLICE_S, _IDLE_SLICE_S = 0.25, 1.0
_IDLE_FACTOR = 0.05
"""A wait for records is cut into slices to notice requests of operators: the client cannot be woken. The longer there were no
records, the longer the slice: a twentieth of that time. Each wait costs 0.1 ms; four per second cost more than everything else
that an idle task does."""
_LAG_INTERVAL_S = 0.5


@dataclass(slots=True)
class _LastTake:
    records_at: float
    """``time.monotonic()`` when there were records."""
    started_ns: int = 0
    """When the last call of the consumer began, since 1970; of a traced task only."""


def wait_slice_s(idle_s: float) -> float:
    """Returns how long to wait for records at once if there were none for this long."""
    return min(max(_SLICE_S, idle_s * _IDLE_FACTOR), _IDLE_SLICE_S)


def _needs_decoded_records(settings: ErrorSettings) -> bool:
    """Whether the worker must know which record fails, so that it has to decode them."""
    return settings.tolerant or settings.dead_letters is not None


class SinkLoop:
    """Runs until the task must stop; call :meth:`close` then."""

    def __init__(
        self,
        handle: SinkTaskHandle,
        runtime: SinkTaskRuntime,
        callbacks: RebalanceCallbacks,
        interval_s: float,
        timeout_s: float,
    ) -> None:
        """``interval_s`` and ``timeout_s`` are ``offset.flush.interval.ms`` and ``offset.flush.timeout.ms``."""
        task, consumer, errors = runtime.task, runtime.consumer, runtime.errors
        self._handle = handle
        self._consumer = consumer
        self._max_records = runtime.max_records
        self._errors = errors
        self._positions = SinkPositions()
        handle.meter.watch_partitions(self._positions.assigned)
        self._pauses = ConsumptionPauses(consumer, self._positions.assigned)
        self._decoder = MessageDecoder(handle, runtime.converters, runtime.chain, errors, self._positions)
        plugins = runtime.converters, runtime.chain
        self._ranges = RangeReads(handle, runtime.range_reader, self._positions, *plugins, errors, self._decoder.report_topic)
        self.context = SinkContext(
            runtime.config,
            runtime.converters,
            consumer,
            self._positions.assigned,
            self._pauses,
            self._ranges,
            raw_allowed=not runtime.chain and (task.reports_raw or not _needs_decoded_records(errors.settings)),
            reporter=ErrantReporter(task, runtime.converters, errors) if errors.settings.reports else None,
        )
        self._discovery = TopicDiscovery(handle.id, consumer, runtime.subscription)
        self._delivery = SinkDelivery(handle, task, errors, self._positions, self._pauses)
        rewind = self._delivery.rewind
        self._commits = SinkCommits(handle, task, consumer, errors, self._positions, rewind, interval_s, timeout_s)
        self._rebalance = callbacks
        self._rebalance.handler = PartitionHandler(
            handle, task, consumer, self.context, self._positions, self._pauses, self._delivery, self._commits
        )
        self._next_lag = 0.0
        self._last_take = _LastTake(time.monotonic())

    def use_raw_batches(self) -> None:
        """Passes undecoded batches to the task (``put_raw``)."""
        self._decoder.is_raw = self._delivery.is_raw = self._ranges.is_raw = True

    def run(self) -> None:
        """Delivers records until the task must stop. Raises errors that must fail the task."""
        self._discovery.start()
        while not self._handle.control.stopping:
            self._discovery.look_for_topics()
            self._apply_pause_request()
            self._iterate()

    def close(self) -> None:
        """Commits delivered offsets and gives up all partitions. The caller closes the consumer."""
        if self._rebalance.handler is not None:
            self._rebalance.handler.revoke(list(self._positions.assigned))

    def _iterate(self) -> None:
        self._errors.check()
        delivery, now = self._delivery, time.monotonic()
        if self._commits.is_due(now, requested=self.context.commit_requested):
            self.context.commit_requested = False
            self._commits.commit(now)
        self._seek()
        if (timeout_s := self.context.take_timeout()) is not None:
            delivery.request_put(now + timeout_s)
        messages = self._take(min(delivery.next_put_at(now), self._commits.next_commit))
        if self._handle.control.stopping and not messages:
            return
        if messages:
            if (trace := self._handle.trace) is None:
                self._put(self._decode(messages))
            else:
                with trace.batch("sink batch", "consume", len(messages), self._last_take.started_ns):
                    with trace.span("transform"):
                        batch = self._decode(messages)
                    batch.links = find_links(message.headers() for message in messages)
                    self._put(batch)
        elif delivery.is_retrying:
            self._put(None)
        elif delivery.is_put_due(time.monotonic()) and not self._pauses.by_operator:
            self._put(PutBatch([], [], {}))
        self._update_lag()

    def _decode(self, messages: Sequence[Message]) -> PutBatch:
        self._handle.activity.enter(TaskPhase.TRANSFORMING)
        # After a rebalance there may be messages of partitions that were revoked while these were collected.
        return self._decoder.decode(messages, same_assignment=not self._rebalance.rebalanced)

    def _put(self, batch: PutBatch | None) -> None:
        if self._delivery.put(batch):
            self._commits.extend_deadline()

    def _take(self, until: float) -> list[Message]:
        """Returns messages, or none when the time is over or there is something else to do."""
        control = self._handle.control
        self._handle.activity.enter(TaskPhase.PAUSED if self._pauses.by_operator else TaskPhase.WAITING)
        if (next_look := self._discovery.next_look) is not None:
            until = min(until, next_look)
        while True:
            now = time.monotonic()
            left_s = max(0.0, until - now)
            slice_s = wait_slice_s(now - self._last_take.records_at)
            self._rebalance.rebalanced = False
            if self._handle.trace is not None:
                self._last_take.started_ns = time.time_ns()
            try:
                messages = self._consumer.take(self._max_records, min(left_s, slice_s))
            except MissingOffsetError as e:
                self._rebalance.raise_error()
                self._delivery.explain(e)
                raise
            if messages:
                self._last_take.records_at = time.monotonic()
            self._rebalance.raise_error()
            if messages or left_s <= slice_s or control.stopping or control.paused is not self._pauses.by_operator:
                return messages
            if self.context.commit_requested and not self._commits.is_in_progress:
                return messages
            self._update_lag()

    def _apply_pause_request(self) -> None:
        requested = self._handle.control.paused
        if requested and not self._pauses.by_operator:
            self._pauses.set_by_operator(True)
            self.context.commit_requested = True
            self._handle.on_paused()
        elif self._pauses.by_operator and not requested:
            self._pauses.set_by_operator(False)
            self._handle.on_resumed()

    def _seek(self) -> None:
        """Seeks to the offsets that the task requested (``context.offset``), and to those of seeks that have to be retried."""
        positions = self._positions
        for partition, offset in self.context.take_offsets().items():
            if partition in positions.assigned:
                self._delivery.rewind(partition, offset)
                positions.rewind(partition, offset)
            else:
                log.warning(
                    "Task %s: ignoring requested offset %d for %s: partition is not assigned", self._handle.id, offset, partition
                )
        positions.seeks = {
            partition: offset
            for partition, offset in positions.seeks.items()
            if partition in positions.assigned and not self._consumer.seek(partition, offset)
        }

    def _update_lag(self) -> None:
        now = time.monotonic()
        if now < self._next_lag:
            return
        self._next_lag = now + _LAG_INTERVAL_S
        lag = {}
        uncommitted = 0
        for partition, position in self._positions.assigned.items():
            if position.delivered is not None and position.restart is not None:
                uncommitted += max(0, position.delivered - position.restart)
            end = self._consumer.end_offset(partition, cached=True)
            current = position.delivered if position.delivered is not None else position.restart
            if end is not None:
                lag[str(partition)] = max(0, end - (current or 0))
        self._handle.report_lag(lag, is_paused=self._pauses.by_sink)
        self._handle.meter.set_active(uncommitted)
