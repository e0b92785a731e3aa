"""The loop of a sink task: take, convert, transform, put, commit; and what a rebalance does in between.

The rules are those of Kafka Connect's ``WorkerSinkTask``. Everything runs on the task's thread, the callbacks of a rebalance too
(inside ``SinkConsumer.take``).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from confluent_kafka import Message

from connect import crash_points
from connect.errors import ConnectError, RetriableError
from connect.record import ConnectRecord, SinkRecord, TopicPartition
from connect.sink import SinkTask
from worker.error_text import describe
from worker.errors.config import ErrorSettings
from worker.errors.handler import ErrorHandler
from worker.errors.stages import TaskPutError
from worker.kafka.sink_consumer import Assignment, ConsumerClosed, SinkConsumer
from worker.model import Stopped, TaskId
from worker.sink.batch import PutBatch
from worker.sink.context import SinkContext
from worker.sink.decoding import ConsumedSinkRecord, consumed, decode, group_by_partition, raw_batch
from worker.sink.errant_reporter import ErrantReporter
from worker.sink.positions import SinkPositions
from worker.tasks.converters import Converters
from worker.tasks.transformation_chain import TransformChain
from worker.tasks.worker_task import TaskControl

T = TypeVar("T")

log = logging.getLogger(__name__)

_SLICE_S, _QUIET_SLICE_S = 0.25, 1.0
_QUIET_FACTOR = 0.05
"""How long one wait for records lasts, for requests of operators are seen in between, and the client cannot be woken. The longer
it was quiet the longer the wait: a twentieth of that time. Each wait costs 0.1 ms, four a second more than all else of an idle
task."""
_RETRY_FIRST_S, _RETRY_MOST_S = 0.1, 5.0
_MISSING_LOOK_S = 1.0
_LAG_EVERY_S = 0.5
_NEVER = float("inf")
_COMMITTED_TIMEOUT_S = _BEGINNINGS_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics of a sink: names, or a pattern that the loop keeps looking for."""

    topics: frozenset[str]
    pattern: re.Pattern[str] | None
    refresh_s: float
    """How often topics are looked for that match the pattern."""


@dataclass(frozen=True, slots=True)
class SinkParts:
    """What a sink task works with; made on the task's own thread."""

    task: SinkTask
    config: Mapping[str, str]
    converters: Converters
    chain: TransformChain
    consumer: SinkConsumer
    subscription: Subscription
    max_records: int
    """The most that one ``put`` is given: ``max.poll.records``."""
    errors: ErrorHandler


class SinkHost(Protocol):
    """The task that the loop runs in."""

    id: TaskId
    control: TaskControl
    cancelled: bool

    def count(self, records: int, size_bytes: int) -> None: ...

    def tell_topics(self, topics: Collection[str]) -> None: ...

    def show_lag(self, lag: dict[str, int]) -> None: ...

    def on_paused(self) -> None: ...

    def on_resumed(self) -> None: ...


def wait_slice_s(quiet_s: float) -> float:
    """How long one wait for records lasts when there were none for so long."""
    return min(max(_SLICE_S, quiet_s * _QUIET_FACTOR), _QUIET_SLICE_S)


def _counts_records(settings: ErrorSettings) -> bool:
    """Whether single records matter to the worker, which it must decode then."""
    return settings.tolerant or settings.dead_letters is not None


class SinkLoop:
    """Runs until its host is asked to stop; then :meth:`close`."""

    def __init__(self, host: SinkHost, parts: SinkParts, interval_s: float, timeout_s: float) -> None:
        self._host = host
        self._parts = parts
        self._consumer = parts.consumer
        self._task = parts.task
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._positions = SinkPositions()
        self.context = SinkContext(
            parts.config,
            parts.converters,
            parts.consumer,
            self._positions.of,
            raw_allowed=not parts.chain and (parts.task.reports_raw or not _counts_records(parts.errors.settings)),
            reporter=ErrantReporter(parts.task, parts.converters, parts.errors) if parts.errors.settings.reports else None,
            may_resume=lambda: not self._held_up,
        )
        self.raw = False
        """Whether the task takes undecoded columns."""
        self._batch: PutBatch | None = None  # what a RetriableError left to be put again
        self._paused = False
        self._retry_s = _RETRY_FIRST_S
        self._seeks: dict[TopicPartition, int] = {}
        self._rebalanced = False  # during the last look for records
        self._callback_error: BaseException | None = None
        self._put_by = _NEVER  # when the task wants to be called, with records or without
        self._next_commit = time.monotonic() + interval_s
        self._commit_deadline: float | None = None  # of the commit that is under way
        self._subscribed: set[str] = set()
        self._read: set[str] = set()  # topics that records were read from
        self._next_look = 0.0
        self._next_lag = 0.0
        self._last_records = time.monotonic()

    @property
    def _held_up(self) -> bool:
        return self._paused or self._batch is not None

    # --- the loop

    def run(self) -> None:
        """Delivers records until the host is to stop. Raises what makes the task fail."""
        subscription = self._parts.subscription
        if subscription.pattern is None:
            self._subscribe(set(subscription.topics))
        while not self._host.control.stopping:
            self._look_for_topics()
            self._follow_pause()
            self._iterate()

    def _iterate(self) -> None:
        self._parts.errors.check()
        now = time.monotonic()
        self._commit_when_due(now)
        self._apply_offsets()
        if (asked_s := self.context.take_timeout()) is not None:
            self._put_by = now + asked_s
        wait_until = self._put_by if self._batch is None else min(self._put_by, now + self._retry_s)
        messages = self._take(min(wait_until, self._next_commit))
        if self._host.control.stopping and not messages:
            return
        if messages:
            self._deliver(self._converted(messages))
        elif self._batch is not None:
            self._deliver(None)
        elif time.monotonic() >= self._put_by and not self._paused:
            self._deliver(PutBatch([], [], {}))
        self._update_lag()

    def _take(self, until: float) -> list[Message]:
        """Messages, or none when the time is over or something else is to be done."""
        control = self._host.control
        if self._parts.subscription.pattern is not None or self._consumer.missing:
            until = min(until, self._next_look)
        while True:
            now = time.monotonic()
            left_s = max(0.0, until - now)
            slice_s = wait_slice_s(now - self._last_records)
            self._rebalanced = False
            messages = self._consumer.take(self._parts.max_records, min(left_s, slice_s))
            if messages:
                self._last_records = time.monotonic()
            if self._callback_error is not None:
                error, self._callback_error = self._callback_error, None
                raise error
            if messages or left_s <= slice_s or control.stopping or control.paused is not self._paused:
                return messages
            if self.context.commit_requested and self._commit_deadline is None:
                return messages
            self._update_lag()

    def _follow_pause(self) -> None:
        wanted = self._host.control.paused
        if wanted and not self._paused:
            self._paused = True
            self._consumer.pause(self._positions.of)
            self.context.commit_requested = True
            self._host.on_paused()
        elif self._paused and not wanted:
            self._paused = False
            self._resume()
            self._host.on_resumed()

    def _resume(self) -> None:
        if not self._held_up:
            self._consumer.resume(set(self._positions.of) - self.context.paused)

    def _subscribe(self, topics: set[str]) -> None:
        self._subscribed = topics
        self._consumer.subscribe(topics)

    def _look_for_topics(self) -> None:
        """Asks for topics from time to time: for new ones that match the pattern, and soon for those that are missing (the
        client alone would ask again after metadata.max.age.ms)."""
        subscription = self._parts.subscription
        if time.monotonic() < self._next_look or (subscription.pattern is None and not self._consumer.missing):
            return
        existing = self._consumer.existing_topics()
        if existing and subscription.pattern is not None:
            found = {name for name in existing if subscription.pattern.fullmatch(name)}
            if found and found != self._subscribed:
                log.info("Task %s subscribes to topics %s", self._host.id, ", ".join(sorted(found)))
                self._subscribe(found)
        waiting = not self._subscribed or self._consumer.missing
        interval_s = min(subscription.refresh_s, _MISSING_LOOK_S) if waiting else subscription.refresh_s
        self._next_look = time.monotonic() + interval_s

    # --- records

    def _converted(self, messages: Sequence[Message]) -> PutBatch:
        assigned = self._positions.of
        # After a rebalance there may be messages of partitions that went while these were being collected.
        only = next(iter(assigned)) if len(assigned) == 1 and not self._rebalanced else None
        batch = PutBatch([], [], {})
        for place, group in group_by_partition(messages, only).items():
            if place not in assigned or place in self._seeks:
                continue  # it went, or is about to be read from elsewhere
            self._positions.began(place, group[0].offset() or 0)
            batch.ends[place] = (group[-1].offset() or 0) + 1
            if self.raw:
                self._has_read(place.topic)
                one = raw_batch(place, group)
                batch.raw.append(one)
                size = sum(map(len, filter(None, one.values)))
            else:
                batch.records += self._decoded(place, group)
                size = sum([len(m.value() or b"") for m in group])
            self._host.count(len(group), size)
        return batch

    def _has_read(self, topic: str) -> None:
        if topic not in self._read:
            self._read.add(topic)
            self._host.tell_topics({topic})

    def _decoded(self, place: TopicPartition, messages: Sequence[Message]) -> list[SinkRecord]:
        chain, errors = self._parts.chain, self._parts.errors
        failures = errors.batch()
        # Transformations copy plain records fastest, so what they are given gets its message afterwards.
        make = ConsumedSinkRecord if errors.settings.reports and not chain else SinkRecord
        found: Sequence[ConnectRecord | None] = decode(self._parts.converters, place, messages, failures, make)
        if place.topic not in self._read and any(record is not None for record in found):
            self._has_read(place.topic)  # as in Apache's, a topic of which nothing can be converted is not in use
        if chain:
            found = chain.apply_batch(found, failures)
        for at, failure in failures:
            # Where it is not tolerated this raises, and none of the batch is put: what came before is read again by the next run.
            errors.failed(failure, consumed(messages[at]))
        if errors.settings.reports and chain:
            pairs = zip(found, messages, strict=True)
            return [ConsumedSinkRecord.of(record, message) for record, message in pairs if isinstance(record, SinkRecord)]
        return [record for record in found if isinstance(record, SinkRecord)]

    def _deliver(self, batch: PutBatch | None) -> None:
        """Puts a batch, after what is still to be put from before."""
        if self._batch is not None:
            if batch is not None:
                self._batch.add(batch)
            batch = self._batch
        if batch is None:
            return
        self._put_by = _NEVER
        try:
            if self.raw:
                self._task.put_raw(batch.raw)
            else:
                self._task.put(batch.records)
        except RetriableError as e:
            if self._batch is None:
                log.warning("put() of task %s failed and is called again: %s", self._host.id, e.message)
                self._consumer.pause(self._positions.of)
                self._retry_s = _RETRY_FIRST_S
            else:
                self._retry_s = min(self._retry_s * 2, _RETRY_MOST_S)
            self._batch = batch
            return
        except (ConsumerClosed, Stopped):
            raise
        except Exception as e:
            raise TaskPutError(self._task, batch.describe(), e) from e
        self._parts.errors.check()  # what put caught, or a dead letter that was refused meanwhile, which is no failure of put
        self._positions.delivered(batch.ends)
        if self._commit_deadline is not None:
            # The answer may have come during a long put: it is heard of by the next look for records.
            self._commit_deadline = max(self._commit_deadline, time.monotonic() + _SLICE_S)
        if self._batch is not None:
            self._batch = None
            self._resume()

    def _apply_offsets(self) -> None:
        """Goes where the task asked to read (``context.offset``)."""
        for place, offset in self.context.take_offsets().items():
            if place in self._positions.of:
                self._move(place, offset)
                self._positions.rewound(place, offset)
            else:
                log.warning("Task %s asks for offset %d of %s, which it does not have; ignored", self._host.id, offset, place)
        self._seeks = {p: o for p, o in self._seeks.items() if p in self._positions.of and not self._consumer.seek(p, o)}

    def _move(self, place: TopicPartition, offset: int) -> None:
        self._seeks[place] = offset
        if self._batch is not None:
            # It is read again from there, as far as it lies there.
            self._batch.drop([place])

    def _update_lag(self) -> None:
        now = time.monotonic()
        if now < self._next_lag:
            return
        self._next_lag = now + _LAG_EVERY_S
        lag = {}
        for place, position in self._positions.of.items():
            end = self._consumer.end_offset(place, cached=True)
            at = position.delivered if position.delivered is not None else position.restart
            if end is not None:
                lag[str(place)] = max(0, end - (at or 0))
        self._host.show_lag(lag)

    # --- commits

    def _commit_when_due(self, now: float) -> None:
        if self._commit_deadline is not None:
            if now < self._commit_deadline:
                return
            log.warning("Task %s: no answer to a commit of offsets within offset.flush.timeout.ms", self._host.id)
            self._commit_deadline = None
        if now >= self._next_commit or self.context.commit_requested:
            self.context.commit_requested = False
            self._next_commit = now + self._interval_s
            self._commit(set(self._positions.of), now)

    def _commit(self, partitions: Collection[TopicPartition], now: float) -> None:
        asked = self._positions.to_pre_commit(partitions)
        try:
            answered = self._task.pre_commit(dict(asked))
        except Exception as e:
            log.error("pre_commit() of task %s failed; it goes back to the last commit: %s", self._host.id, describe(e))
            for place, offset in self._positions.restarts().items():
                self._move(place, offset)
                self._positions.of[place].delivered = offset
            return
        offsets = self._positions.to_commit(answered, asked, self._host.id)
        if offsets and not self._parts.errors.settle(self._timeout_s):
            log.warning(
                "Task %s does not commit offsets: its dead letter queue has not taken all records that failed within %d ms "
                "(offset.flush.timeout.ms). It is tried again",
                self._host.id,
                int(self._timeout_s * 1000),
            )
            return
        if offsets:
            crash_points.point("sink.precommitted")
            # Promise 2: what pre_commit returned, and nothing else.
            self._commit_deadline = now + self._timeout_s
            self._consumer.commit(offsets, wait=False)

    def committed(self, offsets: Mapping[TopicPartition, int], error: ConnectError | None) -> None:
        """A commit that did not wait has ended."""
        self._commit_deadline = None
        self._positions.committed(offsets)
        if error is not None:
            log.warning("Task %s: %s. It is tried again", self._host.id, error.message)

    def _commit_and_close(self, partitions: Collection[TopicPartition]) -> None:
        """``pre_commit``, ``close_partitions``, and a commit that waits: these partitions go to another task."""
        asked = self._positions.to_pre_commit(partitions)
        answered: Mapping[TopicPartition, int] = {}
        try:
            answered = self._task.pre_commit(dict(asked))
        except Exception as e:
            log.error("pre_commit() of task %s failed while it gives partitions up: %s", self._host.id, describe(e))
        finally:
            self._task.close_partitions(list(partitions))
        offsets = self._positions.to_commit(answered, asked, self._host.id)
        if offsets and self._reports_are_settled():
            crash_points.point("sink.precommitted")
            try:
                self._consumer.commit(offsets, wait=True)
                self._positions.committed(offsets)
            except ConnectError as e:
                log.error("Task %s: %s. The records since the last commit will be read again", self._host.id, e.message)

    def _reports_are_settled(self) -> bool:
        """Whether offsets of partitions that go may be committed. If not, their records are read again by who has them next."""
        try:
            if self._parts.errors.settle(self._timeout_s):
                return True
            reason = "it has not taken all of them within offset.flush.timeout.ms"
        except ConnectError as e:
            reason = e.message
        log.error(
            "Task %s does not commit offsets, for its dead letter queue lacks records that failed: %s", self._host.id, reason
        )
        return False

    def close(self) -> None:
        """Commits what was delivered and gives the partitions up. The consumer is closed by the caller."""
        partitions = list(self._positions.of)
        if partitions:
            self._commit_and_close(partitions)
            self._forget(partitions)

    # --- rebalance, called inside take()

    def guarded(self, what: Callable[[list[TopicPartition]], T], partitions: list[TopicPartition]) -> T | None:
        """Runs a callback; its error is raised when ``take`` has returned, not through the client's C code."""
        self._rebalanced = True
        try:
            return what(partitions)
        except BaseException as e:
            if self._callback_error is None:
                self._callback_error = e
            return None

    def assigned(self, partitions: list[TopicPartition]) -> Assignment:
        """Opens the partitions."""
        committed = self._committed_offsets(partitions)
        began = self._consumer.beginnings([p for p in partitions if p not in committed], _BEGINNINGS_TIMEOUT_S)
        self._positions.add(partitions, committed, began)
        if partitions:
            log.info("Task %s was assigned %s", self._host.id, ", ".join(map(str, sorted(partitions))))
            self._task.open(partitions)
        starts = {**committed, **began}
        for place, offset in self.context.take_offsets().items():
            if place in partitions:
                starts[place] = offset
                self._positions.rewound(place, offset)
            elif place in self._positions.of:
                self.context.offset({place: offset})
        return Assignment(starts, partitions if self._held_up else self.context.paused & set(partitions))

    def _committed_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        while True:
            try:
                return self._consumer.committed(partitions, _COMMITTED_TIMEOUT_S) if partitions else {}
            except ConnectError as e:
                if self._host.control.stopping:
                    return {}
                log.warning("%s. It is tried again", e.message)
                self._host.control.wait_for_stop(_RETRY_FIRST_S)

    def revoked(self, partitions: list[TopicPartition]) -> None:
        """Partitions go to another task: commit and close them."""
        mine = [p for p in partitions if p in self._positions.of]
        if mine:
            self._commit_and_close(mine)
            self._forget(mine)

    def lost(self, partitions: list[TopicPartition]) -> None:
        """Partitions went already: nothing may be committed or written for them."""
        mine = [p for p in partitions if p in self._positions.of]
        if mine:
            log.warning("Task %s has lost %s to another member of the group", self._host.id, ", ".join(map(str, mine)))
            try:
                self._task.close_partitions(mine, lost=True)
            finally:
                self._forget(mine)

    def _forget(self, partitions: Collection[TopicPartition]) -> None:
        self._positions.remove(partitions)
        self.context.paused -= set(partitions)
        for place in partitions:
            self._seeks.pop(place, None)
        if self._batch is not None:
            self._batch.drop(partitions)
