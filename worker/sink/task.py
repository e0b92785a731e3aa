"""A sink task: its thread, its plugins and its consumer. What it does with records is :mod:`worker.sink.loop`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from connect.errors import ConnectError
from connect.record import TopicPartition
from worker.kafka.sink_consumer import Assignment, ConsumerClosed, RebalanceListener
from worker.model import Stopped, TaskId, TaskProgress
from worker.sink.loop import SinkLoop, SinkParts
from worker.tasks.worker_task import TaskListener, WorkerTask, plugin_details

log = logging.getLogger(__name__)


class SinkWorkerTask(WorkerTask):
    """Runs one sink task."""

    def __init__(
        self,
        task_id: TaskId,
        listener: TaskListener,
        make_parts: Callable[[RebalanceListener], SinkParts],
        interval_s: float,
        timeout_s: float,
        *,
        version: str | None = None,
        paused: bool = False,
    ) -> None:
        """``make_parts`` is called on the task's thread, with who is to hear of rebalances."""
        super().__init__(task_id, listener, version=version, paused=paused)
        self._make_parts = make_parts
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._parts: SinkParts | None = None
        self._started = False
        self._lag: dict[str, int] = {}

    def progress(self) -> TaskProgress:
        parts = self._parts
        if parts is None or not self._started:
            return TaskProgress(self._records, self._bytes)
        lag = dict(self._lag)
        try:
            own = parts.task.lag()
        except Exception as e:
            log.debug("lag() of task %s failed: %s", self.id, e)
            own = None
        for place, behind in (own or {}).items():
            name = str(TopicPartition(*place))
            lag[name] = lag.get(name, 0) + behind
        return TaskProgress(self._records, self._bytes, lag, plugin_details(parts.task), parts.errors.counts)

    def _stop_plugin(self) -> None:
        if self._parts is not None:
            try:
                self._parts.task.stop()
            except BaseException:
                log.exception("stop() of task %s failed", self.id)

    def _cut_off(self) -> None:
        if self._parts is not None:
            self._parts.consumer.cancel()
            self._parts.errors.cancel()

    def _execute(self) -> None:
        rebalance = _Rebalance(self)
        parts = self._parts = self._make_parts(rebalance)
        try:
            if not self.control.stopping:
                self._run_started(parts, rebalance)
        except ConsumerClosed:
            log.info("Task %s was cut off from Kafka", self.id)
        except Stopped:
            log.info("Task %s stops while a record waits to be tried again or reported; it will be read again", self.id)
        finally:
            self._close(parts)

    def _run_started(self, parts: SinkParts, rebalance: _Rebalance) -> None:
        if not parts.errors.open(self.control.wait_for_stop):
            return
        loop = rebalance.loop = SinkLoop(self, parts, self._interval_s, self._timeout_s)
        parts.task.initialize(loop.context)
        parts.task.start(parts.config)
        self._started = True
        loop.raw = loop.context.raw_allowed and parts.task.wants_raw()
        if self.control.is_stopping():
            parts.task.stop()  # the request came before the task could hear it
        self._listener.on_running(self)
        try:
            loop.run()
        finally:
            if not self.cancelled:
                loop.close()

    def _close(self, parts: SinkParts) -> None:
        # A task that was asked to end has waited for its reports before the last commit already.
        parts.errors.close(0.0 if self.cancelled or self.control.stopping else self._timeout_s)
        # The consumer goes first: partitions it still held are given up before the task closes.
        for what in (parts.consumer, parts.task, parts.chain, parts.converters):
            try:
                what.close()
            except Exception:
                log.exception("close() of %s failed in task %s", type(what).__name__, self.id)

    def count(self, records: int, size_bytes: int) -> None:
        self._records += records
        self._bytes += size_bytes

    def tell_topics(self, topics: Collection[str]) -> None:
        if not self.cancelled:
            self._listener.on_topics(self, topics)

    def show_lag(self, lag: dict[str, int]) -> None:
        self._lag = lag

    def on_paused(self) -> None:
        self._listener.on_paused(self)

    def on_resumed(self) -> None:
        self._listener.on_running(self)


class _Rebalance:
    """Passes the consumer's callbacks on to the loop, once there is one."""

    def __init__(self, task: SinkWorkerTask) -> None:
        self._task = task
        self.loop: SinkLoop | None = None

    def on_assigned(self, partitions: list[TopicPartition]) -> Assignment:
        nothing = Assignment({}, partitions)
        if self.loop is None or self._task.cancelled:
            return nothing
        return self.loop.guarded(self.loop.assigned, partitions) or nothing

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        if self.loop is not None and not self._task.cancelled:
            self.loop.guarded(self.loop.revoked, partitions)

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        if self.loop is not None and not self._task.cancelled:
            self.loop.guarded(self.loop.lost, partitions)

    def on_committed(self, offsets: Mapping[TopicPartition, int], error: ConnectError | None) -> None:
        if self.loop is not None:
            self.loop.committed(offsets, error)
