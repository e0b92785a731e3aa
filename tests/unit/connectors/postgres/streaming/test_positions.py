"""Positions in the stream: a restart at any offset continues exactly there, without a server."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.record import SourceRecord
from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import parse_config
from connectors.postgres.offsets import StreamPosition, parse_offset
from connectors.postgres.schema.catalog import CapturedColumn, CapturedTable
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.streaming import pgoutput
from connectors.postgres.streaming.captured_tables import CapturedTables
from connectors.postgres.streaming.event_emitter import ChangeEventEmitter
from connectors.postgres.types.catalog_type import CatalogType

SETTINGS = parse_config(
    {
        "topic.prefix": "p",
        "database.hostname": "h",
        "database.user": "u",
        "database.password": "s3cret",
        "database.dbname": "d",
    }
)
OID, INT4 = 16_500, 23
TABLE = CapturedTable(OID, "public", "t", (CapturedColumn("id", INT4, -1, True, None),), ("id",), "d", "r", -1)
ROWS = TableRows(TABLE, {INT4: CatalogType(INT4, "pg_catalog", "int4", "b", 0, 0, -1, ())}, SETTINGS, Filters(SETTINGS.capture))


class OneTable:
    """Knows the only table."""

    def bind_relation(self, relation: pgoutput.Relation) -> TableRows | None:
        return ROWS

    def capture(self, rows: TableRows) -> None: ...


@dataclass(frozen=True)
class Transaction:
    """Inserts rows, each at an LSN; several may share one."""

    xid: int
    rows: tuple[tuple[int, int], ...]
    commit_lsn: int

    @property
    def end_lsn(self) -> int:
        return self.commit_lsn + 8

    def messages(self) -> list[bytes]:
        begin = b"B" + struct.pack("!QqI", self.commit_lsn, 0, self.xid)
        relation = b"R" + struct.pack("!I", OID) + b"public\0t\0d" + struct.pack("!H", 1)
        relation += struct.pack("!B", 1) + b"id\0" + struct.pack("!Ii", INT4, -1)
        inserts = []
        for lsn, number in self.rows:
            text = str(number).encode()
            inserts.append((lsn, b"I" + struct.pack("!I", OID) + b"N" + struct.pack("!HcI", 1, b"t", len(text)) + text))
        commit = b"C" + struct.pack("!BQQq", 0, self.commit_lsn, self.end_lsn, 0)
        return [
            copy_data(self.commit_lsn, begin),
            copy_data(self.commit_lsn, relation),
            *(copy_data(lsn, insert) for lsn, insert in inserts),
            copy_data(self.end_lsn, commit),
        ]


def copy_data(lsn: int, message: bytes) -> bytes:
    return b"w" + struct.pack("!QQq", lsn, lsn, 0) + message


def new_emitter(position: StreamPosition) -> ChangeEventEmitter:
    return ChangeEventEmitter(SETTINGS, cast(CapturedTables, OneTable()), position, "3.7.0")


def stream(emitter: ChangeEventEmitter, transactions: list[Transaction]) -> None:
    """Sends what the server sends: whole transactions that commit after the position."""
    for transaction in transactions:
        if transaction.end_lsn > emitter.position().done_lsn:
            for message in transaction.messages():
                emitter.on_data(message)


def ids(records: Sequence[SourceRecord]) -> list[int]:
    return [record.key["id"] for record in records]


@st.composite
def workloads(draw: st.DrawFn) -> list[Transaction]:
    """Transactions in commit order, whose changes may be much older than the commit before."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    found, lsn, number = [], 1_000, 0
    for xid, size in enumerate(sizes, 700):
        lsn += 100
        at = draw(st.integers(100, lsn - 10))
        rows = []
        for _ in range(size):
            at += draw(st.sampled_from([0, 0, 1]))
            rows.append((at, number))
            number += 1
        found.append(Transaction(xid, tuple(rows), max(lsn, at + 1)))
        lsn = found[-1].end_lsn
    return found


@given(workloads(), st.data())
def test_a_restart_at_any_record_continues_with_the_next_one(transactions: list[Transaction], data: st.DataObject) -> None:
    """Promise 5."""
    emitter = new_emitter(StreamPosition(50))
    stream(emitter, transactions)
    records = emitter.out
    assert ids(records) == list(range(len(records)))
    at = data.draw(st.integers(0, len(records) - 1))
    offset: Mapping[str, Any] = records[at].source_offset or {}
    again = new_emitter(parse_offset(offset).position)
    stream(again, transactions)
    assert ids(again.out) == list(range(at + 1, len(records)))
    assert [r.source_offset for r in again.out] == [r.source_offset for r in records[at + 1 :]]


@given(workloads(), st.data())
def test_sequences_are_the_same_after_a_restart(transactions: list[Transaction], data: st.DataObject) -> None:
    """Keepalives, which move the position, come when the server likes."""

    def read(emitter: ChangeEventEmitter) -> list[dict[str, Any]]:
        offsets: list[dict[str, Any]] = []
        for transaction in transactions:
            if data.draw(st.booleans()):
                emitter.on_keepalive(transaction.commit_lsn)
                offsets += filter(None, [emitter.offsets.of_position()])
            stream(emitter, [transaction])
        return [*(dict(r.source_offset or {}) for r in emitter.out), *offsets]

    first = new_emitter(StreamPosition(50, commit_lsn=0))
    offsets = read(first)
    expected = {record.key["id"]: record.value["source"]["sequence"] for record in first.out}
    again = new_emitter(parse_offset(data.draw(st.sampled_from(offsets))).position)
    read(again)
    assert all(record.value["source"]["sequence"] == expected[record.key["id"]] for record in again.out)


@given(workloads(), st.data())
def test_debeziums_offset_at_any_record_continues_with_the_next_one(transactions: list[Transaction], data: st.DataObject) -> None:
    emitter = new_emitter(StreamPosition(50))
    stream(emitter, transactions)
    records = emitter.out
    at = data.draw(st.integers(0, len(records) - 1))
    offset = {k: v for k, v in (records[at].source_offset or {}).items() if k not in ("tx_lsn", "tx_events")}
    again = new_emitter(parse_offset(offset).position)
    stream(again, transactions)
    assert ids(again.out) == list(range(at + 1, len(records)))
    # An older release does not count: changes at that LSN come again, and none is lost.
    del offset["lsn_events_processed"]
    older = new_emitter(parse_offset(offset).position)
    stream(older, transactions)
    assert set(range(at + 1, len(records))) <= set(ids(older.out))
    assert set(ids(older.out)) <= set(range(len(records)))


@given(workloads(), st.data())
def test_the_position_between_transactions_continues_with_the_next_one(
    transactions: list[Transaction], data: st.DataObject
) -> None:
    emitter = new_emitter(StreamPosition(50))
    count = data.draw(st.integers(0, len(transactions)))
    stream(emitter, transactions[:count])
    offset = emitter.offsets.of_position()
    assert offset is not None
    assert offset["messageType"] == "COMMIT"
    read = len(emitter.out)
    again = new_emitter(parse_offset(offset).position)
    stream(again, transactions)
    assert ids(again.out) == list(range(read, read + len(again.out)))
    assert read + len(again.out) == sum(len(t.rows) for t in transactions)


FIRST = Transaction(700, ((100, 0), (100, 1), (110, 2)), 200)


def test_inside_a_transaction_only_the_last_record_has_the_position() -> None:
    emitter = new_emitter(StreamPosition(50))
    begin, relation, first, *rest = FIRST.messages()
    emitter.on_data(begin)
    emitter.on_data(relation)
    assert (emitter.offsets.of_position() or {})["lsn_commit"] == 50
    emitter.on_data(first)
    assert emitter.offsets.of_position() is None
    emitter.reset_connection()
    assert emitter.offsets.of_position() is None
    for message in [begin, relation, first, *rest]:
        emitter.on_data(message)
    assert ids(emitter.out) == [0, 1, 2]
    assert (emitter.offsets.of_position() or {})["lsn_commit"] == FIRST.end_lsn


def test_keepalives_move_the_position_outside_of_transactions() -> None:
    emitter = new_emitter(StreamPosition(50))
    stream(emitter, [FIRST])
    emitter.on_keepalive(500)
    offset = emitter.offsets.of_position()
    assert offset is not None
    assert (offset["lsn"], offset["lsn_proc"], offset["lsn_commit"]) == (500, 500, 500)
    assert (offset["tx_lsn"], offset["tx_events"], offset["txId"]) == (200, 3, 700)
    assert parse_offset(offset).position == StreamPosition(500, 200, 3)


@pytest.mark.parametrize(("commit_lsn", "expected"), [(0, '[null,"100"]'), (None, '["50","100"]'), (40, '["40","100"]')])
def test_the_sequence_begins_with_the_last_commit(commit_lsn: int | None, expected: str) -> None:
    """None is known before the start of a slot."""
    emitter = new_emitter(StreamPosition(50, commit_lsn=commit_lsn))
    stream(emitter, [FIRST])
    assert emitter.out[0].value["source"]["sequence"] == expected
