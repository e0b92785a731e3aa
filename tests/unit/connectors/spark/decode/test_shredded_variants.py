"""Shredded VARIANTs against the examples of Parquet's specification, and against the values that were shredded."""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import DataError
from connectors.spark.decode.shredded_variants import assemble_variants, is_shredded
from connectors.spark.decode.variant import VARIANT, Date, Float, Timestamp, Variant, decode_variant, encode_variant
from connectors.spark.tables.files.file_columns import FileColumns

D = decimal.Decimal
NULL = b"\0"


def group(type_: pa.DataType | None, *, has_value: bool = True) -> pa.DataType:
    """A field of an object, or an element of an array."""
    fields = [("value", pa.binary())] if has_value else []
    return pa.struct(fields if type_ is None else [*fields, ("typed_value", type_)])


def column(type_: pa.DataType, *, has_value: bool = True) -> pa.DataType:
    fields = [pa.field("metadata", pa.binary(), nullable=False)]
    fields += [pa.field("value", pa.binary())] if has_value else []
    return pa.struct([*fields, pa.field("typed_value", type_)])


def assembled(type_: pa.DataType, rows: Sequence[dict[str, Any] | None]) -> list[Any]:
    assert is_shredded(type_)
    found = assemble_variants(pa.array(rows, type_))
    assert found.type == VARIANT
    return [None if row is None else ("variant", decode_variant(**row)) for row in found.to_pylist()]


EVENT = column(pa.struct([("type", group(pa.string())), ("at", group(pa.timestamp("us")))]))


def test_objects_of_the_specification() -> None:
    def row(typed: Any, value: bytes | None = None) -> dict[str, Any]:
        return {"metadata": encode_variant({"type": "noop", "at": 1}).metadata, "value": value, "typed_value": typed}

    rows = [
        row({"type": {"typed_value": "noop"}, "at": {"typed_value": 1729794114937000}}),
        # A field of another type, and one that is absent.
        row({"type": {"value": encode_variant(5).value}, "at": {}}),
        # Fields that are null.
        row({"type": {"value": NULL}, "at": {"value": NULL}}),
        row({"type": {}, "at": {}}),
        # No objects.
        row(None, encode_variant("malformed").value),
        row(None, NULL),
        None,
    ]
    assert assembled(EVENT, rows) == [
        ("variant", {"type": "noop", "at": Timestamp(1729794114937000, False)}),
        ("variant", {"type": 5}),
        ("variant", {"type": None, "at": None}),
        ("variant", {}),
        ("variant", "malformed"),
        ("variant", None),
        None,
    ]


def test_other_fields_of_a_partially_shredded_object_remain() -> None:
    names = {"type": 0, "extra": {"type": 1}}
    metadata = encode_variant(names).metadata
    ids = {"extra": 0, "type": 1}
    # An object with one field, named by its place in the metadata, whose value is an object with another one.
    inner = bytes([0b10, 1, ids["type"], 0, 2]) + encode_variant(1).value
    rest = bytes([0b10, 1, ids["extra"], 0, len(inner)]) + inner
    rows = [{"metadata": metadata, "value": rest, "typed_value": {"type": {"typed_value": "login"}, "at": {}}}]
    assert assembled(EVENT, rows) == [("variant", {"type": "login", "extra": {"type": 1}})]


def test_arrays_of_the_specification() -> None:
    tags = column(pa.list_(group(pa.string())))
    metadata = encode_variant([]).metadata
    listed = [
        [{"typed_value": "comedy"}, {"typed_value": "drama"}],
        [{"typed_value": "horror"}, {"value": NULL}],
        [{"value": encode_variant(["nested"]).value}, {}],
        [],
        None,
    ]
    rows = [{"metadata": metadata, "value": NULL if one is None else None, "typed_value": one} for one in listed]
    expected = [["comedy", "drama"], ["horror", None], [["nested"], None], [], None]
    assert assembled(tags, rows) == [("variant", one) for one in expected]
    array = pa.array([*rows, None], tags)
    assert assemble_variants(array.slice(1, 3)).equals(assemble_variants(array).slice(1, 3))


def test_objects_in_arrays_in_objects() -> None:
    item = pa.struct([("price", group(pa.decimal128(9, 2), has_value=False)), ("name", group(None))])
    type_ = column(pa.struct([("items", group(pa.list_(group(item)))), ("none", group(None))]), has_value=False)
    names = encode_variant({"items": 1, "price": 1, "name": 1, "none": 1})
    items = [
        {"typed_value": {"price": {"typed_value": D("1.50")}, "name": {"value": encode_variant("pen").value}}},
        {"typed_value": {"price": {"typed_value": None}, "name": {}}},
        {"value": encode_variant(7).value},
    ]
    rows = [
        {"metadata": names.metadata, "typed_value": {"items": {"typed_value": items}, "none": {}}},
        None,
        {"metadata": names.metadata, "typed_value": {"items": {"value": encode_variant("sold").value}, "none": {"value": NULL}}},
    ]
    assert assembled(type_, rows) == [
        ("variant", {"items": [{"price": D("1.50"), "name": "pen"}, {}, 7]}),
        None,
        ("variant", {"items": "sold", "none": None}),
    ]


@pytest.mark.parametrize(
    ("type_", "value", "node"),
    [
        (pa.bool_(), True, True),
        (pa.int8(), -5, -5),
        (pa.int64(), 2**62, 2**62),
        (pa.float32(), 1.5, Float(1.5)),
        (pa.float64(), -0.0, -0.0),
        (pa.decimal128(38, 3), D("-1.500"), D("-1.500")),
        (pa.date32(), -1, Date(-1)),
        (pa.timestamp("us", "UTC"), 10**18, Timestamp(10**18, True)),
        (pa.binary(), b"\xff", b"\xff"),
        (pa.string(), "é", "é"),
    ],
    ids=str,
)
def test_values_of_every_type(type_: pa.DataType, value: Any, node: Any) -> None:
    typed = pa.array([value, None], type_)
    metadata = pa.array([encode_variant(0).metadata] * 2, pa.binary())
    values = pa.array([None, encode_variant("other").value], pa.binary())
    array = pa.StructArray.from_arrays([metadata, values, typed], fields=list(column(type_)))
    first, second = (Variant(**one) for one in assemble_variants(array).to_pylist())
    assert first == encode_variant(node)
    assert second == encode_variant("other")


@pytest.mark.parametrize("type_", [pa.time64("us"), pa.timestamp("ns"), pa.binary(16)], ids=str)
def test_types_that_are_not_supported_are_named_with_the_column(type_: pa.DataType) -> None:
    rows = pa.table({"doc": pa.nulls(1, column(pa.list_(group(type_))))})
    with pytest.raises(
        DataError, match=r"column doc cannot be read as VARIANT: .* shredded VARIANT with parts of type .* without shredding"
    ):
        FileColumns.by_name({"doc": VARIANT}).in_file(rows.schema).complete(rows)


def test_values_of_types_that_are_not_known_survive_unless_they_are_inside_others() -> None:
    unknown = bytes([17 << 2]) + bytes(8)
    metadata = encode_variant(0).metadata
    kept = pa.array([{"metadata": metadata, "value": unknown, "typed_value": None}], column(pa.int32()))
    assert assemble_variants(kept).to_pylist() == [{"metadata": metadata, "value": unknown}]
    rows = [{"metadata": metadata, "value": None, "typed_value": [{"value": unknown}]}]
    with pytest.raises(DataError, match="a VARIANT has a value of type 17"):
        assembled(column(pa.list_(group(pa.string()))), rows)


SCALARS = st.integers(-(2**31), 2**31 - 1) | st.text(st.characters(codec="utf-8"), max_size=4) | st.none() | st.booleans()
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=10,
)
_LEAF = {pa.int32(): int, pa.string(): str}
SHAPES = st.recursive(
    st.sampled_from([pa.int32(), pa.string()]),
    lambda inner: inner.map(lambda item: pa.list_(group(item))) | st.dictionaries(
        st.sampled_from(["a", "b"]), inner, min_size=1, max_size=2
    ).map(lambda fields: pa.struct([(name, group(type_)) for name, type_ in fields.items()])),
    max_leaves=4,
)  # fmt: skip
NAMES = encode_variant({"a": 0, "b": 0, "c": 0}).metadata


def shred(node: Any, type_: pa.DataType) -> dict[str, Any]:
    """How a writer shreds a value, in the simplest way: as far as types and fields fit."""
    if pa.types.is_list(type_) and isinstance(node, list):
        return {"typed_value": [shred(item, type_.value_type.field("typed_value").type) for item in node]}
    if pa.types.is_struct(type_) and isinstance(node, dict):
        members = {f.name: shred(node[f.name], f.type.field("typed_value").type) if f.name in node else {} for f in type_}
        rest = {name: member for name, member in node.items() if name not in members}
        return {"typed_value": members, "value": value_of(rest) if rest else None}
    if type_ in _LEAF and type(node) is _LEAF[type_]:
        return {"typed_value": node}
    return {"value": value_of(node)}


def value_of(node: Any) -> bytes:
    """The bytes of a value with the names a, b, and c, whichever it uses."""
    if isinstance(node, dict):
        names = sorted(node)
        parts = [value_of(node[name]) for name in names]
        ids = bytes("abc".index(name) for name in names)
        return bytes([2 | 3 << 2, len(names)]) + ids + _offsets(parts) + b"".join(parts)
    if isinstance(node, list):
        parts = [value_of(item) for item in node]
        return bytes([3 | 3 << 2, len(parts)]) + _offsets(parts) + b"".join(parts)
    return encode_variant(node).value


def _offsets(parts: list[bytes]) -> bytes:
    places = [sum(map(len, parts[:at])) for at in range(len(parts) + 1)]
    return b"".join(place.to_bytes(4, "little") for place in places)


@given(SHAPES, st.lists(DOCUMENTS, min_size=1, max_size=5))
def test_values_are_what_they_were_before_shredding(shape: pa.DataType, documents: list[Any]) -> None:
    rows = [{"metadata": NAMES, **shred(node, shape)} for node in documents]
    assert assembled(column(shape), rows) == [("variant", node) for node in documents]
