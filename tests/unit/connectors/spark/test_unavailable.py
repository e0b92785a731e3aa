"""Placeholders of unavailable values, in every form in which they reach a column."""

from __future__ import annotations

import base64
import decimal
import itertools
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from connect.converters.json.converter import JsonConverter
from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.record import SinkRecord
from connectors.cdc.schema.column_type import ColumnType
from connectors.postgres.config import TypeSettings
from connectors.postgres.types import registry
from connectors.postgres.types.catalog_type import CatalogType
from connectors.spark.config_keys import UNAVAILABLE
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.toast import placeholders
from connectors.spark.decode.topic_decoder import TopicDecoder

BYTES = UNAVAILABLE.encode()
NUMBERS = list(BYTES)
WORD = "__gone_é"


def mask_of(values: list[Any], type_: pa.DataType, word: str = UNAVAILABLE) -> list[bool] | None:
    """The mask over two chunks, the second a slice, as tables have them."""
    whole = pa.array([*values, None, *values], type_)
    column = pa.chunked_array([whole.slice(0, len(values)), whole.slice(len(values))])
    mask = placeholders(column, word)
    if mask is None:
        return None
    found: list[bool] = mask.to_pylist()
    assert found == [*found[: len(values)], False, *found[: len(values)]]
    return found[: len(values)]


@pytest.mark.parametrize(
    ("type_", "form", "others"),
    [
        (pa.string(), UNAVAILABLE, ["", "x", UNAVAILABLE + "x"]),
        (pa.string(), BYTES.hex(), [BYTES.hex().upper()]),
        (pa.string(), base64.b64encode(BYTES).decode(), ["eA=="]),
        (pa.string(), f'{{"{UNAVAILABLE}":"{UNAVAILABLE}"}}', [f'{{"{UNAVAILABLE}":"x"}}', "{}"]),
        (pa.binary(), BYTES, [b"", b"x"]),
        (pa.list_(pa.string()), [UNAVAILABLE], [[], [None], ["a", UNAVAILABLE], [UNAVAILABLE, "a"]]),
        (pa.list_(pa.string()), [BYTES.hex()], [["ff"]]),
        (pa.list_(pa.binary()), [BYTES], [[b"a"], [BYTES, BYTES], []]),
        (pa.list_(pa.int16()), NUMBERS, [NUMBERS[:-1], [*NUMBERS, 1], [*NUMBERS[:-1], None], [*NUMBERS[:-1], 0], []]),
        (pa.list_(pa.int64()), NUMBERS, [[0] * len(NUMBERS)]),
        (pa.list_(pa.float32()), [float(n) for n in NUMBERS], [[0.5] * len(NUMBERS)]),
        (pa.list_(pa.float64()), [float(n) for n in NUMBERS], [[0.5]]),
        (pa.list_(pa.decimal128(38, 2)), [decimal.Decimal(n).scaleb(-2) for n in NUMBERS], [[decimal.Decimal("0.95")] * 28]),
        (pa.list_(pa.decimal128(38, 4)), [decimal.Decimal(n).scaleb(-2) for n in NUMBERS], [[decimal.Decimal("0.5")] * 28]),
        (pa.list_(pa.decimal128(38, 0)), [decimal.Decimal(n).scaleb(3) for n in NUMBERS], [[None] * 28]),
        (pa.map_(pa.string(), pa.string()), [(UNAVAILABLE, UNAVAILABLE)], [[], [("a", UNAVAILABLE)], [(UNAVAILABLE, None)]]),
        (pa.list_(pa.map_(pa.string(), pa.string())), [[(UNAVAILABLE, UNAVAILABLE)]], [[[("a", "b")]], []]),
        (pa.struct([("a", pa.string()), (UNAVAILABLE, pa.string())]), {UNAVAILABLE: UNAVAILABLE}, [{"a": UNAVAILABLE}, {}]),
    ],
    ids=str,
)  # fmt: skip
def test_placeholders_are_found_and_similar_values_are_not(type_: pa.DataType, form: Any, others: list[Any]) -> None:
    assert mask_of([None, form, *others], type_) == [False, True, *[False] * len(others)]
    assert mask_of([None, *others], type_) is None


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.int64(), 95),
        (pa.bool_(), True),
        (pa.list_(pa.bool_()), [True] * 28),
        (pa.list_(pa.int8()), [1] * 28),
        (pa.list_(pa.decimal128(38, 37)), [decimal.Decimal(1)] * 28),
        (pa.struct([("a", pa.int8())]), {}),
    ],
    ids=str,
)
def test_other_types_have_no_placeholder(type_: pa.DataType, value: Any) -> None:
    assert mask_of([value], type_, "é" * 14) is None


def test_a_custom_placeholder_replaces_the_default() -> None:
    assert mask_of([WORD, UNAVAILABLE], pa.string(), WORD) == [True, False]
    assert mask_of([list(WORD.encode()), NUMBERS], pa.list_(pa.int16()), WORD) == [True, False]


# -- the forms of the PostgreSQL source, from its own table of types --------------------------------------------------------


def settings_of_the_source(word: str) -> Iterator[TypeSettings]:
    times = ("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds")
    for time, decimals in itertools.product(times, ("precise", "string", "double")):
        yield TypeSettings(time_mode=time, decimal_mode=decimals, placeholder=word)
    for binary, hstore in itertools.product(("bytes", "base64", "base64-url-safe", "hex"), ("json", "map")):
        yield TypeSettings(binary_mode=binary, hstore_mode=hstore, placeholder=word, include_unknown=True)


def columns_of_the_source(settings: TypeSettings) -> Iterator[tuple[str, ColumnType]]:
    names = [("pg_catalog", name) for name in registry._BUILT_IN] + [("public", name) for name in registry._EXTENSIONS]
    for schema, name in [*names, ("public", "unheard_of")]:
        types = {1: CatalogType(1, schema, name, "b", 0, 0, -1), 2: CatalogType(2, schema, f"_{name}", "b", 1, 0, -1)}
        for oid, typmod in itertools.product((1, 2), (-1, 3, (10 << 16 | 2) + 4, (5 << 16 | 0x7FE) + 4)):
            found = registry.column_type(types, oid, typmod, settings)
            if found is not None and found.placeholder is not None:
                yield f"{name}{'[]' * (oid - 1)} {typmod}", found


def forms_of_the_source(word: str) -> dict[tuple[str, Schema, str], ColumnType]:
    """Each once: by type, schema and form."""
    return {
        (name.split()[0], column.schema, repr(column.placeholder)): column
        for settings in settings_of_the_source(word)
        for name, column in columns_of_the_source(settings)
    }


def images(column: ColumnType, *, schemas: bool) -> Iterator[pa.ChunkedArray]:
    """The column with the placeholder and with an ordinary value, as the sink gets it: from bytes and from records."""
    schema = SchemaBuilder.struct().field("f", column.schema).build()
    converter = JsonConverter()
    converter.configure({"schemas.enable": str(schemas).lower()}, is_key=False)
    structs = [Struct(schema, [column.placeholder]), Struct(schema, [column.zero])]
    lines = [converter.from_connect_data("t", schema, s) for s in structs]

    def decoder() -> TopicDecoder:
        return TopicDecoder(
            "t", converter, converter, key_schemas=schemas, value_schemas=schemas, fill_defaults=False, key_name=None,
            needs_names=False, needs_keys=False,
        )  # fmt: skip

    raw = RawBuffer("t", [0, 0], [0, 1], [None, None], lines)
    read = [converter.to_connect_data("t", line) for line in lines]
    records = [SinkRecord("t", 0, None, None, r.schema, r.value, i) for i, r in enumerate(read)]
    shared = read[0].schema
    for record in records:
        record.value_schema = shared
    for (found,) in (decoder().decode_raw(raw, 0), decoder().decode_records(records)):
        yield found.image["f"]


@pytest.mark.parametrize("schemas", [True, False])
def test_every_placeholder_of_the_postgres_source_is_found(schemas: bool) -> None:
    forms = forms_of_the_source(UNAVAILABLE)
    assert {"text", "bytea", "hstore", "uuid[]", "int4[]", "numeric[]", "timestamptz[]", "date[]", "time[]"} <= {
        k[0] for k in forms
    }
    for name, column in forms.items():
        for image in images(column, schemas=schemas):
            mask = placeholders(image)
            assert mask is not None, f"{name} as {image.type}: {image}"
            assert mask.to_pylist() == [True, False], f"{name} as {image.type}: {image}"


def test_every_form_of_a_custom_placeholder_is_found_except_arrays_of_instants() -> None:
    for name, column in forms_of_the_source(WORD).items():
        if name[0] == "timestamptz[]":
            continue
        for image in images(column, schemas=True):
            mask = placeholders(image, WORD)
            assert mask is not None, f"{name} as {image.type}: {image}"
            assert mask.to_pylist() == [True, False], f"{name} as {image.type}: {image}"
