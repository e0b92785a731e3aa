"""Stalls: a task or connector is RUNNING, or about to be, and does not move.

:func:`find_stall` decides from what a task is doing (:mod:`worker.observability.activity`). Executors check their tasks whenever
they are pinged, so that a worker needs no thread for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from connect.config.definition import ConfigDef
from connect.errors import ConfigError
from worker.config.extension_keys import STALL_KEYS, STALL_QUIET_TIMEOUT, STALL_TIMEOUT
from worker.model import Stall, TaskActivity
from worker.observability.activity import TaskPhase

CALL, RETRIES, OFFSETS, LAG, PENDING, EXECUTOR = "call", "retries", "offsets", "lag", "pending", "executor"
"""The kinds of stalls."""

_KEYS = ConfigDef(STALL_KEYS)
_BOUNDARY_INTERVAL = "transaction.boundary.interval.ms"
_SINK_INTERVALS = ("commit.interval.ms", "flush.interval.ms")
"""Keys of sinks that commit less often than the worker asks them to."""

_CALLS: Mapping[str, str] = {
    TaskPhase.PREPARING: "the task is loading its plugins and creating its Kafka clients",
    TaskPhase.STARTING: "start() has not returned",
    TaskPhase.POLLING: "poll() has not returned",
    TaskPhase.TRANSFORMING: "a transformation or converter has not returned",
    TaskPhase.SENDING: "the Kafka producer takes no records: its queue is full and no broker acknowledges any",
    TaskPhase.FLUSHING: "an offset flush has not ended",
    TaskPhase.CONFIRMING: "commit() has not returned",
    TaskPhase.OPENING: "open() or close_partitions() has not returned",
    TaskPhase.PUTTING: "put() has not returned",
    TaskPhase.PRE_COMMIT: "pre_commit() has not returned",
    TaskPhase.COMMITTING: "a commit of consumer offsets has not ended",
    TaskPhase.STOPPING: "the task ends, and stop() or close() has not returned",
}


@dataclass(frozen=True, slots=True)
class StallSettings:
    """How long a task may not move before it counts as stalled."""

    timeout_ms: int = 45_000
    """0 never reports a stall."""
    quiet_timeout_ms: int = 300_000
    offsets_interval_ms: int = 60_000
    """How often offsets are stored or committed, at least."""

    @classmethod
    def of(cls, config: Mapping[str, str | None], worker: Mapping[str, str], flush_interval_ms: int) -> StallSettings:
        """Reads a connector's keys; the worker's keys of the same names are the defaults. Values that are not valid, as another
        worker may have stored them, are ignored."""
        values = _KEYS.parse({})
        for key in STALL_KEYS:
            given = config.get(key.name) or worker.get(key.name)
            if given is not None:
                try:
                    values[key.name] = ConfigDef((key,)).parse({key.name: given})[key.name]
                except ConfigError:
                    continue
        intervals = [_number(config.get(key)) for key in (_BOUNDARY_INTERVAL, *_SINK_INTERVALS)]
        return cls(values[STALL_TIMEOUT], values[STALL_QUIET_TIMEOUT], max(flush_interval_ms, *intervals))


def find_stall(activity: TaskActivity, settings: StallSettings, *, is_sink: bool) -> Stall | None:
    """Returns the stall of a task, if there is one."""
    if not settings.timeout_ms:
        return None
    long_ms = max(settings.timeout_ms, settings.quiet_timeout_ms)

    def exceeds(since_ms: int | None, limit_ms: int) -> bool:
        return since_ms is not None and activity.at_ms - since_ms > limit_ms

    call = _CALLS.get(activity.phase)
    # A source that has never returned without records may be one that blocks until there are some.
    is_quiet_poll = activity.phase == TaskPhase.POLLING and not activity.polls_return
    if call is not None and exceeds(activity.since_ms, long_ms if is_quiet_poll else settings.timeout_ms):
        return Stall(CALL, activity.phase, activity.since_ms, call)
    since_ms = activity.retrying_since_ms
    if since_ms is not None and exceeds(since_ms, settings.timeout_ms):
        what = "put()" if is_sink else "poll()"
        return Stall(RETRIES, activity.phase, since_ms, f"{what} keeps failing and is repeated: {activity.retry_error}")
    since_ms = activity.pending_since_ms
    if since_ms is not None and activity.phase != TaskPhase.PAUSED and exceeds(since_ms, settings.offsets_interval_ms + long_ms):
        return Stall(PENDING, activity.phase, since_ms, str(activity.pending_work))
    # A sink decides itself when what it was given is durable.
    offsets_ms = settings.offsets_interval_ms + (long_ms if is_sink else settings.timeout_ms)
    since_ms = activity.uncommitted_since_ms
    if since_ms is not None and activity.phase != TaskPhase.PAUSED and exceeds(since_ms, offsets_ms):
        what = "the sink has not let the worker commit offsets" if is_sink else "source offsets are not stored"
        return Stall(OFFSETS, activity.phase, since_ms, f"{what}, although records flow")
    since_ms = activity.lag_grows_since_ms
    lag_ms = long_ms if activity.is_paused_by_sink else settings.timeout_ms
    if since_ms is not None and activity.phase == TaskPhase.WAITING and exceeds(since_ms, lag_ms):
        why = "the sink has paused its partitions" if activity.is_paused_by_sink else "the consumer delivers none of them"
        return Stall(LAG, activity.phase, since_ms, f"records arrive in the sink's topics, and {why}")
    return None


def find_connector_stall(method: str, since_ms: int, at_ms: int, settings: StallSettings) -> Stall | None:
    """Returns the stall of a connector whose method is being called since then."""
    if not settings.timeout_ms or at_ms - since_ms <= settings.timeout_ms:
        return None
    return Stall(CALL, method, since_ms, f"{method}() of the connector has not returned")


def executor_stall(since_ms: int) -> Stall:
    """Returns the stall of everything in an executor process that does not respond."""
    message = "its executor process does not respond: code of a connector blocks it, as a library that holds the GIL does"
    return Stall(EXECUTOR, EXECUTOR, since_ms, message)


def instant(ms: int) -> str:
    """Returns a time for people, as 2026-11-26T08:00:00Z."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.strip().isdecimal() else 0
