"""Rows from constructed bytes: every type, every image, nulls, readers of columns, and damaged rows."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.errors import ConnectError, DataError
from connectors.mysql.binlog import ABSENT, BinlogDecoder, ColumnReader, JsonDiffs, RowDecoder, RowsEvent, RowsKind
from connectors.mysql.binlog.temporal import pack_datetime
from tests.support.binlog_encoder import (
    bits,
    compressed,
    datetime2,
    decimal,
    event,
    field,
    format_description,
    high_bits,
    json_column,
    json_diffs,
    json_document,
    packed_int,
    row,
    rows_body,
    table_map,
    time2,
    timestamp2,
)

Column = tuple[int, bytes]
DATETIME = pack_datetime(2024, 2, 29, 23, 59, 58, 123456)
NO_DATE = pack_datetime(2024, 0, 15)


def hires(number: int, size: int) -> bytes:
    return number.to_bytes(size, "big")


def hires_datetime(*fields: int, digits: int) -> int:
    year, month, day, hour, minute, second, part = fields
    whole = ((((year * 13 + month) * 32 + day) * 24 + hour) * 60 + minute) * 60 + second
    return whole * int(10**digits) + part


def column_compressed(value: bytes, bits_of_window: int = 15) -> bytes:
    squeezed = zlib.compressobj(wbits=bits_of_window)
    content = squeezed.compress(value) + squeezed.flush()
    return bytes([0x81 + (8 if bits_of_window < 0 else 0), len(value)]) + content


def lengthy(value: bytes, width: int) -> bytes:
    return len(value).to_bytes(width, "little") + value


# Type, metadata, bytes, raw value; integers are signed.
CASES: list[tuple[int, bytes, bytes, Any]] = [
    (1, b"", b"\x80", -128),
    (2, b"", struct.pack("<h", -32768), -32768),
    (9, b"", (-8388608).to_bytes(3, "little", signed=True), -8388608),
    (9, b"", (8388607).to_bytes(3, "little", signed=True), 8388607),
    (3, b"", struct.pack("<i", -(1 << 31)), -(1 << 31)),
    (8, b"", struct.pack("<q", -(1 << 63)), -(1 << 63)),
    (13, b"", b"\0", 0),
    (13, b"", b"\xff", 2155),
    (4, b"\4", struct.pack("<f", 1.5), 1.5),
    (5, b"\x08", struct.pack("<d", -1e300), -1e300),
    (246, b"\x0a\x02", decimal(-1, 10, 2), -1),
    (246, b"\x0a\x02", decimal(9999999999, 10, 2), 9999999999),
    (246, b"\x41\x1e", decimal(-(10**65 - 1), 65, 30), -(10**65 - 1)),
    (246, b"\x05\x05", decimal(12345, 5, 5), 12345),
    (246, b"\x01\x00", decimal(-9, 1, 0), -9),
    (246, b"\x14\x09", decimal(-12345678901_000000001, 20, 9), -12345678901_000000001),
    (10, b"", (2024 << 9 | 2 << 5 | 29).to_bytes(3, "little"), 2024 << 9 | 2 << 5 | 29),
    (14, b"", bytes(3), 0),
    (18, b"\0", datetime2(DATETIME >> 24 << 24, 0), DATETIME >> 24 << 24),
    (18, b"\6", datetime2(DATETIME, 6), DATETIME),
    (18, b"\0", datetime2(NO_DATE, 0), NO_DATE),
    (18, b"\1", datetime2(pack_datetime(1, 1, 1, 0, 0, 0, 900_000), 1), pack_datetime(1, 1, 1, 0, 0, 0, 900_000)),
    (18, b"\6", datetime2(0, 6), 0),
    (17, b"\0", timestamp2(1_700_000_000_000_000, 0), 1_700_000_000_000_000),
    (17, b"\4", timestamp2(1_700_000_000_123_400, 4), 1_700_000_000_123_400),
    (17, b"\6", timestamp2(4_294_967_295_999_999, 6), 4_294_967_295_999_999),
    (17, b"\0", bytes(4), 0),
    (19, b"\0", time2(-3020399_000000, 0), -3020399_000000),
    (19, b"\2", time2(-10_000, 2), -10_000),
    (19, b"\6", time2(3020399_999999, 6), 3020399_999999),
    (19, b"\5", time2(-1_000_010, 5), -1_000_010),
    (7, b"", struct.pack("<I", 1_700_000_000), 1_700_000_000_000_000),
    (12, b"", struct.pack("<Q", 20240229235958), DATETIME >> 24 << 24),
    (11, b"", (-8385959).to_bytes(3, "little", signed=True), -3020399_000000),
    (15, b"\x10\0", lengthy(b"short", 1), b"short"),
    (15, b"\0\1", lengthy(b"x" * 300, 2), b"x" * 300),
    (254, b"\xfe\x10", lengthy(b"char", 1), b"char"),
    (254, b"\xee\x80", lengthy(b"y" * 290, 2), b"y" * 290),  # 384 bytes
    (253, b"\x10\0", lengthy(b"", 1), b""),
    (252, b"\1", lengthy(b"tiny", 1), b"tiny"),
    (252, b"\2", lengthy(b"\0\xff", 2), b"\0\xff"),
    (252, b"\3", lengthy(b"z" * 70_000, 3), b"z" * 70_000),
    (252, b"\4", lengthy(b"long", 4), b"long"),
    (255, b"\4", lengthy(bytes(25), 4), bytes(25)),
    (242, b"\4", lengthy(struct.pack("<2f", 1, 2), 4), struct.pack("<2f", 1, 2)),
    (16, b"\2\1", b"\x02\xaa", 682),
    (16, b"\0\x08", b"\xff" * 8, (1 << 64) - 1),
    (16, b"\1\0", b"\1", 1),
    (254, b"\xf7\1", b"\2", 2),
    (254, b"\xf7\2", b"\x01\x01", 257),
    (254, b"\xf8\3", b"\1\0\x80", 0x800001),
    (254, b"\xf8\x08", b"\xff" * 8, (1 << 64) - 1),
    (245, b"\4", json_column(json_document({"a": [1.5, None]})), '{"a": [1.5, null]}'),
    (20, b"\x08", json_column(json_document([1, 2])), "[1, 2]"),
    (140, b"\2", lengthy(b"\0plain", 2), b"plain"),
    (140, b"\3", lengthy(column_compressed(b"b" * 200), 3), b"b" * 200),
    (141, b"\0\1", lengthy(column_compressed(b"v" * 100, -15), 2), b"v" * 100),
    (141, b"\x10\0", lengthy(b"", 1), b""),
]  # fmt: skip

HIRES = [  # type, digits, bytes, raw value
    (7, 1, struct.pack(">IB", 1_700_000_000, 5), 1_700_000_000_500_000),
    (7, 6, struct.pack(">I", 1_700_000_000) + hires(123456, 3), 1_700_000_000_123_456),
    (12, 2, hires(hires_datetime(2024, 2, 29, 23, 59, 58, 99, digits=2), 6), pack_datetime(2024, 2, 29, 23, 59, 58, 990_000)),
    (
        12,
        6,
        hires(hires_datetime(9999, 12, 31, 23, 59, 59, 999999, digits=6), 8),
        pack_datetime(9999, 12, 31, 23, 59, 59, 999999),
    ),
    (11, 3, hires(3020400_000 - 45296_789, 5), -45296_789_000),
    (11, 1, hires(3020400_0 + 15, 4), 1_500_000),
]


def decode(
    columns: Sequence[Column], rows: bytes, code: int = 30, readers: Sequence[ColumnReader | None] | None = None,
    optional: bytes = b"", **options: Any,
) -> list[Any]:  # fmt: skip
    found, table = rows_event(columns, rows, code, optional, **options)
    return RowDecoder(table, readers).rows(found)


def rows_event(
    columns: Sequence[Column], rows: bytes, code: int = 30, optional: bytes = b"", **options: Any
) -> tuple[RowsEvent, Any]:
    decoder = BinlogDecoder(file="binlog.000001")
    decoder.decode(format_description())
    decoder.decode(table_map(columns, optional=optional))
    found = decoder.decode(event(code, rows_body(rows, len(columns), **options)))
    assert isinstance(found, RowsEvent)
    assert found.table is not None
    return found, found.table


@pytest.mark.parametrize(("code", "metadata", "raw", "value"), CASES)
def test_value_of_each_type(code: int, metadata: bytes, raw: bytes, value: Any) -> None:
    assert decode([(code, metadata)], row([raw]) * 2) == [(value,), (value,)]


def test_values_of_all_types_beside_each_other() -> None:
    columns = [case[:2] for case in CASES]
    expected = tuple(case[3] for case in CASES)
    assert decode(columns, row([case[2] for case in CASES]) * 3) == [expected] * 3


@pytest.mark.parametrize(("code", "digits", "raw", "value"), HIRES)
def test_older_times_of_mariadb_need_their_precision(code: int, digits: int, raw: bytes, value: int) -> None:
    assert decode([(code, b"")], row([raw]), readers=[ColumnReader(fraction_digits=digits)]) == [(value,)]


def test_unsigned_integers() -> None:
    columns = [(1, b""), (2, b""), (9, b""), (3, b""), (8, b"")]
    raw = row([b"\xff" * size for size in (1, 2, 3, 4, 8)])
    expected = [tuple((1 << 8 * size) - 1 for size in (1, 2, 3, 4, 8))]
    assert decode(columns, raw, readers=[ColumnReader(unsigned=True)] * 5) == expected
    assert decode(columns, raw, optional=field(1, high_bits([1] * 5))) == expected
    assert decode(columns, raw, optional=field(1, high_bits([0] * 5))) == [(-1,) * 5]
    assert decode(columns, raw) == [(-1,) * 5]


_indexes = st.lists(st.integers(0, len(CASES) - 1), min_size=1, max_size=20)


_VALUES: list[tuple[int, bytes, list[bytes | None]]] = [
    (8, b"", [struct.pack("<q", n) for n in (1, -7)]),
    (15, b"\x10\0", [lengthy(b"one", 1), lengthy(b"", 1), None]),
    (5, b"\x08", [struct.pack("<d", n) for n in (0.0, -0.0, 2.5)]),
    (246, b"\x0a\x02", [decimal(n, 10, 2) for n in (-1, 100, 10_000)]),
    (252, b"\2", [lengthy(b"some", 2), lengthy(b"same", 2), None]),
    (18, b"\6", [datetime2(n, 6) for n in (DATETIME, NO_DATE)] + [None]),
    (10, b"", [n.to_bytes(3, "little") for n in (2024 << 9 | 33, 1)]),
    (245, b"\4", [json_column(json_document(n)) for n in ([], [1])]),
    (254, b"\xf7\1", [b"\1", b"\2"]),
]
"""Type, metadata, and the bytes of some values."""
_READERS = [
    *[ColumnReader()] * 3,
    ColumnReader(convert=lambda n: Decimal(n).scaleb(-2), inline="{c}({x})"),
    ColumnReader(inline="{x}.decode()"),
    ColumnReader(convert=str, inline="{c}({x}) if {x} else None"),
    ColumnReader(convert=hex),
    ColumnReader(),
    ColumnReader(convert={1: "a", 2: "b"}.__getitem__),
]


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_updates_of_any_columns_have_the_values_of_both_images(data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, len(_VALUES) - 1), min_size=1, max_size=12))
    columns = [_VALUES[n][:2] for n in numbers]
    readers = data.draw(st.sampled_from([[ColumnReader()] * len(numbers), [_READERS[n] for n in numbers]]))
    wanted = data.draw(st.lists(st.booleans(), min_size=len(numbers), max_size=len(numbers)))
    chosen = [reader if flag else None for reader, flag in zip(readers, wanted, strict=True)]
    images = st.tuples(*[st.sampled_from(_VALUES[n][2]) for n in numbers])
    changed = st.tuples(*[st.booleans() for _ in numbers])
    drawn = data.draw(st.lists(st.tuples(images, images, changed), min_size=1, max_size=5))
    pairs = [(old, [b if flag else a for a, b, flag in zip(old, new, flags, strict=True)]) for old, new, flags in drawn]
    raw = b"".join(row(image) for pair in pairs for image in pair)

    alone = decode(columns, raw, 30, chosen)
    expected = list(zip(alone[::2], alone[1::2], strict=True))
    event, table = rows_event(columns, raw, 31, after=bits([1] * len(numbers)))
    decoder = RowDecoder(table, chosen)
    assert repr(decoder.rows(event)) == repr(expected)
    flat = [(*before, *after, n, "x", 7) for n, (before, after) in enumerate(expected)]
    assert repr(decoder.flat_rows(event, ("x", 7))) == repr(flat)


def test_images_share_equal_values_but_no_lists() -> None:
    columns = [_VALUES[n][:2] for n in (0, 4, 4, 4, 4)]
    readers = [ColumnReader(), *[ColumnReader(convert=list), ColumnReader(convert=list, is_mutable=True)] * 2]
    image = [_VALUES[n][2][0] for n in (0, 4, 4, 4, 4)]
    event, table = rows_event(columns, row(image) * 2, 31, after=bits([1] * 5))
    (flat,) = RowDecoder(table, readers).flat_rows(event, ())
    before, after = flat[:5], flat[5:10]
    assert before == after
    assert [a is b for a, b in zip(before, after, strict=True)][2::2] == [False, False]


@settings(deadline=None, max_examples=80)
@given(_indexes, st.data())
def test_any_table_with_any_nulls_and_images(indexes: list[int], data: st.DataObject) -> None:
    cases = [CASES[i] for i in indexes]
    columns = [case[:2] for case in cases]
    flags = st.lists(st.booleans(), min_size=len(cases), max_size=len(cases))
    wanted, before, after = data.draw(flags), data.draw(flags), data.draw(flags)
    nulls = data.draw(st.lists(st.tuples(flags, flags), min_size=1, max_size=6))

    def image(present: list[bool], null: list[bool]) -> bytes:
        return row([None if null[i] else case[2] for i, case in enumerate(cases) if present[i]])

    def values(present: list[bool], null: list[bool]) -> tuple[Any, ...]:
        return tuple(
            ABSENT if not present[i] else None if null[i] else case[3] for i, case in enumerate(cases) if wanted[i]
        )  # fmt: skip

    readers = [ColumnReader() if flag else None for flag in wanted]
    if any(before) or any(after):
        raw = b"".join(image(before, first) + image(after, second) for first, second in nulls)
        found = decode(columns, raw, 31, readers, present=bits(before), after=bits(after))
        assert found == [(values(before, first), values(after, second)) for first, second in nulls]
    if any(before):
        raw = b"".join(image(before, first) for first, _ in nulls)
        assert decode(columns, raw, 32, readers, present=bits(before)) == [values(before, first) for first, _ in nulls]


def test_more_patterns_of_nulls_than_have_code_of_their_own() -> None:
    columns = [(3, b"")] * 8
    patterns = [[None if n >> i & 1 else struct.pack("<i", n) for i in range(8)] for n in range(256)]
    expected = [tuple(None if n >> i & 1 else n for i in range(8)) for n in range(256)]
    assert decode(columns, b"".join(map(row, patterns))) == expected
    pairs = b"".join(row(one) + row(other) for one, other in zip(patterns, reversed(patterns), strict=True))
    assert decode(columns, pairs, 31, after=b"\xff") == list(zip(expected, reversed(expected), strict=True))


def test_readers_convert_values_but_no_nulls() -> None:
    columns = [(15, b"\x10\0"), (15, b"\x10\0"), (246, b"\x05\x02"), (3, b""), (1, b"")]
    readers = [
        ColumnReader(inline="{x}.decode()"),
        ColumnReader(inline="{c}({x}) if len({x}) > 1 else {x}", convert=bytes.upper),
        ColumnReader(convert=lambda unscaled: Decimal(unscaled).scaleb(-2)),
        ColumnReader(inline="{x} + 1"),
        None,
    ]
    values = [b"\3abc", b"\3abc", decimal(-150, 5, 2), struct.pack("<i", 1), b"\1"]
    raw = row(values) + row([None] * 5) + row([b"\1a", b"\1b", *values[2:]])
    expected = [("abc", b"ABC", Decimal("-1.50"), 2), (None,) * 4, ("a", b"b", Decimal("-1.50"), 2)]
    assert decode(columns, raw, readers=readers) == expected


def test_failed_conversion_names_table_column_and_position() -> None:
    columns = [(3, b""), (15, b"\x10\0")]
    names = field(4, b"\2id\4name")
    readers = [ColumnReader(), ColumnReader(inline="{x}.decode()")]
    with pytest.raises(
        DataError, match=r"^WRITE_ROWS of db\.t at position \d+ cannot be read: column name: b'\\xff' is no text in utf-8"
    ):
        decode(columns, row([bytes(4), b"\1\xff"]), readers=readers, optional=names)


def test_version_1_compressed_and_empty_events() -> None:
    columns = [(3, b"")]
    one = row([struct.pack("<i", 5)])
    assert decode(columns, one, 23, extra=None) == [(5,)]
    assert decode(columns, one + one, 24, extra=None, after=b"\1") == [((5,), (5,))]
    assert decode(columns, one, 25, extra=None) == [(5,)]
    for code, extra in ((166, None), (169, b"")):
        assert decode(columns, compressed(one * 100), code, extra=extra) == [(5,)] * 100
    assert decode(columns, compressed(one * 2), 167, extra=None, after=b"\1") == [((5,), (5,))]
    assert decode(columns, b"") == []
    assert decode(columns, b"", 31, present=b"\0", after=b"\0") == [((ABSENT,), (ABSENT,))]


def test_extra_data_has_partitions_and_ndb() -> None:
    columns = [(3, b"")]
    one = row([bytes(4)])
    ndb = b"\0\5\0abc"
    assert rows_event(columns, one, extra=ndb + b"\1\7\0")[0].extra == (b"\5\0abc", 7, None)
    assert rows_event(columns, one + one, 31, extra=b"\1\7\0\x08\0", after=b"\1")[0].extra == (None, 7, 8)
    found, _ = rows_event(columns, one, flags=0)
    assert (found.extra, found.is_statement_end, found.kind) == ((None, None, None), False, RowsKind.INSERT)
    with pytest.raises(DataError, match="NDB's extra data has no length"):
        rows_event(columns, one, extra=b"\0")


JSON_COLUMNS = [(3, b""), (245, b"\4"), (15, b"\x10\0"), (245, b"\4")]


def test_partial_update_applies_changes_to_the_document_before() -> None:
    before = row([b"\1\0\0\0", json_column(json_document({"a": 1, "b": [1, 2]})), b"\1x", None])
    changes = json_column(json_diffs((0, "$.b[1]", json_document("two")), (2, "$.a", None)))
    full = json_column(json_document([]))
    after = packed_int(1) + bits([1, 0]) + row([b"\1\0\0\0", changes, b"\1y", full])
    unchanged = packed_int(0) + row([b"\1\0\0\0", full, b"\1y", None])
    found = decode(JSON_COLUMNS, before + after + before + unchanged, 39, after=b"\x0f")
    old = (1, '{"a": 1, "b": [1, 2]}', b"x", None)
    assert found == [(old, (1, '{"b": [1, "two"]}', b"y", "[]")), (old, (1, "[]", b"y", None))]
    readers = [None, ColumnReader(convert=len), None, None]
    assert decode(JSON_COLUMNS, before + after, 39, readers, after=b"\x0f") == [((21,), (17,))]


def test_partial_update_without_the_document_before() -> None:
    before = row([b"\1\0\0\0"])
    after = packed_int(1) + bits([1, 1]) + row([json_column(json_diffs((2, "$.a", None)))])
    ((old, new),) = decode(JSON_COLUMNS, before + after, 39, present=b"\1", after=b"\2")
    assert old == (1, ABSENT, ABSENT, ABSENT)
    assert isinstance(new[1], JsonDiffs)
    assert new[1].diffs[0].path == "$.a"


def test_changes_of_null_are_refused() -> None:
    before = row([b"\1\0\0\0", None, b"\1x", None])
    after = packed_int(1) + bits([1, 0]) + row([b"\1\0\0\0", json_column(json_diffs((2, "$.a", None))), b"\1x", None])
    with pytest.raises(
        DataError, match=r"PARTIAL_UPDATE_ROWS of db\.t at position .*column #2: a part of a JSON document changes"
    ):
        decode(JSON_COLUMNS, before + after, 39, after=b"\x0f")


def test_rows_of_unknown_tables_and_other_widths() -> None:
    decoder = BinlogDecoder(file="binlog.000001")
    decoder.decode(format_description())
    unknown = decoder.decode(event(30, rows_body(row([bytes(4)]), 1)))
    assert isinstance(unknown, RowsEvent)
    assert (unknown.table, unknown.table_id) == (None, 99)
    decoder.decode(table_map([(3, b"")]))
    with pytest.raises(DataError, match=r"rows of db\.t have 2 columns; its TABLE_MAP has 1"):
        decoder.decode(event(30, rows_body(row([bytes(4)] * 2), 2)))


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ((99, b""), "column type 99 is unknown"),
        ((0, b""), "values of type DECIMAL cannot be in rows"),
        ((246, b"\x42\0"), r"no column is DECIMAL\(66,0\)"),
        ((16, b"\0\x09"), r"no column is BIT\(72\)"),
        ((254, b"\xf7\3"), "no ENUM has 3 bytes"),
        ((18, b"\7"), "DATETIME2 has 7 fractional digits"),
        ((252, b"\5"), "the length of BLOB has 5 bytes"),
        ((15, b"\1"), "index out of range"),
        ((3, b"\1"), "the columns' metadata has 1 bytes; the types need 0"),
    ],
)
def test_columns_that_cannot_be_read_are_refused(column: Column, reason: str) -> None:
    with pytest.raises(DataError, match=rf"TABLE_MAP of db\.t cannot be read: {reason}"):
        decode([column], b"")


@pytest.mark.parametrize("cut", range(1, 20))
def test_truncated_rows_are_refused(cut: int) -> None:
    columns = [(3, b""), (15, b"\x10\0"), (252, b"\2"), (18, b"\3")]
    raw = row([bytes(4), b"\3abc", b"\2\0xy", datetime2(DATETIME, 3)])
    assert len(raw) > 19
    for code, after in ((30, None), (31, b"\x0f")):
        with pytest.raises(DataError, match=r"ROWS of db\.t at position \d+ cannot be read"):
            decode(columns, (raw * 2)[:-cut], code, after=after)


@settings(deadline=None, max_examples=120)
@given(_indexes, st.sampled_from([30, 31, 39]), st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=8))
def test_damaged_rows_raise_only_our_errors(indexes: list[int], code: int, changes: list[tuple[int, int]]) -> None:
    cases = [CASES[i] for i in indexes if CASES[i][3] != b"z" * 70_000] or [CASES[0]]
    after = None if code == 30 else bits([1] * len(cases))
    one = row([case[2] for case in cases])
    damaged = bytearray(one * 2 if code != 39 else one + b"\0" + one)
    for at, value in changes:
        damaged[at % len(damaged)] = value
    with suppress(ConnectError):
        decode([case[:2] for case in cases], bytes(damaged), code, after=after)
