"""pgoutput messages round-trip through the encoder below, with the plain decoder and the generated ones."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import DataError
from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import parse_config
from connectors.postgres.schema.catalog import CapturedColumn, CapturedTable
from connectors.postgres.schema.row_decoder import NullInRequiredError, TableRows
from connectors.postgres.streaming import pgoutput
from connectors.postgres.types.catalog_type import CatalogType

uint32 = st.integers(0, 2**32 - 1)
uint64 = st.integers(0, 2**63 - 1)
names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
values = st.one_of(st.none(), st.just(pgoutput.UNCHANGED), st.binary(max_size=300))
tuples = st.lists(values, max_size=12)


def string(text: str) -> bytes:
    return text.encode() + b"\0"


def encode_tuple(tuple_: list[Any]) -> bytes:
    parts = [struct.pack("!H", len(tuple_))]
    for value in tuple_:
        if value is None:
            parts.append(b"n")
        elif value is pgoutput.UNCHANGED:
            parts.append(b"u")
        else:
            parts.append(b"t" + struct.pack("!I", len(value)) + value)
    return b"".join(parts)


def encode(message: pgoutput.Message, xid: int | None = None) -> bytes:
    """The bytes of a message, by the manual; ``xid`` for those inside a version 2 stream."""
    inside = b"" if xid is None else struct.pack("!I", xid)
    epoch = pgoutput.POSTGRES_EPOCH_US
    match message:
        case pgoutput.Begin(lsn, us, tx):
            return b"B" + struct.pack("!QqI", lsn, us - epoch, tx)
        case pgoutput.Commit(lsn, end, us):
            return b"C" + struct.pack("!BQQq", 0, lsn, end, us - epoch)
        case pgoutput.Origin(lsn, name):
            return b"O" + struct.pack("!Q", lsn) + string(name)
        case pgoutput.Relation(oid, schema, name, identity, columns):
            head = b"R" + inside + struct.pack("!I", oid) + string(schema) + string(name) + identity.encode()
            return head + struct.pack("!H", len(columns)) + b"".join(
                struct.pack("!B", c.is_key) + string(c.name) + struct.pack("!Ii", c.type_oid, c.typmod) for c in columns
            )  # fmt: skip
        case pgoutput.TypeName(oid, schema, name):
            return b"Y" + inside + struct.pack("!I", oid) + string(schema) + string(name)
        case pgoutput.Insert(relation, new):
            return b"I" + inside + struct.pack("!I", relation) + b"N" + encode_tuple(new)
        case pgoutput.Update(relation, old, old_is_key, new):
            before = b"" if old is None else (b"K" if old_is_key else b"O") + encode_tuple(old)
            return b"U" + inside + struct.pack("!I", relation) + before + b"N" + encode_tuple(new)
        case pgoutput.Delete(relation, old, old_is_key):
            return b"D" + inside + struct.pack("!I", relation) + (b"K" if old_is_key else b"O") + encode_tuple(old)
        case pgoutput.Truncate(relations, cascade, restart):
            head = b"T" + inside + struct.pack("!IB", len(relations), cascade | restart << 1)
            return head + b"".join(struct.pack("!I", r) for r in relations)
        case pgoutput.LogicalMessage(transactional, lsn, prefix, content):
            head = b"M" + inside + struct.pack("!BQ", transactional, lsn) + string(prefix)
            return head + struct.pack("!I", len(content)) + content
        case pgoutput.StreamStart(tx, first):
            return b"S" + struct.pack("!IB", tx, first)
        case pgoutput.StreamStop():
            return b"E"
        case pgoutput.StreamCommit(tx, lsn, end, us):
            return b"c" + struct.pack("!IBQQq", tx, 0, lsn, end, us - epoch)
        case pgoutput.StreamAbort(tx, sub):
            return b"A" + struct.pack("!II", tx, sub)


times = st.integers(-(2**61), 2**61)
outside = st.one_of(
    st.builds(pgoutput.Begin, uint64, times, uint32),
    st.builds(pgoutput.Commit, uint64, uint64, times),
    st.builds(pgoutput.Origin, uint64, names),
    st.builds(pgoutput.StreamStart, uint32, st.booleans()),
    st.just(pgoutput.StreamStop()),
    st.builds(pgoutput.StreamCommit, uint32, uint64, uint64, times),
    st.builds(pgoutput.StreamAbort, uint32, uint32),
)
relation_columns = st.builds(pgoutput.RelationColumn, st.booleans(), names, uint32, st.integers(-1, 2**31 - 1))
changes = st.one_of(
    st.builds(
        pgoutput.Relation,
        uint32,
        names.filter(bool),
        names,
        st.sampled_from("dfni"),
        st.lists(relation_columns, max_size=9).map(tuple),
    ),
    st.builds(pgoutput.TypeName, uint32, names, names),
    st.builds(pgoutput.Insert, uint32, tuples),
    st.builds(
        lambda r, old, key, new: pgoutput.Update(r, old, key and old is not None, new),
        uint32,
        st.none() | tuples,
        st.booleans(),
        tuples,
    ),
    st.builds(pgoutput.Delete, uint32, tuples, st.booleans()),
    st.builds(pgoutput.Truncate, st.lists(uint32, max_size=5).map(tuple), st.booleans(), st.booleans()),
    st.builds(pgoutput.LogicalMessage, st.booleans(), uint64, names, st.binary(max_size=100)),
)


@given(outside | changes)
def test_every_message_round_trips(message: pgoutput.Message) -> None:
    assert pgoutput.decode(encode(message)) == message


@given(changes, uint32)
def test_changes_inside_a_stream_carry_a_transaction_id(message: pgoutput.Message, xid: int) -> None:
    assert pgoutput.decode(encode(message, xid), in_stream=True) == message


@given(outside | changes, st.data())
def test_a_truncated_message_is_an_error_or_another_message(message: pgoutput.Message, data: st.DataObject) -> None:
    whole = encode(message)
    part = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with contextlib.suppress(DataError):
        assert pgoutput.decode(part) != message


@given(tuples)
def test_skip_tuple_ends_where_the_tuple_ends(tuple_: list[Any]) -> None:
    encoded = encode_tuple(tuple_)
    assert pgoutput.skip_tuple(b"xx" + encoded + b"N", 2) == 2 + len(encoded)


SETTINGS = parse_config({"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d"})
INT, TEXT = 23, 25
TYPES = {INT: CatalogType(INT, "pg_catalog", "int4", "b", 0, 0, -1), TEXT: CatalogType(TEXT, "pg_catalog", "text", "b", 0, 0, -1)}


def rows_of(columns: list[CapturedColumn], key: tuple[str, ...] = ()) -> TableRows:
    table = CapturedTable(1, "public", "t", tuple(columns), key, "d", "r", -1)
    return TableRows(table, TYPES, SETTINGS, Filters(SETTINGS.capture))


def generated(rows: TableRows, tuple_: list[Any], *, key_only: bool = False) -> list[Any]:
    data = b"h" * 5 + encode_tuple(tuple_)
    decode = rows.decode_key_only if key_only else rows.decode_new
    try:
        return decode(data, 7)
    except struct.error:
        return decode(pgoutput.pad_message(data), 7)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@given(st.lists(st.one_of(st.none(), st.just(pgoutput.UNCHANGED), texts), min_size=1, max_size=9), st.data())
def test_generated_decoders_agree_with_the_plain_decoder(row: list[Any], data: st.DataObject) -> None:
    rows = rows_of([CapturedColumn(f"c{i}", TEXT, -1, False, None) for i in range(len(row))])
    sent = [value.encode() if isinstance(value, str) else value for value in row]
    expected = [SETTINGS.types.placeholder if value is pgoutput.UNCHANGED else value for value in row]
    assert generated(rows, sent) == expected


@given(st.integers(-(2**31), 2**31 - 1), st.none() | texts)
def test_old_keys_fill_required_columns_with_zero(key: int, text: str | None) -> None:
    rows = rows_of([CapturedColumn("id", INT, -1, True, None), CapturedColumn("t", TEXT, -1, True, None)], ("id",))
    sent = [str(key).encode(), None if text is None else text.encode()]
    assert generated(rows, sent, key_only=True) == [key, "" if text is None else text]
    if text is None:
        with pytest.raises(NullInRequiredError) as raised:
            generated(rows, sent)
        assert raised.value.column == "t"
