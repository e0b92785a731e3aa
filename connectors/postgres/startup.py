"""Decides how a task starts or continues, from the configuration, its position, and the state of the server.

How snapshot and streaming join, by the state at the start (snapshot.mode=initial):

- No offset is stored, or the stored snapshot is incomplete, and the slot does not exist: create the slot with an exported
  snapshot, read the rows as of its start, then stream from it.
- The same, but the slot exists: an earlier attempt created it. Its rows may be in the topics already, and rows deleted since then
  would stay there forever if the slot were recreated. So stream first, up to the start of a temporary slot; then read the rows as
  of that start, then stream from there. Earlier commits precede the rows, later commits follow them. Rows that the attempt has
  completed are not read again: the stream has brought them up to the same point.
- An offset is stored and the slot exists: continue streaming.
- An offset is stored, but the server does not have the changes after it: the slot does not exist, has lost WAL, or is ahead of
  the offset, or the server is another one. Fail, because changes are missing. With when_needed, take a new snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from connectors.cdc.errors import PositionLostError
from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import PostgresConfig
from connectors.postgres.connection import Connection
from connectors.postgres.monitoring.publication_watch import PublicationWatch
from connectors.postgres.monitoring.slot_checks import loss_reason
from connectors.postgres.offsets import ServerTimeline, StreamPosition, format_lsn
from connectors.postgres.streaming.server import ServerState
from connectors.postgres.streaming.slots import ReplicationSlot

log = logging.getLogger(__name__)


class StartAction(Enum):
    """The first step of a connection."""

    SNAPSHOT = "create the slot and read the rows as of its start"
    CATCH_UP = "stream up to the start of a temporary slot, then read the rows as of that"
    CREATE_SLOT = "create the slot and stream from it"
    STREAM = "stream"


@dataclass(frozen=True, slots=True)
class TaskPosition:
    """Where a task is. ``server`` is the one that the position belongs to, None if unknown."""

    position: StreamPosition
    server: ServerTimeline | None


@dataclass(frozen=True, slots=True)
class StartPlan:
    """How to start. ``position`` None means the slot's. ``warning`` says what is given up, if anything."""

    action: StartAction
    position: StreamPosition | None
    drop_slot: bool = False
    warning: str | None = None


def needs_snapshot(mode: str, *, snapshot_completed: bool | None) -> bool:
    """Whether ``snapshot.mode`` asks for a snapshot. ``snapshot_completed`` is that of the stored offset, None without one."""
    return mode == "always" or (mode != "no_data" and not snapshot_completed)


def plan_start(
    settings: PostgresConfig,
    known: TaskPosition | None,
    slot: ReplicationSlot | None,
    server: ServerState,
    ancestors: Mapping[int, int],
    *,
    wants_snapshot: bool,
) -> StartPlan:
    """Plans the start. ``ancestors`` are the server's earlier timelines with the LSN at which it left each.

    Raises PositionLostError if changes are missing and the mode does not allow a new snapshot.
    """
    slot_lost = slot is not None and slot.wal_status == "lost"
    problem, position, warning = None, None, None
    if slot is not None and slot_lost:
        problem = (
            f"replication slot {slot.name} is invalid, {loss_reason(slot.invalidation)}: changes since "
            f"{format_lsn(slot.confirmed_lsn)} are lost"
        )
    elif known is not None:
        try:
            position, warning = _check_position(settings, known, slot, server, ancestors)
        except PositionLostError as e:
            problem = e.message
    if problem is not None and settings.snapshot.mode != "when_needed" and (slot_lost or not wants_snapshot):
        first = "Drop the slot, then take" if slot_lost else "Take"
        raise PositionLostError(
            f"{problem}. {first} a new snapshot: snapshot.mode=when_needed does it, or reset the connector's offsets"
        )
    if problem is not None or wants_snapshot:
        if problem is not None:
            warning = f"{problem}; taking a new snapshot"
        action = StartAction.SNAPSHOT if slot is None or slot_lost else StartAction.CATCH_UP
        return StartPlan(action, position, drop_slot=slot_lost, warning=warning)
    action = StartAction.CREATE_SLOT if slot is None else StartAction.STREAM
    return StartPlan(action, position, warning=warning)


def find_publication_loss(
    settings: PostgresConfig,
    publication: PublicationWatch,
    server: ServerState,
    known: TaskPosition | None,
    *,
    resumes: bool,
) -> str | None:
    """Says which changes are missing because the publication was dropped, if a new snapshot replaces them; None if nothing is
    missing, or the user accepts it. ``resumes``: without the loss, rows that were read are not read again.

    Raises PositionLostError if nothing may replace the changes.
    """
    if known is None or (known.server is not None and known.server.systemid != server.timeline.systemid):
        publication.forget()
        return None
    loss = publication.find_loss(settings.address)
    if loss is None or not resumes:
        return loss
    if settings.slot.mismatch_strategy in ("trust_slot", "no_validation"):
        log.warning("%s; continuing without the changes that were not published", loss)
        return None
    if settings.snapshot.mode != "when_needed":
        raise PositionLostError(
            f"{loss}, so changes are missing. Take a new snapshot: snapshot.mode=when_needed does it, or reset the connector's "
            "offsets. To continue without these changes, set offset.mismatch.strategy=trust_slot until the task has started"
        )
    return loss


def find_late_tables(
    settings: PostgresConfig, publication: PublicationWatch, connection: Connection, filters: Filters
) -> list[str]:
    """The captured tables (schema.table) that joined a filtered publication after the last stored offset.

    The task may have added them itself, and the request to read their rows was not stored.
    """
    if settings.slot.autocreate != "filtered":
        return []
    return [name for name in publication.find_added(connection) if filters.captures_table(*name.split(".", 1))]


def plan_after_publication_loss(
    loss: str, known: TaskPosition | None, slot: ReplicationSlot | None, *, is_readable: bool
) -> StartPlan:
    """Plans a new snapshot. ``is_readable``: the slot can be read past changes whose publication did not exist."""
    warning = f"{loss}; taking a new snapshot"
    if slot is None or not is_readable:
        return StartPlan(StartAction.SNAPSHOT, None, drop_slot=slot is not None, warning=warning)
    return StartPlan(StartAction.CATCH_UP, known.position if known is not None else None, warning=warning)


def confirmable_at_start(
    settings: PostgresConfig, plan: StartPlan, known: TaskPosition | None, slot: ReplicationSlot | None, tracked_lsn: int | None
) -> int:
    """The LSN up to which the server may discard WAL. ``tracked_lsn`` is that of the connection before, None at the first start.

    Promise 1: what was confirmed for a position that is given up says nothing about the new one.
    """
    lsn = slot.confirmed_lsn if slot is not None else 0
    if known is None or plan.position is None or plan.position != known.position:
        return lsn
    if tracked_lsn is not None:
        return max(lsn, tracked_lsn)
    if settings.slot.mismatch_strategy in ("trust_offset", "trust_greater_lsn"):
        return max(lsn, plan.position.done_lsn)  # the offset is stored
    return lsn


def _check_position(
    settings: PostgresConfig,
    known: TaskPosition,
    slot: ReplicationSlot | None,
    server: ServerState,
    ancestors: Mapping[int, int],
) -> tuple[StreamPosition, str | None]:
    """Returns the position to continue from and a warning. Raises PositionLostError if the server lacks changes after it."""
    position, address, strategy = known.position, settings.address, settings.slot.mismatch_strategy
    at, warning = format_lsn(position.done_lsn), None
    if slot is None:
        raise PositionLostError(
            f"replication slot {settings.slot.name} does not exist on PostgreSQL at {address}, but changes up to {at} were read: "
            "later changes are lost"
        )
    if known.server is not None and strategy != "no_validation":
        position, warning = _check_timeline(known.server, position, slot, server, ancestors, str(address))
    if position.done_lsn > server.lsn:
        raise PositionLostError(
            f"the stored offset is at {at}, but PostgreSQL at {address} is only at {format_lsn(server.lsn)}: "
            "it is not the database that was read before (a restore, another server?)"
        )
    if slot.confirmed_lsn <= position.done_lsn or strategy == "no_validation":
        return position, warning
    ahead = (
        f"replication slot {slot.name} on PostgreSQL at {address} is at {format_lsn(slot.confirmed_lsn)}, ahead of the stored "
        f"offset at {at}"
    )
    # Earlier releases and Debezium can confirm positions that they do not store.
    is_exact = known.server is not None or settings.slot.mismatch_strategy_is_set
    if strategy == "trust_offset" and is_exact:
        raise PositionLostError(
            f"{ahead}: it was recreated or advanced, and changes in between are lost. To skip them, set "
            "offset.mismatch.strategy=trust_slot"
        )
    return replace(position, done_lsn=slot.confirmed_lsn), f"{ahead}; changes in between are skipped"


def _check_timeline(
    origin: ServerTimeline,
    position: StreamPosition,
    slot: ReplicationSlot,
    server: ServerState,
    ancestors: Mapping[int, int],
    address: str,
) -> tuple[StreamPosition, str | None]:
    """Checks that the server's WAL contains the position: it is the same server, or one that branched off later."""
    current = server.timeline
    if origin == current:
        return position, None
    if origin.systemid != current.systemid:
        raise PositionLostError(
            f"the stored offset belongs to the database cluster with system identifier {origin.systemid}, but that of PostgreSQL "
            f"at {address} is {current.systemid}: it is not the database that was read before"
        )
    fork = ancestors.get(origin.timeline)
    if fork is None:
        raise PositionLostError(
            f"the stored offset is on timeline {origin.timeline}, but PostgreSQL at {address} is on timeline {current.timeline}, "
            "which did not branch off from it: changes that were read may not exist there, and others may be missing"
        )
    if position.done_lsn <= fork and position.tx_lsn < fork:
        return position, None
    if position.tx_lsn < fork and slot.confirmed_lsn <= fork:
        # Nothing that was emitted lies behind the fork, only WAL without captured changes: read the new timeline from there.
        return replace(position, done_lsn=fork), (
            f"PostgreSQL at {address} left timeline {origin.timeline} at {format_lsn(fork)}; continuing from there"
        )
    raise PositionLostError(
        f"PostgreSQL at {address} left timeline {origin.timeline} at {format_lsn(fork)} (a failover?), but changes up to "
        f"{format_lsn(max(position.done_lsn, position.tx_lsn))} were read: those after the switch do not exist there, and others "
        "may be missing"
    )
