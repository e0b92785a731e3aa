"""The herder's view of its group: the current generation, and whether a rebalance is awaited."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from worker.distributed.config_sync import ConfigSync
from worker.distributed.herder_loop import HerderLoop
from worker.group.events import Assigned
from worker.group.member import GroupMember
from worker.group.protocol import Protocol
from worker.observability.metrics.windows import SampledWindow, WindowSettings
from worker.observability.worker_metrics.worker_view import RebalanceView

_REBALANCES = 50


@dataclass(frozen=True, slots=True)
class GroupGeneration:
    """This worker's generation of the group. Immutable, so any thread may read the current one."""

    number: int = -1
    """-1 outside the group."""
    member_id: str = ""
    leader_id: str = ""
    leader_url: str = ""
    protocol: Protocol | None = None

    @property
    def is_leader(self) -> bool:
        return self.number >= 0 and self.member_id == self.leader_id


class RebalanceTimes:
    """How many rebalances this worker has completed, and how long they took. Written by the herder's thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._window = SampledWindow(WindowSettings())
        self._started_at: float | None = None
        self._completed_at: float | None = None
        self._completed = 0

    def started(self) -> None:
        """This worker awaits a rebalance, unless it did already."""
        if self._started_at is None:
            self._started_at = self._clock()

    def completed(self, joining_since: float | None) -> None:
        """``joining_since`` is when the worker sent its request to join: others may have started the rebalance."""
        now = self._clock()
        self._completed += 1
        if (started_at := joining_since if self._started_at is None else self._started_at) is not None:
            self._window.record((now - started_at) * 1000, now)
        self._started_at, self._completed_at = None, now

    def view(self, generation: GroupGeneration, *, is_rebalancing: bool) -> RebalanceView:
        """Returns the figures of metrics. Any thread."""
        now = self._clock()
        recent, completed_at = self._window.summary(now), self._completed_at
        return RebalanceView(
            "" if generation.protocol is None else generation.protocol.name,
            generation.leader_url,
            generation.number,
            self._completed,
            is_rebalancing,
            recent.maximum,
            recent.average,
            0.0 if completed_at is None else (now - completed_at) * 1000,
        )


class GroupSession:
    """Changed by the herder's thread; properties may be read by any."""

    def __init__(self, member: GroupMember, loop: HerderLoop, config: ConfigSync) -> None:
        self.member = member
        self.current = GroupGeneration()
        self.times = RebalanceTimes()
        self.is_ready = False
        """Whether the worker has joined the group once and runs its share."""
        self._loop = loop
        self._config = config
        self.rebalance_times_ms: deque[int] = deque(maxlen=_REBALANCES)
        """When the last rebalances ended that no new configuration has caused, in ms since 1970."""
        self._awaits_rebalance = True
        self._assigned_offset = -1
        """The offset in the config topic of the last assignment."""
        self._required_offset = -1

    @property
    def is_rebalancing(self) -> bool:
        """Whether the result of a rebalance is awaited."""
        return self._awaits_rebalance or self.member.is_joining

    def rejoin(self, reason: str) -> None:
        """Requests a rebalance that considers the configuration that this worker goes by now."""
        self._awaits_rebalance = True
        self.times.started()
        self._required_offset = max(self._required_offset, self._config.state.offset)
        self.member.request_rejoin(reason)
        self._loop.wake()  # the thread may be about to wait, and joining is its next step

    def joined(self, event: Assigned) -> None:
        """Notes the result of a rebalance."""
        leader_url = event.assignment.leader_url
        if event.assignment.config_offset == self._assigned_offset:
            self.rebalance_times_ms.append(time.time_ns() // 1_000_000)
        self._assigned_offset = event.assignment.config_offset
        self.current = GroupGeneration(event.generation, event.member_id, event.leader_id, leader_url, event.protocol)
        self._awaits_rebalance = False
        self.times.completed(self.member.joining_since)

    def misses_config(self, offset: int) -> bool:
        """Whether a rebalance at this config offset ignored a configuration for which :meth:`rejoin` was called."""
        return offset < self._required_offset

    def revoked(self) -> None:
        """Notes that the current assignment is void until the next rebalance."""
        self.current = replace(self.current, number=-1)
        self._awaits_rebalance = True
        self.times.started()

    def left(self) -> None:
        """Notes that the worker has left the group for good."""
        self.current = GroupGeneration()
