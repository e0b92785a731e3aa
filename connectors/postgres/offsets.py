"""Positions in the stream of changes, and Debezium's offsets that store them.

The server sends whole transactions in commit order. So a position consists of the completed transactions and the number of
completed changes of the current one. It is never the LSN of a change: a transaction may write long before another one commits
and commit long after it, and several changes can share one LSN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PARTITION_KEY = "server"

# Our own keys in addition to Debezium's. Debezium ignores them; without them (an offset stored by Debezium) the position within a
# transaction is found by LSN, as in Debezium.
TX_LSN = "tx_lsn"
TX_EVENTS = "tx_events"


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Transactions whose commit record starts before ``done_lsn`` are completed.

    Of the transaction that commits at ``tx_lsn``, the first ``tx_events`` changes are completed too. From a Debezium offset
    instead: of the next transaction, if its ID is ``xid``, the changes up to ``event_lsn``.
    """

    done_lsn: int
    tx_lsn: int = 0
    tx_events: int = 0
    xid: int | None = None
    event_lsn: int = 0


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """A parsed offset. ``snapshot_completed`` is True for streaming offsets too."""

    position: StreamPosition
    snapshot_completed: bool


def source_partition(topic_prefix: str) -> dict[str, str]:
    """The source partition of a connector."""
    return {PARTITION_KEY: topic_prefix}


def parse_offset(offset: Mapping[str, Any]) -> StoredOffset:
    """Parses an offset stored by Sluice, or by Debezium since 1.0."""
    lsn = int(offset.get("lsn") or 0)
    in_snapshot = offset.get("snapshot") not in (None, False, "false")
    completed = not in_snapshot or bool(offset.get("last_snapshot_record")) or bool(offset.get("snapshot_completed"))
    done = int(offset.get("lsn_commit") or offset.get("lsn_proc") or lsn)
    if TX_LSN in offset:
        return StoredOffset(StreamPosition(done, int(offset[TX_LSN] or 0), int(offset.get(TX_EVENTS) or 0)), completed)
    if in_snapshot:
        return StoredOffset(StreamPosition(lsn), completed)
    xid = offset.get("txId")
    processed = int(offset.get("lsn_proc") or 0)
    if offset.get("messageType") in ("BEGIN", "COMMIT") or xid is None or "lsn_commit" not in offset:
        return StoredOffset(StreamPosition(min(done, lsn) if lsn else done), True)
    # Changes up to lsn_proc are complete; the change at ``lsn`` may be incomplete if it shares its LSN.
    return StoredOffset(StreamPosition(done, xid=int(xid), event_lsn=min(processed, lsn) if processed else 0), True)


def snapshot_offset(lsn: int, tx_id: int | None, ts_us: int, *, last: bool) -> dict[str, Any]:
    """The offset of snapshot rows, shared by a batch. Only the offset of the last row marks the snapshot as complete."""
    return {
        "ts_usec": ts_us,
        "txId": tx_id,
        "lsn": lsn,
        "snapshot": "INITIAL",
        "last_snapshot_record": last,
        "snapshot_completed": last,
    }


def catch_up_offset(offset: dict[str, Any]) -> dict[str, Any]:
    """A streaming offset of changes before a snapshot: after a restart it still requires that snapshot."""
    return {**offset, "snapshot": "INITIAL", "last_snapshot_record": False, "snapshot_completed": False}


def parse_lsn(text: str) -> int:
    """Parses an LSN such as ``16/B374D848``."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def format_lsn(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
