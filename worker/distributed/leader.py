"""The leader's duties: assigning connectors and tasks, writing task configurations, and fencing producers of earlier tasks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from connect import crash_points
from connect.errors import FencedError, IllegalStateError, NotFoundError
from worker.config.distributed_config import DistributedSettings, ExactlyOnce
from worker.distributed.herder_loop import HerderLoop
from worker.group.assignor import IncrementalCooperativeAssignor, owner_urls
from worker.group.eager_assignor import assign_eagerly
from worker.group.protocol import Assignment, Protocol, WorkerMetadata
from worker.model import TaskId
from worker.storage.config_store import ConfigStore

T = TypeVar("T")

log = logging.getLogger(__name__)

FenceProducers = Callable[[str, Sequence[str]], None]
"""Fences the producers of a connector that have these transactional IDs. Blocks; raises ConnectError."""


class Leader:
    """:meth:`assign` runs on the group's thread, everything else on the herder's."""

    def __init__(
        self, settings: DistributedSettings, store: ConfigStore, fence_producers: FenceProducers, pool: ThreadPoolExecutor
    ) -> None:
        self._settings = settings
        self._store = store
        self._fence_producers = fence_producers
        self._pool = pool
        self._assignor = IncrementalCooperativeAssignor(settings.rebalance_max_delay_ms, lambda: int(time.monotonic() * 1000))
        self._connector_urls: Mapping[str, str] = {}
        self._task_urls: Mapping[TaskId, str] = {}
        self.member_urls: frozenset[str] = frozenset()
        """The URLs of the workers in the last rebalance that this worker led. Any thread may read them."""
        self._may_write = False
        self._fencing: dict[str, Future[None]] = {}

    # --- assigning

    def assign(
        self,
        members: Mapping[str, WorkerMetadata],
        protocol: Protocol,
        leader_id: str,
        *,
        generation: int,
        last_completed_generation: int,
    ) -> Mapping[str, Assignment]:
        """Assigns connectors and tasks to the members, and remembers their owners."""
        config = self._store.snapshot()
        if protocol is Protocol.EAGER:
            answers = assign_eagerly(members, leader_id=leader_id, config=config, fresh_config=self._store.snapshot)
        else:
            answers = self._assignor.assign(
                members,
                leader_id=leader_id,
                protocol=protocol,
                config=config,
                fresh_config=self._store.snapshot,
                generation=generation,
                last_completed_generation=last_completed_generation,
            )
        self._connector_urls, self._task_urls = owner_urls(members, answers)
        self.member_urls = frozenset(member.url for member in members.values())
        return answers

    def owner_url(self, instance: str | TaskId) -> str | None:
        """Returns the URL of the worker that got an instance in the last rebalance, or None."""
        return self._connector_urls.get(instance) if isinstance(instance, str) else self._task_urls.get(instance)

    # --- writing

    def take_over(self) -> None:
        """Claims the config topic after a rebalance that made this worker the leader. Raises ConnectError when that fails."""
        if self._settings.exactly_once is not ExactlyOnce.DISABLED and not self._may_write:
            self._store.claim_write_privileges()
            self._may_write = True

    def resign(self) -> None:
        """Gives up the config topic, because another worker leads."""
        self._may_write = False
        self._store.relinquish_write_privileges()

    def write(self, job: Callable[[], T]) -> T:
        """Writes to the config topic, and retries once if another worker led meanwhile. Raises ConnectError."""
        try:
            return job()
        except FencedError as e:
            self._may_write = False
            self.take_over()
            log.info("Reclaimed write access to the config topic: %s", e.message)
            # The job must see what the other leader has written.
            self._store.refresh(self._settings.sync_timeout_ms / 1000)
            return job()

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Writes a connector's new task configurations."""
        self.write(lambda: self._store.put_task_configs(name, [dict(config) for config in configs]))

    # --- fencing (KIP-618)

    def fence(self, name: str, loop: HerderLoop) -> Future[None]:
        """Fences all producers of earlier tasks of a connector. Concurrent calls for a connector share one fencing."""
        running = self._fencing.get(name)
        if running is not None and not running.done():
            return running
        outcome = self._fencing[name] = Future()
        try:
            self._start_fencing(name, loop, outcome)
        except Exception as e:
            outcome.set_exception(e)
        return outcome

    def _start_fencing(self, name: str, loop: HerderLoop, outcome: Future[None]) -> None:
        state = self._store.snapshot()
        if not state.contains(name):
            raise NotFoundError(f"Connector {name} not found")
        if not state.pending_fencing(name):
            outcome.set_result(None)
            return
        before, now, generation = state.task_count_record(name), state.task_count(name), state.task_generation(name)
        # A single task that follows a single task takes over its predecessor's transactional ID, which fences it.
        is_needless = not before or (before == 1 and now == 1)
        ids = () if is_needless else tuple(f"{self._settings.group_id}-{name}-{number}" for number in range(before or 0))
        prepared = self._pool.submit(self._prepare_count, name, ids)

        def finish() -> None:
            error = prepared.exception()
            if error is not None:
                outcome.set_exception(error)
                return
            if ids:
                crash_points.point("cluster.fenced")
            try:
                self.write(lambda: self._count_tasks(name, generation))
            except Exception as e:
                outcome.set_exception(e)
            else:
                outcome.set_result(None)

        prepared.add_done_callback(lambda _: loop.post(finish))

    def _prepare_count(self, name: str, ids: Sequence[str]) -> None:
        """Runs outside the herder's thread, because it waits for brokers."""
        if ids:
            log.info("Fencing %d producers of earlier tasks of connector %s", len(ids), name)
            self._fence_producers(name, ids)
        self._store.refresh(self._settings.sync_timeout_ms / 1000)

    def _count_tasks(self, name: str, generation: int | None) -> None:
        state = self._store.snapshot()
        if state.task_generation(name) != generation:
            raise IllegalStateError("Failed to complete zombie fencing because a new set of task configs was generated")
        self._store.put_task_count_record(name, state.task_count(name))
