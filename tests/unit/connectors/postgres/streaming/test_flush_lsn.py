"""The LSN up to which the server may discard WAL."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connectors.postgres.streaming.flush_lsn import FlushTracker


def test_confirmed_lsn_follows_stored_offsets() -> None:
    tracker = FlushTracker(100)
    tracker.snapshot_emitted(100)
    tracker.transaction_completed(200, 3, 210)
    tracker.transaction_completed(300, 2, 310)
    tracker.position_passed(400)
    assert tracker.confirmed_lsn == 100
    assert not tracker.offset_stored({"tx_lsn": 200, "tx_events": 2})
    assert tracker.offset_stored({"tx_lsn": 200, "tx_events": 3})
    assert tracker.confirmed_lsn == 210
    assert tracker.offset_stored({"tx_lsn": 300, "tx_events": 2})
    assert tracker.confirmed_lsn == 400
    tracker.position_passed(500)
    assert tracker.confirmed_lsn == 500
    assert tracker.all_stored


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=20))
def test_confirmed_lsn_never_passes_an_unstored_record(transactions: list[tuple[int, bool]]) -> None:
    """Promise 1, for any order of transactions with and without captured changes, and of stored offsets."""
    tracker = FlushTracker(0)
    lsn, last, handed_out = 0, (0, 0), []
    for events, store in transactions:
        lsn += 10
        if events:
            last = (lsn, events)
            handed_out.append(last)
        tracker.transaction_completed(*last, lsn + 5)
        if store and handed_out:
            tracker.offset_stored({"tx_lsn": handed_out[0][0], "tx_events": handed_out[0][1]})
            handed_out.pop(0)
        if handed_out:
            assert tracker.confirmed_lsn <= handed_out[0][0]
        else:
            assert tracker.confirmed_lsn == lsn + 5
