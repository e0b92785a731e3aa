"""Compressed transactions of MySQL, and what decompression refuses."""

from __future__ import annotations

import sys

import pytest
import zstandard

from connect.errors import DataError, MissingExtraError
from connectors.mysql.binlog import BinlogDecoder, RowDecoder, RowsEvent, TableMapEvent, TransactionPayload, Xid
from connectors.mysql.binlog.compression import decompress_column
from tests.support.binlog_encoder import event, field, format_description, packed_bytes, packed_int, row, rows_body, table_map

INNER = [table_map([(3, b"")]), event(30, rows_body(row([b"\7\0\0\0"]) * 1000, 1)), event(16, (9).to_bytes(8, "little"))]


SIZE = sum(map(len, INNER))


def payload(content: bytes, *, compression: int = 0, fields: bytes = b"") -> bytes:
    size = field(1, packed_int(len(content))) + field(2, packed_int(compression)) + field(3, packed_int(SIZE))
    return event(40, size + fields + b"\0" + content, next_position=9000)


def decode(raw: bytes) -> tuple[BinlogDecoder, TransactionPayload]:
    decoder = BinlogDecoder(file="binlog.000001")
    decoder.decode(format_description())
    found = decoder.decode(raw)
    assert isinstance(found, TransactionPayload)
    return decoder, found


@pytest.mark.parametrize("compression", [0, 255])
def test_events_of_a_transaction_are_iterated(compression: int) -> None:
    content = b"".join(INNER)
    if compression == 0:
        content = zstandard.ZstdCompressor().compress(content)
    decoder, found = decode(payload(content, compression=compression, fields=field(77, b"?")))
    assert (found.compression, found.uncompressed_size) == (compression, SIZE)
    table, rows, xid = decoder.payload_events(found)
    assert isinstance(table, TableMapEvent)
    assert isinstance(rows, RowsEvent)
    assert isinstance(xid, Xid)
    assert RowDecoder(table.table).rows(rows) == [(7,)] * 1000
    assert (xid.xid, xid.header.next_position) == (9, 0)


def test_checksums_are_outside_only() -> None:
    decoder = BinlogDecoder()
    decoder.decode(format_description(algorithm=1))
    content = b"".join(INNER)
    found = decoder.decode(event(40, field(1, packed_int(len(content))) + b"\0" + content, checksum=True))
    assert isinstance(found, TransactionPayload)
    assert len(list(decoder.payload_events(found))) == 3


def test_transaction_that_is_left_in_the_middle_changes_nothing_for_other_events() -> None:
    decoder, found = decode(payload(b"".join(INNER), compression=255))
    events = decoder.payload_events(found)
    next(events)
    with pytest.raises(DataError, match=r"FORMAT_DESCRIPTION .* has a wrong checksum"):
        decoder.decode(format_description(algorithm=1)[:-1] + b"?")
    assert len(list(events)) == 2


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (payload(b"no frame"), "the compressed transaction is damaged"),
        (payload(zstandard.ZstdCompressor().compress(b"".join(INNER))[:-20]), f"instead of {SIZE}"),
        (payload(INNER[2][:-1], compression=255), "has 26 bytes instead of 27"),
        (payload(zstandard.ZstdCompressor().compress(INNER[2])), f"has 27 bytes instead of {SIZE}"),
        (payload(bytes(30), compression=255), "has a damaged header"),
        (payload(payload(b"", compression=255), compression=255), "TRANSACTION_PAYLOAD in .*cannot be part of a transaction"),
        (payload(format_description(), compression=255), "FORMAT_DESCRIPTION in .*cannot be part of a transaction"),
        (payload(event(16, b"\1"), compression=255), "XID in TRANSACTION_PAYLOAD at position"),
    ],
)
def test_damaged_payloads_are_refused(raw: bytes, reason: str) -> None:
    decoder, found = decode(raw)
    with pytest.raises(DataError, match=rf"TRANSACTION_PAYLOAD at position .*{reason}|{reason}"):
        list(decoder.payload_events(found))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (field(2, packed_int(7)) + b"\0", "compression type 7 is unknown"),
        (field(1, packed_int(10)) + b"\0abc", "the payload has 3 bytes, not 10"),
        (field(1, packed_int(10)), "integer expected"),
        (b"\1" + packed_bytes(b"\xfe"), "bytes expected"),
    ],
)
def test_damaged_fields_are_refused(body: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=rf"TRANSACTION_PAYLOAD at position .* cannot be read: .*{reason}"):
        decode(event(40, body))


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    decoder, found = decode(payload(b"?"))
    with pytest.raises(MissingExtraError, match=r"binlog_transaction_compression=ON.* needs zstandard.*pip install zstandard"):
        list(decoder.payload_events(found))


@pytest.mark.parametrize("value", [b"\x10abc", b"\x81\x05abc", b"\x84\xff\xff\xff\xff", b"\x81"])
def test_damaged_compressed_columns_are_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="compress"):
        decompress_column(value)
