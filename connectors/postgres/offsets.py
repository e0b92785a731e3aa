"""Positions in the stream of changes, and Debezium's offsets that store them.

The server sends whole transactions in commit order. So a position consists of the completed transactions and the number of
completed changes of the current one. It is never the LSN of a change: a transaction may write long before another one commits
and commit long after it, and several changes can share one LSN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.cdc.offsets import INCREMENTAL, TRANSACTION_COUNT, TRANSACTION_ID

# Our own keys in addition to Debezium's. Debezium ignores them; without them (an offset stored by Debezium) the position within a
# transaction is found by LSN, as in Debezium.
TX_LSN = "tx_lsn"
TX_EVENTS = "tx_events"
# The server of the position, as IDENTIFY_SYSTEM names it. Offsets have these keys when they are stored, records do not.
SYSTEM_ID = "systemid"
TIMELINE = "timeline"
# The end of the last commit, if the position has moved on without one. Debezium's lsn_commit is the position.
COMMIT_LSN = "last_commit_lsn"
PUBLICATION = "publication"
"""The publication that was read (:mod:`connectors.postgres.streaming.publication_state`)."""
SNAPSHOT_STATE = "snapshot_state"
"""What of an incomplete snapshot is completed: :mod:`connectors.cdc.snapshot.key_ranges`."""


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Transactions whose commit record starts before ``done_lsn`` are completed.

    Of the transaction that commits at ``tx_lsn``, the first ``tx_events`` changes are completed too; no change of a later
    transaction was emitted. From a Debezium offset instead: of the next transaction, if its ID is ``xid``, the changes before
    ``event_lsn`` and the first ``event_count`` at ``event_lsn``: changes can share an LSN.
    """

    done_lsn: int
    tx_lsn: int = 0
    tx_events: int = 0
    xid: int | None = None
    event_lsn: int = 0
    event_count: int = 0
    commit_lsn: int | None = field(default=None, compare=False)
    """The end of the last commit, which begins ``source.sequence``; 0 if there was none, None if it is ``done_lsn``."""


@dataclass(frozen=True, slots=True)
class ServerTimeline:
    """A database cluster and its timeline: LSNs are comparable only within it."""

    systemid: str
    timeline: int


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A parsed offset. ``snapshot_completed`` is True for streaming offsets too; ``server`` is None if the offset lacks it."""

    position: StreamPosition
    snapshot_completed: bool
    server: ServerTimeline | None = None
    tx_id: int | None = None
    snapshot_state: str | None = None
    transaction: Mapping[str, Any] = field(default_factory=dict)
    """The members with the counts of a transaction in progress (``provide.transaction.metadata``)."""
    extras: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The whole offset, for those that add to it."""


def parse_offset(offset: Mapping[str, Any]) -> StoredOffset:
    """Parses an offset stored by Sluice, or by Debezium since 1.0."""
    in_snapshot = offset.get("snapshot") not in (None, False, "false", INCREMENTAL)
    completed = not in_snapshot or bool(offset.get("last_snapshot_record")) or bool(offset.get("snapshot_completed"))
    position = _parse_position(offset, in_snapshot=in_snapshot)
    state = None if completed else offset.get(SNAPSHOT_STATE)
    counts = {name: value for name, value in offset.items() if name == TRANSACTION_ID or name.startswith(TRANSACTION_COUNT)}
    return StoredOffset(position, completed, server_of(offset), offset.get("txId"), state, counts, offset)


def _parse_position(offset: Mapping[str, Any], *, in_snapshot: bool) -> StreamPosition:
    lsn = int(offset.get("lsn") or 0)
    done = int(offset.get("lsn_commit") or offset.get("lsn_proc") or lsn)
    if TX_LSN in offset:
        commit_lsn = offset.get(COMMIT_LSN)
        return StreamPosition(done, int(offset[TX_LSN] or 0), int(offset.get(TX_EVENTS) or 0), commit_lsn=commit_lsn)
    if in_snapshot:
        return StreamPosition(lsn, lsn)
    xid = offset.get("txId")
    processed = int(offset.get("lsn_proc") or 0)
    if offset.get("messageType") in ("BEGIN", "COMMIT") or xid is None or "lsn_commit" not in offset:
        return StreamPosition(min(done, lsn) if lsn else done)
    if not processed:
        return StreamPosition(done, xid=int(xid))
    if processed < lsn:
        return StreamPosition(done, xid=int(xid), event_lsn=processed + 1)
    # Older releases do not count the changes at an LSN: all of them are read again.
    return StreamPosition(done, xid=int(xid), event_lsn=lsn, event_count=int(offset.get("lsn_events_processed") or 0))


def server_of(offset: Mapping[str, Any]) -> ServerTimeline | None:
    """The server of an offset; None if it was not stored with one."""
    if offset.get(SYSTEM_ID) is None:
        return None
    return ServerTimeline(str(offset[SYSTEM_ID]), int(offset.get(TIMELINE) or 0))


def with_server(offset: Mapping[str, Any], server: ServerTimeline | None) -> dict[str, Any]:
    """The offset with its server."""
    return dict(offset) if server is None else {**offset, SYSTEM_ID: server.systemid, TIMELINE: server.timeline}


def confirmable_lsn(offset: Mapping[str, Any]) -> int:
    """The LSN before which no change is needed once this offset is stored; 0 while a snapshot needs all of them."""
    if TX_LSN in offset or offset.get("snapshot_completed") or offset.get("last_snapshot_record"):
        return parse_offset(offset).position.done_lsn
    return 0


def snapshot_offset(lsn: int, tx_id: int | None, ts_us: int, *, last: bool, state: str | None = None) -> dict[str, Any]:
    """The offset of snapshot rows, shared by a batch. Only the offset of the last row marks the snapshot as complete.

    ``state`` says which rows are completed, those with this offset included.
    """
    offset = {
        "ts_usec": ts_us,
        "txId": tx_id,
        "lsn": lsn,
        "snapshot": "INITIAL",
        "last_snapshot_record": last,
        "snapshot_completed": last,
    }
    return {**offset, **_state_members(state)}


def change_offset(
    lsn: int, message_type: str, commit_us: int | None, xid: int | None, done_lsn: int, processed: int, tx_lsn: int, done: int
) -> dict[str, Any]:
    """The offset of a change: ``processed`` changes at its LSN and ``done`` changes of its transaction are completed."""
    return {
        "ts_usec": commit_us,
        "txId": xid,
        "lsn": lsn,
        "lsn_proc": lsn,
        "lsn_commit": done_lsn,
        "messageType": message_type,
        "lsn_events_processed": processed,
        TX_LSN: tx_lsn,
        TX_EVENTS: done,
    }


def catch_up_members(state: str | None) -> dict[str, Any]:
    """More members of the offsets of changes before a snapshot: after a restart, they still require it, from ``state`` on."""
    return {"snapshot": "INITIAL", "last_snapshot_record": False, "snapshot_completed": False, **_state_members(state)}


def _state_members(state: str | None) -> dict[str, Any]:
    return {} if state is None else {SNAPSHOT_STATE: state}


def parse_lsn(text: str) -> int:
    """Parses an LSN such as ``16/B374D848``."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def format_lsn(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
