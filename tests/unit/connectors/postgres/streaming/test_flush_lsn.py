"""Which offsets are stored, and the LSN up to which the server may discard WAL."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from connectors.postgres.offsets import ServerTimeline, parse_offset, server_of, with_server
from connectors.postgres.streaming.flush_lsn import FlushTracker

PARTITION = {"server": "shop"}
A, B = ServerTimeline("7001", 1), ServerTimeline("7002", 1)


def change(commit_lsn: int, tx_lsn: int, events: int) -> dict[str, Any]:
    """The offset of a record."""
    return {"lsn": tx_lsn - 5, "lsn_commit": commit_lsn, "tx_lsn": tx_lsn, "tx_events": events}


def position(done_lsn: int, tx_lsn: int = 0, events: int = 0) -> dict[str, Any]:
    """The offset of the stream's position."""
    return {"lsn": done_lsn, "lsn_commit": done_lsn, "messageType": "COMMIT", "tx_lsn": tx_lsn, "tx_events": events}


def started(server: ServerTimeline = A, confirmed_lsn: int = 100) -> FlushTracker:
    tracker = FlushTracker(PARTITION)
    tracker.start(server, confirmed_lsn)
    return tracker


def flush(tracker: FlushTracker, sent: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """The worker stores the offset of the last sent record, if any, and what the tracker adds. Returns what it stored."""
    offsets = [] if sent is None else [(PARTITION, sent)]
    chosen = list(tracker.update_offsets(offsets)) or offsets
    tracker.offsets_stored(chosen)
    return dict(chosen[0][1]) if chosen else None


def test_the_position_after_a_transaction_is_stored_instead_of_its_last_record() -> None:
    tracker = started()
    tracker.polled(change(100, 200, 3), position(210, 200, 3))
    assert tracker.confirmed_lsn == 100
    assert flush(tracker, change(100, 200, 3)) == with_server(position(210, 200, 3), A)
    assert tracker.confirmed_lsn == 210


def test_a_position_is_stored_without_records_once_it_has_moved() -> None:
    tracker = started()
    tracker.polled(None, position(300))
    assert flush(tracker) == with_server(position(300), A)
    assert tracker.confirmed_lsn == 300
    assert flush(tracker) is None
    tracker.polled(None, position(310))
    assert tracker.confirmed_lsn == 300
    assert flush(tracker) is not None
    assert tracker.confirmed_lsn == 310


def test_a_position_is_not_stored_before_all_records_are_sent() -> None:
    """Promise 1: a task that stops may have sent a part of a batch, or nothing of it."""
    tracker = started()
    tracker.polled(change(100, 200, 3), position(210, 200, 3))
    assert flush(tracker) is None
    assert flush(tracker, change(100, 200, 2)) == with_server(change(100, 200, 2), A)
    assert tracker.confirmed_lsn == 100
    assert flush(tracker) is None


def test_inside_a_transaction_the_offset_of_the_last_record_is_stored() -> None:
    tracker = started()
    tracker.polled(change(150, 200, 3), None)
    assert flush(tracker, change(150, 200, 3)) == with_server(change(150, 200, 3), A)
    assert tracker.confirmed_lsn == 150


def test_an_offset_that_could_not_be_stored_is_tried_again() -> None:
    tracker = started()
    tracker.polled(change(100, 200, 3), position(210, 200, 3))
    ((_, failed),) = tracker.update_offsets([(PARTITION, change(100, 200, 3))])
    tracker.polled(None, position(300, 200, 3))
    assert flush(tracker, dict(failed)) == with_server(position(300, 200, 3), A)
    assert tracker.confirmed_lsn == 300


def test_rows_of_a_snapshot_are_confirmed_after_the_last_one() -> None:
    tracker = started()
    row = {"lsn": 500, "snapshot": "INITIAL", "last_snapshot_record": False, "snapshot_completed": False}
    last = {**row, "last_snapshot_record": True, "snapshot_completed": True}
    tracker.polled(row, None)
    flush(tracker, row)
    assert tracker.confirmed_lsn == 100
    tracker.polled(last, None)
    flush(tracker, last)
    assert tracker.confirmed_lsn == 500


def test_offsets_of_another_server_confirm_nothing() -> None:
    """Promise 1: after a change of the server, the last records of the previous one may still be pending, at any LSN."""
    tracker = started()
    tracker.polled(change(9_000, 9_500, 3), position(9_600, 9_500, 3))
    tracker.start(B, 120)
    assert tracker.confirmed_lsn == 120
    stored = flush(tracker, change(9_000, 9_500, 3))
    assert stored is not None
    assert server_of(stored) == A
    assert tracker.confirmed_lsn == 120
    tracker.polled(change(120, 200, 1), position(210, 200, 1))
    assert tracker.confirmed_lsn == 120
    flush(tracker, change(120, 200, 1))
    assert tracker.confirmed_lsn == 210


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["send", "part", "nothing"]), st.booleans()), max_size=25))
def test_the_slot_is_never_ahead_of_the_stored_offset(polls: list[tuple[int, str, bool]]) -> None:
    """Promise 1, for any order of polls with records, partly sent batches, and flushes."""
    tracker = started(confirmed_lsn=100)
    lsn = done_lsn = stored_lsn = acknowledged_lsn = 100
    pending: dict[str, Any] | None = None
    for records, sends, flushes in polls:
        lsn += 10
        complete = sends == "send" or not records
        if records:
            latest = change(done_lsn, lsn, records)
            tracker.polled(latest, position(lsn + 5, lsn, records))
            if complete:
                pending = latest
            elif sends == "part" and records > 1:
                pending = change(done_lsn, lsn, records - 1)
        else:
            tracker.polled(None, position(lsn + 5))
        done_lsn = lsn + 5
        if complete:
            acknowledged_lsn = done_lsn
        if flushes or not complete:
            if (stored := flush(tracker, pending)) is not None:
                stored_lsn = parse_offset(stored).position.done_lsn
            pending = None
        assert tracker.confirmed_lsn == stored_lsn
        assert stored_lsn <= acknowledged_lsn
        if not complete:
            break  # a task that does not send a whole batch stops


def test_idle_wal_is_confirmed_at_once_if_asked_for_and_all_records_are_stored() -> None:
    tracker = FlushTracker(PARTITION, confirms_idle=True)
    tracker.start(A, 100)
    tracker.polled(None, position(150))
    assert tracker.confirmed_lsn == 150
    tracker.polled(change(150, 200, 1), position(210, 200, 1))
    tracker.polled(None, position(300, 200, 1))
    assert tracker.confirmed_lsn == 150  # the record is not stored
    flush(tracker, change(150, 200, 1))
    tracker.polled(None, None)  # inside a transaction
    assert tracker.confirmed_lsn == 300
    tracker.polled(None, position(400, 200, 1))
    assert tracker.confirmed_lsn == 400
