"""Values of every column type of Iceberg reach records without loss, whatever Arrow types their files have."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connectors.spark.decode.variant import VARIANT, Timestamp, encode_variant
from connectors.spark.tables.files.file_columns import FIELD_ID
from tests.support.iceberg_writer import DATA, File, IcebergWriter, Row
from tests.support.replayed_events import events, in_json, plain, read_all

UTC = dt.UTC
ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
MOMENT = dt.datetime(2024, 5, 6, 7, 8, 9, 123456)
NANOS = 1_714_979_289_123_456_789
DECIMALS = pa.decimal128(9, 3), pa.decimal128(38, 3)


def column(number: int, name: str, type_: Any) -> Row:
    return {"id": number, "name": name, "required": False, "type": type_}


def with_id(field: pa.Field, number: int) -> pa.Field:
    return field.with_metadata({FIELD_ID: str(number).encode()})


def written(folder: Path, types: Mapping[str, tuple[Any, pa.DataType]], rows: list[Row]) -> IcebergWriter:
    """A table with one file. ``types``: of each column, Iceberg's type and that of the file."""
    fields = [column(place, name, types[name][0]) for place, name in enumerate(types, 1)]
    table = IcebergWriter(folder, fields)
    schema = pa.schema([with_id(pa.field(name, types[name][1]), place) for place, name in enumerate(types, 1)])
    path = folder / "data" / "all.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return table.commit("append", [File(str(path), DATA, len(rows), 1)])


def read(table: IcebergWriter, **config: str) -> list[Any]:
    return read_all(table.folder, None, source_format="iceberg", **config)


def document(node: Any) -> dict[str, bytes]:
    """A VARIANT as a file has it."""
    if isinstance(node, dict):
        at = node["at"]
        node = {**node, "at": Timestamp(round((at - dt.datetime(1970, 1, 1)) / dt.timedelta(microseconds=1)), False)}
    return encode_variant(node)._asdict()


TEXT = '{"at":"2024-05-06T07:08:09.123456","n":[1.50,null]}'
SHREDDED = pa.struct(
    [
        pa.field("metadata", pa.binary(), nullable=False),
        ("value", pa.binary()),
        ("typed_value", pa.struct([("n", pa.struct([("value", pa.binary()), ("typed_value", pa.int8())]))])),
    ]
)
VALUES: dict[str, tuple[Any, pa.DataType, Any, Any]] = {
    "yes": ("boolean", pa.bool_(), True, True),
    "number": ("int", pa.int32(), -(2**31), -(2**31)),
    "long": ("long", pa.int64(), 2**63 - 1, 2**63 - 1),
    "single": ("float", pa.float32(), 1.5, 1.5),
    "double": ("double", pa.float64(), -0.1, -0.1),
    "money": ("decimal(38, 3)", pa.decimal128(38, 3), decimal.Decimal("-12.345"), decimal.Decimal("-12.345")),
    "day": ("date", pa.date32(), MOMENT.date(), 19849),
    "time": ("time", pa.time64("us"), MOMENT.time(), 25_689_123_456),
    "clock": ("timestamp", pa.timestamp("us"), MOMENT, NANOS // 1000),
    "at": ("timestamptz", pa.timestamp("us", "UTC"), MOMENT.replace(tzinfo=UTC), "2024-05-06T07:08:09.123456Z"),
    "clock_ns": ("timestamp_ns", pa.timestamp("ns"), NANOS, NANOS),
    "at_ns": ("timestamptz_ns", pa.timestamp("ns", "UTC"), NANOS, "2024-05-06T07:08:09.123456789Z"),
    "text": ("string", pa.string(), 'ä"\U0001f600', 'ä"\U0001f600'),
    "uuid": ("uuid", pa.binary(16), ID.bytes, str(ID)),
    "fixed": ("fixed[3]", pa.binary(3), b"\x00\x01\xff", b"\x00\x01\xff"),
    "bytes": ("binary", pa.binary(), b"\x00\xff", b"\x00\xff"),
    "doc": ("variant", VARIANT, document({"n": [decimal.Decimal("1.50"), None], "at": MOMENT}), TEXT),
    # Other writers.
    "large": ("string", pa.large_string(), "x", "x"),
    "words": ("string", pa.dictionary(pa.int32(), pa.string()), "w", "w"),
    "known_uuid": ("uuid", pa.uuid(), ID.bytes, str(ID)),
    "seconds": ("timestamp", pa.timestamp("ms"), MOMENT.replace(microsecond=0), NANOS // 1_000_000_000 * 1_000_000),
    "any_order": ("variant", pa.struct([("value", pa.binary()), ("metadata", pa.binary())]), document("x"), '"x"'),
    "shredded": (
        "variant",
        SHREDDED,
        {"metadata": b"\1\0\0", "value": None, "typed_value": {"n": {"typed_value": 5}}},
        '{"n":5}',
    ),
    # Wider than in the file.
    "wide": ("long", pa.int32(), 7, 7),
    "wide_float": ("double", pa.float32(), 0.5, 0.5),
    "wide_money": ("decimal(38, 3)", pa.decimal128(9, 3), decimal.Decimal("1.000"), decimal.Decimal("1.000")),
    "wide_day": ("timestamp", pa.date32(), dt.date(1970, 1, 2), 86_400_000_000),
}
SCHEMAS = {
    "day": ("int32", "io.debezium.time.Date"),
    "time": ("int64", "io.debezium.time.MicroTime"),
    "clock": ("int64", "io.debezium.time.MicroTimestamp"),
    "at": ("string", "io.debezium.time.ZonedTimestamp"),
    "clock_ns": ("int64", "io.debezium.time.NanoTimestamp"),
    "at_ns": ("string", "io.debezium.time.ZonedTimestamp"),
    "uuid": ("string", "io.debezium.data.Uuid"),
    "doc": ("string", "io.debezium.data.Json"),
    "fixed": ("bytes", None),
}


@pytest.fixture
def all_types(tmp_path: Path) -> IcebergWriter:
    types = {name: (kind, in_file) for name, (kind, in_file, _, _) in VALUES.items()}
    return written(tmp_path / "t", types, [{name: value for name, (_, _, value, _) in VALUES.items()}, {}])


def test_every_type_has_its_schema_and_value_and_may_be_null(all_types: IcebergWriter) -> None:
    full, empty = read(all_types)
    assert plain(full.value)["after"] == {name: expected for name, (_, _, _, expected) in VALUES.items()}
    assert set(plain(empty.value)["after"].values()) == {None}
    row = full.value_schema.field("after").schema
    found = {name: (row.field(name).schema.type.value, row.field(name).schema.name) for name in SCHEMAS}
    assert found == SCHEMAS


def test_values_are_the_same_in_json_texts(all_types: IcebergWriter) -> None:
    _, value = in_json(read(all_types)[0])
    assert value is not None
    after = json.loads(value)["payload"]["after"]
    assert (after["at_ns"], after["uuid"], after["time"]) == ("2024-05-06T07:08:09.123456789Z", str(ID), 25_689_123_456)
    assert after["doc"] == TEXT


def test_columns_of_these_types_are_keys(all_types: IcebergWriter) -> None:
    (path,) = (all_types.folder / "data").glob("*.parquet")
    copy = path.with_name("copy.parquet")
    rows = pq.read_table(path)
    at = rows.schema.get_field_index("long")
    pq.write_table(rows.set_column(at, rows.schema.field(at), pa.array([1, None], pa.int64())), copy)
    old, new = File(str(path), DATA, 2, 1), File(str(copy), DATA, 2, 2)
    all_types.commit("overwrite", [new], [old])
    for key in ("uuid", "time", "fixed", "at_ns", "clock_ns", "day", "money", "bytes"):
        records = events(read(all_types, source_start="2", key_columns=f"{key}"))
        assert [(op, (before or {}).get("long"), (after or {}).get("long")) for op, before, after in records] == [
            ("d", None, None),
            ("u", 2**63 - 1, 1),
            ("c", None, None),
        ], key


def test_nested_values_have_the_types_of_their_leaves(tmp_path: Path) -> None:
    struct = {"type": "struct", "fields": [column(10, "u", "uuid"), column(11, "n", "timestamptz_ns"), column(12, "t", "time")]}
    listed = {"type": "list", "element-id": 20, "element-required": False, "element": struct}
    mapped = {"type": "map", "key-id": 30, "key": "string", "value-id": 31, "value-required": False, "value": "fixed[2]"}
    parts = [("u", pa.binary(16), 10), ("n", pa.timestamp("ns", "UTC"), 11), ("t", pa.time64("us"), 12)]
    in_file = pa.struct([with_id(pa.field(name, type_), number) for name, type_, number in parts])
    key = with_id(pa.field("key", pa.string(), False), 30)
    types = {
        "one": (listed, pa.list_(with_id(pa.field("element", in_file), 20))),
        "two": (mapped, pa.map_(key, with_id(pa.field("value", pa.binary(2)), 31))),
    }
    value = {"u": ID.bytes, "n": NANOS, "t": MOMENT.time()}
    table = written(tmp_path / "t", types, [{"one": [value, None]}, {"two": [("k", b"ab"), ("n", None)]}, {"one": []}])
    first, second, third = [after for _, _, after in events(read(table))]
    shown = {"u": str(ID), "n": "2024-05-06T07:08:09.123456789Z", "t": 25_689_123_456}
    assert first == {"one": [shown, None], "two": None}
    assert second == {"one": None, "two": {"k": b"ab", "n": None}}
    assert third == {"one": [], "two": None}


def test_values_that_do_not_fit_the_type_of_the_table_name_the_column(tmp_path: Path) -> None:
    table = written(tmp_path / "t", {"at": ("timestamp", pa.timestamp("ns"))}, [{"at": NANOS}])
    with pytest.raises(Exception, match=r"column at of the file .*all.parquet cannot be read as TIMESTAMP_NTZ: .*lose data"):
        read(table)


def test_defaults_of_columns_that_files_lack(tmp_path: Path) -> None:
    defaults = {
        "long": ("long", 5, 5),
        "money": ("decimal(9, 2)", "1.50", decimal.Decimal("1.50")),
        "day": ("date", "1970-01-03", 2),
        "time": ("time", "00:00:01.000000", 1_000_000),
        "at": ("timestamptz", "2024-05-06T07:08:09.123456+00:00", "2024-05-06T07:08:09.123456Z"),
        "at_ns": ("timestamptz_ns", "2024-05-06T07:08:09.123456789+00:00", "2024-05-06T07:08:09.123456789Z"),
        "uuid": ("uuid", str(ID), str(ID)),
        "bytes": ("binary", "00ff", b"\x00\xff"),
    }
    table = written(tmp_path / "t", {"id": ("long", pa.int64())}, [{"id": 1}])
    fields = [{**column(n, name, defaults[name][0]), "initial-default": defaults[name][1]} for n, name in enumerate(defaults, 2)]
    table.evolve(column(1, "id", "long"), *fields)
    ((_, _, after),) = events(read(table))
    assert after == {"id": 1, **{name: expected for name, (_, _, expected) in defaults.items()}}
