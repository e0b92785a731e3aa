"""Stored offsets and LSNs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import BadRequestError
from connectors.postgres import PostgresSource
from connectors.postgres.offsets import StreamPosition, format_lsn, parse_lsn, parse_offset, snapshot_offset

BASE = {
    "topic.prefix": "p",
    "database.hostname": "h",
    "database.user": "u",
    "database.password": "s3cret",
    "database.dbname": "d",
}


@given(st.integers(0, 2**64 - 1))
def test_lsn_text_round_trips(lsn: int) -> None:
    assert parse_lsn(format_lsn(lsn)) == lsn


def test_offsets_of_debezium_releases() -> None:
    streaming = {
        "transaction_id": None,
        "lsn_proc": 90,
        "messageType": "UPDATE",
        "lsn_commit": 80,
        "lsn": 95,
        "txId": 777,
        "ts_usec": 1,
    }
    assert parse_offset(streaming).position == StreamPosition(80, xid=777, event_lsn=91)
    counted = {**streaming, "lsn_proc": 95, "lsn_events_processed": 3}
    assert parse_offset(counted).position == StreamPosition(80, xid=777, event_lsn=95, event_count=3)
    older = {**streaming, "lsn_proc": 95}
    assert parse_offset(older).position == StreamPosition(80, xid=777, event_lsn=95)
    assert parse_offset({"lsn": 95, "snapshot": True, "last_snapshot_record": False}).snapshot_completed is False
    assert parse_offset({"lsn": 95, "snapshot": True, "last_snapshot_record": True}).snapshot_completed is True
    assert parse_offset({"lsn": 95, "snapshot": "INCREMENTAL", "snapshot_completed": False}).snapshot_completed is True
    assert parse_offset({"lsn": 95, "txId": 1, "snapshot": "INITIAL", "snapshot_completed": True}) == parse_offset(
        snapshot_offset(95, 1, 2, last=True)
    )
    assert parse_offset(
        {"lsn": 95, "lsn_proc": 95, "lsn_commit": 95, "messageType": "COMMIT", "txId": 7}
    ).position == StreamPosition(95)


def test_alter_offsets_checks_partition_and_position() -> None:
    connector = PostgresSource()
    mine, other = (("server", "p"),), (("server", "q"),)
    assert connector.alter_offsets(BASE, {mine: {"lsn": 5}, other: None})
    wrong: list[dict[Any, Any]] = [
        {other: {"lsn": 5}},
        {mine: {"lsn": "5"}},
        {mine: {}},
        {mine: {"lsn": 5, "tx_lsn": "x"}},
        {mine: {"lsn": 5, "timeline": "1"}},
    ]
    for offsets in wrong:
        with pytest.raises(BadRequestError):
            connector.alter_offsets(BASE, offsets)
