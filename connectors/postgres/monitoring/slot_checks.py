"""Judges the state of a slot: what is wrong, and what the user's limits say about it."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.postgres.config import SafetySettings
from connectors.postgres.monitoring.problems import Problem
from connectors.postgres.monitoring.slot_status import SlotStatus
from connectors.postgres.offsets import format_lsn

_INVALIDATIONS = {
    "wal_removed": "because the server removed WAL that it needs (max_slot_wal_keep_size)",
    "rows_removed": "because the server removed catalog rows that it needs (on a standby: set hot_standby_feedback=on)",
    "wal_level_insufficient": "because the primary's wal_level is not logical",
    "idle_timeout": "because it was not read for longer than idle_replication_slot_timeout",
}


@dataclass(frozen=True, slots=True)
class SlotLag:
    """How far a slot is behind the end of the WAL. ``seconds`` is None if it is not known; ``lost_in_s`` if nothing is lost."""

    bytes: int
    seconds: float | None
    retained_bytes: int
    lost_in_s: float | None


def measure(slot: SlotStatus, wal_end: int, age_s: float | None, bytes_per_s: float) -> SlotLag:
    """Measures the lag. ``age_s`` is the age of the slot's position; ``bytes_per_s`` how fast the WAL grows."""
    lost_in_s = None
    if slot.safe_wal_size is not None and bytes_per_s > 0:
        lost_in_s = max(0, slot.safe_wal_size) / bytes_per_s
    return SlotLag(
        max(0, wal_end - slot.confirmed_lsn),
        age_s,
        max(0, wal_end - slot.restart_lsn) if slot.restart_lsn else 0,
        lost_in_s,
    )


def loss_reason(invalidation: str) -> str:
    """Says why a slot is lost, as far as the server tells."""
    return _INVALIDATIONS.get(invalidation, "because it has lost required WAL (max_slot_wal_keep_size)")


def find_problems(name: str, slot: SlotStatus | None, lag: SlotLag | None, settings: SafetySettings) -> list[Problem]:
    """Finds the problems of a slot that may resolve themselves. ``slot`` None: it does not exist."""
    if slot is None or lag is None:
        return [
            Problem("slot_missing", f"replication slot {name} does not exist: changes are lost from now on. Take a new snapshot")
        ]
    if slot.is_lost:
        return [
            Problem(
                "slot_lost",
                f"replication slot {name} is invalid, {loss_reason(slot.invalidation)}: changes since "
                f"{format_lsn(slot.confirmed_lsn)} are lost. Drop the slot and take a new snapshot",
            )
        ]
    return [*_loss_problems(name, slot, lag, settings), *_lag_problems(name, lag, settings)]


def _loss_problems(name: str, slot: SlotStatus, lag: SlotLag, settings: SafetySettings) -> list[Problem]:
    advice = "Let the connector read (is it paused, or behind?), or raise max_slot_wal_keep_size on the server"
    if slot.wal_status == "unreserved":
        return [
            Problem(
                "wal_about_to_be_removed",
                f"the server may remove WAL that replication slot {name} needs at its next checkpoint. {advice}",
            )
        ]
    if lag.lost_in_s is not None and settings.wal_warn_s and lag.lost_in_s < settings.wal_warn_s:
        return [
            Problem(
                "wal_loss_forecast",
                f"in about {_duration(lag.lost_in_s)}, the server will remove WAL that replication slot {name} needs, unless the "
                f"slot moves: {slot.safe_wal_size} bytes are left. {advice}",
            )
        ]
    return []


def _lag_problems(name: str, lag: SlotLag, settings: SafetySettings) -> list[Problem]:
    text = f"replication slot {name} is {lag.bytes} bytes" + (f" and {_duration(lag.seconds)}" if lag.seconds else "") + " behind"
    if settings.limit_action == "warn" and (limit := exceeded_limit(lag, settings)):
        return [Problem("slot_lag_limit", f"{text}: more than {limit}")]
    warn = _exceeded(lag, settings.warn_bytes, settings.warn_s, "slot.lag.warn")
    return [Problem("slot_lag", f"{text}, and retains {lag.retained_bytes} bytes of WAL: more than {warn}")] if warn else []


def exceeded_limit(lag: SlotLag, settings: SafetySettings) -> str | None:
    """Returns the limit that the lag exceeds, or None."""
    return _exceeded(lag, settings.max_bytes, settings.max_s, "slot.lag.max")


def _exceeded(lag: SlotLag, limit_bytes: int, limit_s: float, key: str) -> str | None:
    if limit_bytes and lag.bytes > limit_bytes:
        return f"{key}.bytes={limit_bytes}"
    if limit_s and lag.seconds is not None and lag.seconds > limit_s:
        return f"{key}.ms={limit_s * 1000:g}"
    return None


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"
