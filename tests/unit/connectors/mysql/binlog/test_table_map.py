"""Descriptions of tables: optional metadata of both servers, comparison, damaged ones."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.errors import DataError
from connectors.mysql.binlog import BinlogDecoder, TableMap, TableMapEvent
from tests.support.binlog_encoder import (
    description,
    event,
    field,
    format_description,
    high_bits,
    packed_bytes,
    packed_int,
    table_map,
)

COLUMNS = [
    (3, b""), (13, b""), (15, b"\x10\0"), (254, b"\xf7\1"), (254, b"\xf8\1"), (255, b"\4"), (252, b"\2"), (246, b"\x05\2"),
    (254, b"\xfe\x10"), (242, b"\4"), (254, b"\xf7\1"), (245, b"\4"),
]  # fmt: skip
NAMES = ["id", "y", "v", "e", "s", "g", "b", "d", "c", "emb", "e2", "j"]


def values(*lists: list[bytes]) -> bytes:
    return b"".join(packed_int(len(one)) + b"".join(map(packed_bytes, one)) for one in lists)


MYSQL = b"".join(
    [
        field(1, high_bits([1, 0])),  # id, d: MySQL does not count the year
        field(2, packed_int(255) + packed_int(1) + packed_int(63) + packed_int(3) + packed_int(63)),  # of v, b, c, emb
        field(4, b"".join(packed_bytes(name.encode()) for name in NAMES)),
        field(5, values([b"p", b"q"])),
        field(6, values([b"x"], [b"", b"\xc3\xbc"])),
        field(7, packed_int(1)),
        field(9, packed_int(0) + packed_int(0) + packed_int(2) + packed_int(8)),
        field(11, packed_int(46) + packed_int(255) + packed_int(8)),
        field(12, high_bits([1] * 11 + [0])),
        field(13, packed_int(300)),
        field(99, b"of a newer server"),
    ]
)


def test_metadata_of_mysql() -> None:
    table = TableMap(description(COLUMNS, optional=MYSQL), is_mariadb=False)
    found = table.metadata
    assert found.unsigned == (True, *[False] * 11)
    assert found.collations == {2: 255, 6: 63, 8: 255, 9: 63, 3: 46, 4: 255, 10: 8}
    assert found.names == tuple(NAMES)
    assert (found.set_values, found.enum_values) == ({4: (b"p", b"q")}, {3: (b"x",), 10: (b"", b"\xc3\xbc")})
    assert (found.geometry_types, found.primary_key) == ({5: 1}, ((0, 0), (2, 8)))
    assert (found.visible, found.vector_dimensions, found.unknown_fields) == ((*[True] * 11, False), {9: 300}, (99,))
    assert (table.schema, table.table, str(table), table.column_label(2), table.json_columns) == ("db", "t", "db.t", "v", (11,))
    assert table.nullable == (True,) * 12


def test_metadata_of_mariadb_counts_other_columns() -> None:
    columns = [(3, b""), (13, b""), (16, b"\1\0"), (8, b""), (255, b"\4"), (141, b"\x10\0"), (140, b"\2"), (15, b"\x10\0")]
    optional = field(1, high_bits([0, 1, 1])) + field(3, b"".join(map(packed_int, [63, 8, 63, 45]))) + field(8, packed_int(3))
    found = TableMap(description(columns, optional=optional), is_mariadb=True).metadata
    assert found.unsigned == (False, True, False, True, False, False, False, False)
    assert (found.collations, found.primary_key) == ({4: 63, 5: 8, 6: 63, 7: 45}, ((3, 0),))


def test_metadata_may_be_missing() -> None:
    table = TableMap(description([(3, b"")]), is_mariadb=False)
    assert (table.metadata.unsigned, table.metadata.names, table.column_label(0)) == (None, None, "#1")


def test_same_structure_is_the_same_object_whatever_its_number() -> None:
    decoder = BinlogDecoder()
    decoder.decode(format_description())

    def decode(raw: bytes) -> TableMapEvent:
        found = decoder.decode(raw)
        assert isinstance(found, TableMapEvent)
        return found

    first = decode(table_map([(3, b"")], table_id=1))
    again = decode(table_map([(3, b"")], table_id=2))
    other = decode(table_map([(8, b"")], table_id=1))
    assert again.table is first.table
    assert (first.table_id, again.table_id, other.table == first.table) == (1, 2, False)
    assert first.table == TableMap(description([(3, b"")]), is_mariadb=False)
    assert len({first.table, again.table, other.table}) == 2


@pytest.mark.parametrize(
    ("optional", "reason"),
    [
        (field(1, b""), "2 bits expected"),
        (field(4, packed_bytes(b"id")), "12 columns have 1 names"),
        (field(6, packed_int(1 << 40)), "values do not fit"),
        (field(7, packed_int(1) * 2), "2 values for 1 columns"),
        (field(8, packed_int(12)), "refers to more than the 12 columns"),
        (field(2, packed_int(8) + packed_int(50) + packed_int(8)), "list index out of range"),
        (b"\1\xff", "no length-encoded integer"),
    ],
)
def test_damaged_metadata_is_refused(optional: bytes, reason: str) -> None:
    with pytest.raises(DataError, match=rf"TABLE_MAP of db\.t cannot be read: .*{reason}"):
        _ = TableMap(description(COLUMNS, optional=optional), is_mariadb=False).metadata


def test_damaged_event_is_refused() -> None:
    decoder = BinlogDecoder()
    decoder.decode(format_description())
    with pytest.raises(DataError, match=r"TABLE_MAP at position .* bytes expected"):
        decoder.decode(event(19, bytes(8) + b"\2db\0\1t\0\xfd\xff\xff\xff"))


_RAW = description(COLUMNS, optional=MYSQL)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(st.tuples(st.integers(0, len(_RAW) - 1), st.integers(0, 255)), max_size=5), st.integers(0, len(_RAW)), st.booleans()
)
def test_damaged_descriptions_raise_expected_errors_only(changes: list[tuple[int, int]], cut: int, mariadb: bool) -> None:
    damaged = bytearray(_RAW)
    for at, value in changes:
        damaged[at] = value
    with suppress(IndexError, ValueError, DataError):
        table = TableMap(bytes(damaged[:cut]), is_mariadb=mariadb)
        assert len(table.columns) == len(table.nullable)
        _ = table.metadata
