"""The LSN up to which the server may discard WAL."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connectors.postgres.streaming.flush_lsn import FlushTracker


def test_confirmed_lsn_follows_stored_offsets() -> None:
    book = FlushTracker(100)
    book.snapshot_emitted(100)
    book.transaction_completed(200, 3, 210)
    book.transaction_completed(300, 2, 310)
    book.position_passed(400)
    assert book.confirmed_lsn == 100
    assert not book.offset_stored({"tx_lsn": 200, "tx_events": 2})
    assert book.offset_stored({"tx_lsn": 200, "tx_events": 3})
    assert book.confirmed_lsn == 210
    assert book.offset_stored({"tx_lsn": 300, "tx_events": 2})
    assert book.confirmed_lsn == 400
    book.position_passed(500)
    assert book.confirmed_lsn == 500
    assert book.all_stored


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=20))
def test_confirmed_lsn_never_passes_an_unstored_record(transactions: list[tuple[int, bool]]) -> None:
    """Promise 1, for any order of transactions with and without captured changes, and of stored offsets."""
    book = FlushTracker(0)
    lsn, last, handed_out = 0, (0, 0), []
    for events, store in transactions:
        lsn += 10
        if events:
            last = (lsn, events)
            handed_out.append(last)
        book.transaction_completed(*last, lsn + 5)
        if store and handed_out:
            book.offset_stored({"tx_lsn": handed_out[0][0], "tx_events": handed_out[0][1]})
            handed_out.pop(0)
        if handed_out:
            assert book.confirmed_lsn <= handed_out[0][0]
        else:
            assert book.confirmed_lsn == lsn + 5
