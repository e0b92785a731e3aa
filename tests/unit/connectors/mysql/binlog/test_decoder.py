"""Events of MySQL and MariaDB from constructed bytes: every kind, checksums, and damaged ones."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.errors import ConnectError, DataError, UnsupportedError
from connectors.mysql.binlog import (
    BinlogCheckpoint,
    BinlogDecoder,
    FormatDescription,
    Gtid,
    HeartbeatEvent,
    Incident,
    LoadedData,
    MariaDbGtid,
    MariaDbGtidEvent,
    MariaDbGtidList,
    OtherEvent,
    PreviousGtids,
    Query,
    Rotate,
    RowsQuery,
    StatementContext,
    XaPrepare,
    Xid,
    split_file,
)
from tests.support.binlog_encoder import (
    compressed,
    event,
    format_description,
    packed_bytes,
    packed_int,
    signed_varint,
    table_map,
    unsigned_varint,
)

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
UUID_BYTES = bytes.fromhex(UUID.replace("-", ""))


@pytest.fixture
def decoder() -> BinlogDecoder:
    decoder = BinlogDecoder(file="binlog.000001")
    decoder.decode(format_description())
    return decoder


def decode(decoder: BinlogDecoder, code: int, body: bytes, **options: Any) -> Any:
    return decoder.decode(event(code, body, **options))


def test_format_description_has_versions_and_the_checksum_algorithm() -> None:
    decoder = BinlogDecoder()
    found = decoder.decode(format_description("8.0.36", algorithm=1))
    assert isinstance(found, FormatDescription)
    assert (found.server_version, found.binlog_version, found.checksum_algorithm, found.is_mariadb) == ("8.0.36", 4, 1, False)
    assert (found.post_header_length(2), found.post_header_length(30), found.post_header_length(200)) == (13, 10, None)
    assert decoder.format is found
    mariadb = BinlogDecoder().decode(format_description("11.4.5-MariaDB-log"))
    assert isinstance(mariadb, FormatDescription)
    assert mariadb.is_mariadb


def test_old_servers_have_no_checksums() -> None:
    body = struct.pack("<H50sIB", 4, b"5.5.62-log", 0, 19) + bytes([56, 13, 0, 8])
    found = BinlogDecoder().decode(event(15, body))
    assert isinstance(found, FormatDescription)
    assert (found.checksum_algorithm, found.post_header_lengths) == (None, bytes([56, 13, 0, 8]))


def test_log_of_mysql_4_is_refused() -> None:
    with pytest.raises(DataError, match=r"binary log version 3 of server 4\.1\.22 is not supported"):
        BinlogDecoder().decode(event(15, struct.pack("<H50sIB", 3, b"4.1.22", 0, 19)))


def test_checksums_are_verified_and_removed() -> None:
    decoder = BinlogDecoder(file="binlog.000007")
    decoder.decode(format_description(algorithm=1))
    good = event(16, (5).to_bytes(8, "little"), checksum=True, next_position=531)
    found = decoder.decode(good)
    assert isinstance(found, Xid)
    assert found.xid == 5
    damaged = good[:-6] + b"\xff" + good[-5:]
    with pytest.raises(DataError, match=r"XID at position 500 of binary log 'binlog\.000007' has a wrong checksum"):
        decoder.decode(damaged)
    unverified = BinlogDecoder(verify_checksums=False)
    unverified.decode(format_description(algorithm=1))
    assert isinstance(unverified.decode(damaged), Xid)


def test_checksum_of_an_open_file_ignores_the_flag_that_says_so() -> None:
    assert isinstance(BinlogDecoder().decode(format_description(algorithm=1, in_use=True)), FormatDescription)
    damaged = bytearray(format_description(algorithm=1))
    damaged[30] ^= 1
    with pytest.raises(DataError, match="wrong checksum"):
        BinlogDecoder().decode(bytes(damaged))


def test_client_that_asked_for_no_checksums_gets_none_whatever_the_file_has() -> None:
    decoder = BinlogDecoder(master_checksum="NONE")
    decoder.decode(format_description(algorithm=1))
    assert isinstance(decoder.decode(event(16, bytes(8))), Xid)


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("asked", [None, "asked"])
def test_artificial_rotate_begins_a_stream(checksum: bool, asked: str | None) -> None:
    told = None if asked is None else "CRC32" if checksum else "NONE"
    decoder = BinlogDecoder(master_checksum=told)
    body = (4).to_bytes(8, "little") + b"binlog.000042"
    found = decoder.decode(b"\0" + event(4, body, checksum=checksum, next_position=0, flags=0x20), 1)
    assert isinstance(found, Rotate)
    assert (found.file, found.position, found.header.is_artificial, decoder.file) == ("binlog.000042", 4, True, "binlog.000042")


def test_artificial_rotate_of_a_file_without_checksums_has_none() -> None:
    decoder = BinlogDecoder(master_checksum="CRC32")
    raw = event(4, (4).to_bytes(8, "little") + b"binlog.000042", next_position=0, flags=0x20)
    decoder.decode(raw)
    assert decoder.file == "binlog.000042"
    damaged = event(4, (4).to_bytes(8, "little") + b"binlog.000042", checksum=True, next_position=0)
    with pytest.raises(DataError, match="ROTATE after position 0 of binary log '' has a wrong checksum"):
        BinlogDecoder(master_checksum="CRC32").decode(damaged[:-1] + bytes([damaged[-1] ^ 0x80]))


def test_query_has_statement_and_variables(decoder: BinlogDecoder) -> None:
    variables = b"".join(
        [
            b"\x00" + bytes(4),
            b"\x01" + (1411383296).to_bytes(8, "little"),
            b"\x06\x03std",
            b"\x03" + bytes(4),
            b"\x04" + struct.pack("<HHH", 255, 46, 8),
            b"\x05\x06SYSTEM",
            b"\x07" + bytes(2),
            b"\x08" + (45).to_bytes(2, "little"),
            b"\x09" + bytes(8),
            b"\x0a" + bytes(4),
            b"\x0b\x04root\x09localhost",
            b"\x0c\x02one\0two\0",
            b"\x0d" + (123456).to_bytes(3, "little"),
            b"\x10\x01",
            b"\x11" + (77).to_bytes(8, "little"),
            b"\x12" + (255).to_bytes(2, "little"),
            b"\x13\x00\x14\x00",
            b"\xee\x01\x02",  # of a newer server
        ]
    )
    body = struct.pack("<IIBHH", 11, 2, 4, 1064, len(variables)) + variables + b"shop\0" + b"CREATE TABLE a (b INT)"
    found = decode(decoder, 2, body)
    assert isinstance(found, Query)
    assert (found.schema, found.sql, found.thread_id, found.execution_time_s, found.error_code) == (
        "shop", b"CREATE TABLE a (b INT)", 11, 2, 1064,
    )  # fmt: skip
    assert (found.sql_mode, found.charset_client, found.collation_connection, found.collation_server) == (1411383296, 255, 46, 8)
    assert (found.time_zone, found.collation_database, found.invoker) == ("SYSTEM", 45, ("root", "localhost"))
    assert (found.updated_databases, found.microseconds, found.ddl_xid) == (("one", "two"), 123456, 77)
    assert (found.explicit_defaults_for_timestamp, found.default_collation_for_utf8mb4) == (True, 255)


def test_query_of_mariadb_may_be_compressed() -> None:
    decoder = BinlogDecoder()
    decoder.decode(format_description("11.4.5-MariaDB"))
    variables = (
        b"\x80" + (42).to_bytes(3, "little") + b"\x81" + (9).to_bytes(8, "little") + b"\x82\x04" + (3).to_bytes(8, "little")
    )
    variables += b"\x83\x01" + bytes(4) + b"\x0c\xfe"
    sql = b"ALTER TABLE a " + b"ADD b INT, " * 50
    body = struct.pack("<IIBHH", 1, 0, 2, 0, len(variables)) + variables + b"db\0" + compressed(sql)
    found = decode(decoder, 165, body)
    assert isinstance(found, Query)
    assert (found.sql, found.is_compressed, found.microseconds, found.ddl_xid) == (sql, True, 42, 9)
    assert (found.gtid_flags_extra, found.start_alter_sequence, found.updated_databases) == (4, 3, None)


def test_compressed_query_with_a_wrong_length_is_refused(decoder: BinlogDecoder) -> None:
    good = compressed(b"x" * 1000)
    body = struct.pack("<IIBHH", 1, 0, 0, 0, 0) + b"\0"
    for bad in (
        b"\x81\xff" + good[3:],
        b"\x90" + good[1:],
        b"\x01" + good[1:],
        b"\x84\xff\xff\xff\xff" + good[3:],
        good[:8],
        b"",
    ):
        with pytest.raises(DataError, match="QUERY_COMPRESSED at position"):
            decode(decoder, 165, body + bad)


def test_statements_of_rows_and_ends_of_transactions(decoder: BinlogDecoder) -> None:
    rows_query = decode(decoder, 29, b"\x08UPDATE a")
    annotate = decode(decoder, 160, b"UPDATE a")
    assert isinstance(rows_query, RowsQuery)
    assert isinstance(annotate, RowsQuery)
    assert rows_query.sql == annotate.sql == b"UPDATE a"
    assert decode(decoder, 16, (1 << 40).to_bytes(8, "little")).xid == 1 << 40
    prepare = decode(decoder, 38, b"\1" + struct.pack("<iII", 1, 3, 2) + b"abcde")
    assert isinstance(prepare, XaPrepare)
    assert prepare[1:] == (True, 1, b"abc", b"de")


def gtid_body(*, original: bool = False, ticket: bool = False) -> bytes:
    body = b"\1" + UUID_BYTES + (23).to_bytes(8, "little") + b"\2" + struct.pack("<qq", 4, 5)
    body += (1000 | original << 55).to_bytes(7, "little") + ((900).to_bytes(7, "little") if original else b"")
    body += packed_int(70_000) + (80036 | original << 31).to_bytes(4, "little")
    return body + ((50700).to_bytes(4, "little") if original else b"") + ((6).to_bytes(8, "little") if ticket else b"")


def test_gtid_has_clocks_timestamps_and_versions(decoder: BinlogDecoder) -> None:
    found = decode(decoder, 33, gtid_body())
    assert isinstance(found, Gtid)
    assert (str(found), found.may_have_statements, found.last_committed, found.sequence_number) == (f"{UUID}:23", True, 4, 5)
    assert found[7:] == (1000, 1000, 70_000, 80036, 80036, None)
    assert decode(decoder, 33, gtid_body(original=True, ticket=True))[7:] == (1000, 900, 70_000, 80036, 50700, 6)
    short = decode(decoder, 33, gtid_body()[:25])
    assert (str(short), short.last_committed, short.transaction_length) == (f"{UUID}:23", None, None)
    anonymous = decode(decoder, 34, bytes(25))
    assert (anonymous.is_anonymous, str(anonymous)) == (True, "")


def tagged_body(fields: dict[int, bytes], *, needed: int = 0) -> bytes:
    content = unsigned_varint(needed) + b"".join(unsigned_varint(code) + value for code, value in sorted(fields.items()))
    size = len(content) + 2
    size += len(unsigned_varint(size)) - 1
    return unsigned_varint(1) + unsigned_varint(size) + content


TAGGED = {
    0: unsigned_varint(0),
    1: b"".join(map(unsigned_varint, UUID_BYTES)),
    2: signed_varint(1 << 62),
    3: unsigned_varint(8) + b"domain_1",
    4: signed_varint(-1),
    5: signed_varint(70),
    6: unsigned_varint(1_700_000_000_000_000),
    8: unsigned_varint(500),
    9: unsigned_varint(80400),
}


def test_tagged_gtid_is_in_the_serialization_format(decoder: BinlogDecoder) -> None:
    found = decode(decoder, 42, tagged_body(TAGGED))
    assert isinstance(found, Gtid)
    assert str(found) == f"{UUID}:domain_1:{1 << 62}"
    assert found[5:] == (-1, 70, 1_700_000_000_000_000, 1_700_000_000_000_000, 500, 80400, 80400, None)
    more = {**TAGGED, 7: unsigned_varint(5), 10: unsigned_varint(80300), 11: unsigned_varint((1 << 64) - 1), 12: b"\0", 13: b"?"}
    assert decode(decoder, 42, tagged_body(more))[5:] == (
        -1, 70, 1_700_000_000_000_000, 5, 500, 80400, 80300, (1 << 64) - 1,
    )  # fmt: skip


def test_tagged_gtid_with_a_needed_unknown_field_is_refused(decoder: BinlogDecoder) -> None:
    with pytest.raises(DataError, match=r"GTID_TAGGED at position .* field 13 is unknown, and must not be ignored"):
        decode(decoder, 42, tagged_body({**TAGGED, 13: b"\0"}, needed=14))


def test_previous_gtids_may_have_tags(decoder: BinlogDecoder) -> None:
    intervals = struct.pack("<Qqqqq", 2, 1, 6, 9, 10)
    found = decode(decoder, 35, (1).to_bytes(8, "little") + UUID_BYTES + intervals)
    assert isinstance(found, PreviousGtids)
    assert str(found.gtids) == f"{UUID}:1-5:9"
    head = (1 << 56 | 2 << 8 | 1).to_bytes(8, "little")
    tagged = decode(decoder, 35, head + UUID_BYTES + b"\0" + intervals + UUID_BYTES + b"\x04ab" + struct.pack("<Qqq", 1, 1, 4))
    assert str(tagged.gtids) == f"{UUID}:1-5:9:ab:1-3"
    for bad in (bytes(7), b"\1" + bytes(7), (2 << 56).to_bytes(8, "little"), bytes(9)):
        with pytest.raises(DataError, match="PREVIOUS_GTIDS"):
            decode(decoder, 35, bad)


def test_mariadb_gtids(decoder: BinlogDecoder) -> None:
    plain = decode(decoder, 162, struct.pack("<QIB", 100, 3, 0x29) + bytes(6))
    assert isinstance(plain, MariaDbGtidEvent)
    assert (str(plain.gtid), plain.is_standalone, plain.is_ddl) == ("3-7-100", True, True)
    body = struct.pack("<QIB", 1, 0, 0x46) + (55).to_bytes(8, "little") + struct.pack("<IBB", 1, 2, 1) + b"abc"
    body += b"\x15\x02" + (44).to_bytes(8, "little") + (12).to_bytes(4, "little")
    full = decode(decoder, 162, body)
    assert (full.commit_id, full.xa_id, full.flags_extra, full.extra_engines) == (55, (1, b"ab", b"c"), 0x15, 2)
    assert (full.start_alter_sequence, full.thread_id, full.is_prepared_xa, full.is_completed_xa) == (44, 12, True, False)
    gtids = decode(decoder, 163, (2 | 1 << 28).to_bytes(4, "little") + struct.pack("<IIQIIQ", 0, 1, 9, 2, 3, 4))
    assert isinstance(gtids, MariaDbGtidList)
    assert (gtids.gtids, gtids.flags) == ((MariaDbGtid(0, 1, 9), MariaDbGtid(2, 3, 4)), 1)
    checkpoint = decode(decoder, 161, (13).to_bytes(4, "little") + b"binlog.000009")
    assert isinstance(checkpoint, BinlogCheckpoint)
    assert checkpoint.file == "binlog.000009"
    with pytest.raises(DataError, match="1000 GTIDs do not fit"):
        decode(decoder, 163, (1000).to_bytes(4, "little"))


def test_heartbeats_and_incidents(decoder: BinlogDecoder) -> None:
    first = decode(decoder, 27, b"binlog.000003", next_position=900)
    assert isinstance(first, HeartbeatEvent)
    assert (first.file, first.position) == ("binlog.000003", 900)
    position = packed_int(1 << 33)
    second = decode(decoder, 41, b"\1" + packed_bytes(b"binlog.000004") + b"\2" + packed_bytes(position) + b"\x09\x01?\0")
    assert (second.file, second.position) == ("binlog.000004", 1 << 33)
    incident = decode(decoder, 26, b"\1\0\x0alost event")
    assert isinstance(incident, Incident)
    assert (incident.number, incident.message) == (1, "lost event")


def test_statement_format_and_unknown_events_are_recognized(decoder: BinlogDecoder) -> None:
    for code in (5, 13, 14):
        assert isinstance(decode(decoder, code, bytes(9)), StatementContext)
    for code in (6, 8, 9, 10, 11, 12, 17, 18):
        found = decode(decoder, code, bytes(9))
        assert isinstance(found, LoadedData)
        assert found.header.name.isupper()
    for code in (3, 28, 36, 37):
        known = decode(decoder, code, b"")
        assert isinstance(known, OtherEvent)
        assert known.is_known
    unknown = decode(decoder, 230, b"?", flags=0x80)
    assert isinstance(unknown, OtherEvent)
    assert (unknown.is_known, unknown.header.is_ignorable, unknown.header.name) == (False, True, "event of type 230")


def test_encrypted_logs_are_refused(decoder: BinlogDecoder) -> None:
    with pytest.raises(UnsupportedError, match=r"START_ENCRYPTION .* is encrypted \(encrypt_binlog=ON\)"):
        decode(decoder, 164, bytes(17))
    with pytest.raises(UnsupportedError, match="binlog_encryption=ON"):
        list(split_file(b"\xfdbin" + bytes(10)))


def test_file_is_split_into_events() -> None:
    events = [format_description(), event(16, bytes(8))]
    assert list(split_file(b"\xfebin" + b"".join(events))) == events
    with pytest.raises(DataError, match="no binary log file begins with 00000000"):
        list(split_file(bytes(100)))
    with pytest.raises(DataError, match="the event at position 4 of the binary log file claims"):
        list(split_file(b"\xfebin" + events[1][:-1]))


def test_event_of_another_size_is_refused(decoder: BinlogDecoder) -> None:
    with pytest.raises(DataError, match="claims 27 bytes and has 26"):
        decoder.decode(event(16, bytes(8))[:-1])
    with pytest.raises(DataError, match="has 3 bytes, fewer than its header"):
        decoder.decode(b"abc")


EVENTS = [
    event(2, struct.pack("<IIBHH", 11, 2, 4, 0, 9) + b"\x0c\x02one\0two"[:9] + b"shop\0SELECT 1"),
    event(33, gtid_body(original=True, ticket=True)),
    event(42, tagged_body(TAGGED)),
    event(35, (1).to_bytes(8, "little") + UUID_BYTES + struct.pack("<Qqq", 1, 1, 6)),
    event(162, struct.pack("<QIB", 1, 0, 0x46) + bytes(30)),
    event(38, b"\1" + struct.pack("<iII", 1, 3, 2) + b"abcde"),
    event(26, b"\1\0\x0alost event"),
    event(41, b"\1" + packed_bytes(b"binlog.000004") + b"\2\1\7\0"),
    event(161, (13).to_bytes(4, "little") + b"binlog.000009"),
    event(165, struct.pack("<IIBHH", 11, 2, 0, 0, 0) + b"\0" + compressed(b"SELECT 1" * 9)),
    table_map([(3, b""), (15, b"\x10\0")]),
    format_description(algorithm=1),
]


@settings(deadline=None, max_examples=80)
@given(st.sampled_from(EVENTS), st.lists(st.tuples(st.integers(19, 400), st.integers(0, 255)), max_size=6), st.integers(0, 60))
def test_damaged_events_raise_only_our_errors(raw: bytes, changes: list[tuple[int, int]], cut: int) -> None:
    decoder = BinlogDecoder()
    decoder.decode(format_description())
    damaged = bytearray(raw[: max(19, len(raw) - cut)])
    for at, value in changes:
        damaged[min(at, len(damaged) - 1)] = value
    damaged[9:13] = len(damaged).to_bytes(4, "little")
    with suppress(ConnectError):
        decoder.decode(bytes(damaged))
