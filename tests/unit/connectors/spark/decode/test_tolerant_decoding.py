"""A bad record changes nothing about the others: not their types, and not whether they are bad."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from connect.converters.json.converter import JsonConverter
from connect.errors import DataError
from connect.record import SinkRecord
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.tolerant_decoding import decode_raw_tolerantly, decode_renamed
from connectors.spark.decode.topic_decoder import TopicDecoder


def decoder(*, rescues: bool = False) -> TopicDecoder:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, is_key=False)
    return TopicDecoder(
        "t", converter, converter, key_schemas=False, value_schemas=False, fill_defaults=False, key_name=None,
        needs_names=False, needs_keys=False, rescues=rescues,
    )  # fmt: skip


def buffer(lines: list[bytes]) -> RawBuffer:
    return RawBuffer("t", [0] * len(lines), list(range(len(lines))), [None] * len(lines), list(lines))


def text(node: Any) -> bytes:
    return node if isinstance(node, bytes) else json.dumps(node).encode()


Found = tuple[dict[str, pa.DataType], dict[int, Any], list[int]]


def found_in(reader: TopicDecoder, changes: list[ChangeBatch], bad_records: list[BadRecord]) -> Found:
    """The inferred types, the rows by offset, and the offsets of the bad records."""
    rows = {
        offset: row for one in changes for offset, row in zip(one.meta["offset"].to_pylist(), one.image.to_pylist(), strict=True)
    }
    types = {member.name: member.type for member in reader.inferred_value_schema.row}
    return types, rows, [bad.offset for bad in bad_records]


def decode_raw(nodes: list[Any], *, rescues: bool = False) -> Found:
    reader = decoder(rescues=rescues)
    return found_in(reader, *decode_raw_tolerantly(reader, buffer(list(map(text, nodes))), 0))


def decode_records(nodes: list[Any]) -> Found:
    reader = decoder()
    values = [node.decode() if isinstance(node, bytes) else node for node in nodes]
    records = [SinkRecord("t", 0, None, None, None, value, at) for at, value in enumerate(values)]
    (found,) = decode_renamed(lambda _origin, _topic: reader, records, 0)
    return found_in(reader, list(found.changes), list(found.bad_records))


PRICES = [1, 2, 3, 4, 5, 6, 7.5, 8, 9.25, 10]
GARBAGE = b"oops"


@pytest.mark.parametrize("decode", [decode_raw, decode_records])
@pytest.mark.parametrize("bad", [GARBAGE, [1], {"id": 5, "price": "x"}, {"id": 5, "price": {"x": 1}}], ids=str)
@pytest.mark.parametrize("at", [0, 3, 10])
def test_a_bad_record_does_not_narrow_the_type_of_a_new_column(decode: Any, bad: Any, at: int) -> None:
    nodes: list[Any] = [{"id": i, "price": price} for i, price in enumerate(PRICES)]
    nodes.insert(at, bad)
    types, rows, refused = decode(nodes)
    assert types == {"id": pa.int64(), "price": pa.float64()}
    assert refused == [at]
    assert [row["price"] for _, row in sorted(rows.items())] == PRICES


def test_a_bad_record_sets_no_value_of_others_aside() -> None:
    types, rows, refused = decode_raw([{"price": price} for price in PRICES] + [GARBAGE], rescues=True)
    assert (types, refused) == ({"price": pa.float64()}, [10])
    assert [row for _, row in sorted(rows.items())] == [{"price": price} for price in PRICES]


def test_types_of_a_bad_batch_are_those_of_all_its_other_records() -> None:
    nodes = [{"a": []}, {"a": None}, {"a": []}, {"a": [1]}, {"a": [2.5], "b": {"x": 1}}, {"b": {"x": 0.5}}, GARBAGE]
    types, rows, refused = decode_raw(nodes)
    assert types == {"a": pa.list_(pa.float64()), "b": pa.struct([("x", pa.float64())])}
    assert (sorted(rows), refused) == ([0, 1, 2, 3, 4, 5], [6])


def test_the_majority_decides_between_types_that_do_not_fit_together() -> None:
    nodes = [{"a": "x"}, *({"a": number} for number in (1, 2, 3.5)), {"a": "y"}, GARBAGE, {"a": 4}]
    types, rows, refused = decode_raw(nodes)
    assert (types, sorted(rows), refused) == ({"a": pa.float64()}, [1, 2, 3, 6], [0, 4, 5])


def test_a_number_that_the_type_of_the_others_changes_is_bad() -> None:
    types, rows, refused = decode_raw([{"a": 1}, {"a": (1 << 53) + 1}, {"a": 2}, {"a": 0.5}, GARBAGE])
    assert (types, sorted(rows), refused) == ({"a": pa.float64()}, [0, 2, 3], [1, 4])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([0.5, -2.25, "", "x", "2024-01-01"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=4,
)
DOCUMENTS = st.lists(st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2), min_size=1, max_size=9)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@example([{"a": None}, {"a": 1}], [9])
@example([{}, {"a": []}, {"a": [[]]}], [0])
@given(DOCUMENTS, st.lists(st.integers(0, 9), min_size=1, max_size=3))
def test_records_that_fit_together_are_the_same_beside_garbage(nodes: list[Any], places: list[int]) -> None:
    reader = decoder()
    try:
        changes = reader.decode_raw(buffer(list(map(text, nodes))), 0)
    except DataError:
        return
    types, rows, _ = found_in(reader, changes, [])
    mixed = list(nodes)
    for at in places:
        mixed.insert(at, GARBAGE)
    found_types, found_rows, refused = decode_raw(mixed)
    assert found_types == types
    assert [row for _, row in sorted(found_rows.items())] == [row for _, row in sorted(rows.items())]
    assert refused == [at for at, node in enumerate(mixed) if node is GARBAGE]
