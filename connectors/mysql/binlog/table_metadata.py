"""The optional metadata of TABLE_MAP (binlog_row_metadata), of MySQL 8 and MariaDB 10.5 and later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from connectors.mysql.binlog.column_types import (
    BLOB,
    BLOB_COMPRESSED,
    DOUBLE,
    ENUM,
    FLOAT,
    GEOMETRY,
    INTEGERS,
    LONG_BLOB,
    MEDIUM_BLOB,
    NEWDECIMAL,
    SET,
    STRING,
    TINY_BLOB,
    VAR_STRING,
    VARCHAR,
    VARCHAR_COMPRESSED,
    VECTOR,
    YEAR,
    WireColumn,
)
from connectors.mysql.binlog.wire import packed_bytes, packed_int

T = TypeVar("T")

_NUMERIC = frozenset(INTEGERS) | {NEWDECIMAL, FLOAT, DOUBLE}
_BLOBS = frozenset({BLOB, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB})
_CHARACTERS = _BLOBS | {STRING, VAR_STRING, VARCHAR}
_MARIADB_CHARACTERS = _CHARACTERS | {GEOMETRY, BLOB_COMPRESSED, VARCHAR_COMPRESSED}


@dataclass(frozen=True, slots=True)
class TableMapMetadata:
    """Values by index of the column. None or missing: the server does not say.

    ``unsigned`` has an entry for each column if the server writes any (the default); it is False for columns that are no
    numbers. ``collations`` are numbers of collations of characters, ENUM, and SET; 63 is binary. ``primary_key`` has column
    indexes with the length of the prefix, 0 for whole columns. ``unknown_fields`` are types of metadata that this reader does
    not know.
    """

    unsigned: tuple[bool, ...] | None = None
    names: tuple[str, ...] | None = None
    collations: dict[int, int] = field(default_factory=dict)
    enum_values: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    set_values: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    geometry_types: dict[int, int] = field(default_factory=dict)
    primary_key: tuple[tuple[int, int], ...] | None = None
    visible: tuple[bool, ...] | None = None
    vector_dimensions: dict[int, int] = field(default_factory=dict)
    unknown_fields: tuple[int, ...] = ()


def read_metadata(data: bytes, columns: Sequence[WireColumn], *, is_mariadb: bool) -> TableMapMetadata:
    """Reads the metadata. Raises IndexError or ValueError if it is damaged."""
    characters = _indexes(columns, _MARIADB_CHARACTERS if is_mariadb else _CHARACTERS)
    if not is_mariadb:
        characters = sorted({*characters, *_indexes(columns, {VECTOR})})
    enums_and_sets = _indexes(columns, {ENUM, SET})
    unsigned = names = primary_key = visible = None
    collations: dict[int, int] = {}
    enum_values: dict[int, tuple[bytes, ...]] = {}
    set_values: dict[int, tuple[bytes, ...]] = {}
    geometry_types: dict[int, int] = {}
    dimensions: dict[int, int] = {}
    unknown = []
    at, end = 0, len(data)
    while at < end:
        code = data[at]
        content, at = packed_bytes(data, at + 1, end)
        if code == 1:
            unsigned = _signedness(content, columns, is_mariadb=is_mariadb)
        elif code == 2:
            collations.update(_default_collations(content, characters))
        elif code == 3:
            collations.update(_numbers(content, characters))
        elif code == 4:
            names = tuple(name.decode() for name in _items(content, packed_bytes))
            if len(names) != len(columns):
                raise ValueError(f"{len(columns)} columns have {len(names)} names")
        elif code == 5:
            set_values = _value_lists(content, _indexes(columns, {SET}))
        elif code == 6:
            enum_values = _value_lists(content, _indexes(columns, {ENUM}))
        elif code == 7:
            geometry_types = _numbers(content, _indexes(columns, {GEOMETRY}))
        elif code == 8:
            primary_key = tuple((index, 0) for index in _integers(content))
        elif code == 9:
            numbers = _integers(content)
            primary_key = tuple(zip(numbers[::2], numbers[1::2], strict=True))
        elif code == 10:
            collations.update(_default_collations(content, enums_and_sets))
        elif code == 11:
            collations.update(_numbers(content, enums_and_sets))
        elif code == 12:
            visible = tuple(_bits(content, len(columns)))
        elif code == 13:
            dimensions = _numbers(content, _indexes(columns, {VECTOR}))
        else:
            unknown.append(code)
    if any(index >= len(columns) for index, _ in primary_key or ()):
        raise ValueError(f"the primary key {primary_key} refers to more than the {len(columns)} columns")
    return TableMapMetadata(
        unsigned, names, collations, enum_values, set_values, geometry_types, primary_key, visible, dimensions, tuple(unknown)
    )


def _indexes(columns: Sequence[WireColumn], codes: set[int] | frozenset[int]) -> list[int]:
    return [i for i, column in enumerate(columns) if column.type_code in codes]


def _bits(data: bytes, count: int) -> list[bool]:
    if len(data) * 8 < count:
        raise IndexError(f"{count} bits expected, {len(data) * 8} found")
    return [bool(data[i >> 3] & 0x80 >> (i & 7)) for i in range(count)]


def _signedness(data: bytes, columns: Sequence[WireColumn], *, is_mariadb: bool) -> tuple[bool, ...]:
    """MariaDB counts YEAR as a number, MySQL does not."""
    numeric = _indexes(columns, _NUMERIC | {YEAR} if is_mariadb else _NUMERIC)
    flags = dict(zip(numeric, _bits(data, len(numeric)), strict=True))
    return tuple(flags.get(i, False) for i in range(len(columns)))


def _items(data: bytes, read: Callable[[bytes, int, int], tuple[T, int]]) -> list[T]:
    items = []
    at, end = 0, len(data)
    while at < end:
        item, at = read(data, at, end)
        items.append(item)
    return items


def _integers(data: bytes) -> list[int]:
    return _items(data, packed_int)


def _numbers(data: bytes, indexes: Sequence[int]) -> dict[int, int]:
    numbers = _integers(data)
    if len(numbers) != len(indexes):
        raise ValueError(f"{len(numbers)} values for {len(indexes)} columns")
    return dict(zip(indexes, numbers, strict=True))


def _default_collations(data: bytes, indexes: Sequence[int]) -> dict[int, int]:
    default, *pairs = _integers(data)
    collations = dict.fromkeys(indexes, default)
    for position, collation in zip(pairs[::2], pairs[1::2], strict=True):
        collations[indexes[position]] = collation  # positions count only columns of this kind
    return collations


def _value_lists(data: bytes, indexes: Sequence[int]) -> dict[int, tuple[bytes, ...]]:
    found: dict[int, tuple[bytes, ...]] = {}
    at, end = 0, len(data)
    for index in indexes:
        count, at = packed_int(data, at, end)
        if count > end - at:  # each value has at least a length
            raise ValueError(f"{count} values do not fit into {end - at} bytes")
        values = []
        for _ in range(count):
            value, at = packed_bytes(data, at, end)
            values.append(value)
        found[index] = tuple(values)
    if at != end:
        raise ValueError(f"{end - at} bytes follow the values of {len(indexes)} columns")
    return found
