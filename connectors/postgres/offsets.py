"""Positions in the stream of changes, and Debezium's offsets that store them.

The server sends transactions in the order of their commits, each whole. So a position is: which transactions are done, and
how many changes of the one that is not. It is never the LSN of a change: a transaction may write long before another one
commits, and commit long after it, and several changes can share one LSN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PARTITION_KEY = "server"

# Keys of our own beside Debezium's. Debezium reads over them; without them (an offset that Debezium stored) the position inside a
# transaction is found as Debezium does, by LSN.
TX_LSN = "tx_lsn"
TX_EVENTS = "tx_events"


@dataclass(frozen=True, slots=True)
class Position:
    """Transactions whose commit record begins before ``done_lsn`` are done.

    Of the transaction that commits at ``tx_lsn`` the first ``tx_events`` changes are done too. From a Debezium offset instead:
    of the first transaction to come, if its id is ``xid``, the changes up to ``event_lsn``.
    """

    done_lsn: int
    tx_lsn: int = 0
    tx_events: int = 0
    xid: int | None = None
    event_lsn: int = 0


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """What a stored offset means. ``snapshot_completed`` is True for streaming offsets too."""

    position: Position
    snapshot_completed: bool


def source_partition(topic_prefix: str) -> dict[str, str]:
    """The one source partition of a connector."""
    return {PARTITION_KEY: topic_prefix}


def load_offset(offset: Mapping[str, Any]) -> StoredOffset:
    """Reads an offset of ours or of Debezium, of any release since 1.0."""
    lsn = int(offset.get("lsn") or 0)
    in_snapshot = offset.get("snapshot") not in (None, False, "false")
    completed = not in_snapshot or bool(offset.get("last_snapshot_record")) or bool(offset.get("snapshot_completed"))
    done = int(offset.get("lsn_commit") or offset.get("lsn_proc") or lsn)
    if TX_LSN in offset:
        return StoredOffset(Position(done, int(offset[TX_LSN] or 0), int(offset.get(TX_EVENTS) or 0)), completed)
    if in_snapshot:
        return StoredOffset(Position(lsn), completed)
    xid = offset.get("txId")
    processed = int(offset.get("lsn_proc") or 0)
    if offset.get("messageType") in ("BEGIN", "COMMIT") or xid is None or "lsn_commit" not in offset:
        return StoredOffset(Position(min(done, lsn) if lsn else done), True)
    # lsn_proc is where changes are complete; the change at ``lsn`` itself may be half done when it shares its LSN.
    return StoredOffset(Position(done, xid=int(xid), event_lsn=min(processed, lsn) if processed else 0), True)


def snapshot_offset(lsn: int, tx_id: int | None, ts_us: int, *, last: bool) -> dict[str, Any]:
    """The offset of snapshot rows; shared by all of one batch. Only the last row's says that the snapshot is complete."""
    return {
        "ts_usec": ts_us,
        "txId": tx_id,
        "lsn": lsn,
        "snapshot": "INITIAL",
        "last_snapshot_record": last,
        "snapshot_completed": last,
    }


def catch_up_offset(offset: dict[str, Any]) -> dict[str, Any]:
    """A streaming offset of changes that come before a snapshot: stored alone, it still asks for that snapshot."""
    return {**offset, "snapshot": "INITIAL", "last_snapshot_record": False, "snapshot_completed": False}


def parse_lsn(text: str) -> int:
    """``16/B374D848`` as a number."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def format_lsn(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
