"""Sets of GTIDs agree with sets of numbers; texts and bytes are MySQL's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.errors import DataError
from connectors.mysql.binlog import GtidSet

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "4350f323-7565-4e59-8763-4b1b83a0ce0e"
Model = set[tuple[str, str, int]]

_parts = st.tuples(st.sampled_from([A, B]), st.sampled_from(["", "x", "tag_1"]), st.integers(1, 30), st.integers(0, 8))
_sets = st.lists(_parts, max_size=12)


def build(parts: list[tuple[str, str, int, int]]) -> tuple[GtidSet, Model]:
    model = {(uuid, tag, n) for uuid, tag, first, more in parts for n in range(first, first + more + 1)}
    return GtidSet((uuid, tag, first, first + more) for uuid, tag, first, more in parts), model


def members(gtids: GtidSet) -> Model:
    return {(uuid, tag, n) for uuid, tag, first, last in gtids for n in range(first, last + 1)}


@settings(deadline=None, max_examples=80)
@given(_sets, _sets)
def test_operations_agree_with_sets_of_numbers(
    ours: list[tuple[str, str, int, int]], theirs: list[tuple[str, str, int, int]]
) -> None:
    (left, left_model), (right, right_model) = build(ours), build(theirs)
    assert members(left) == left_model
    assert members(left.union(right)) == left_model | right_model
    assert members(left.subtract(right)) == left_model - right_model
    assert members(left.intersection(right)) == left_model & right_model
    assert left.is_subset(right) == (left_model <= right_model)
    assert (left == right) == (left_model == right_model)
    assert bool(left) == bool(left_model)
    assert all(left.contains(*one) for one in left_model)
    assert not any(left.contains(*one) for one in right_model - left_model)
    assert GtidSet.parse(str(left)) == left
    raw = left.encode()
    assert GtidSet.decode(raw, 0, len(raw)) == left
    grown = GtidSet()
    for one in sorted(left_model, key=lambda one: (one[2], one)):
        grown.add(*one)
    assert grown == left
    assert str(grown) == str(left)


def test_text_is_canonical() -> None:
    text = f" {A.upper()} : 7 : 1-3:4 - 5,\n{B}:Tag:2, {A}:tag:9-9:12-11"
    assert str(GtidSet.parse(text)) == f"{A}:1-5:7:tag:9,{B}:tag:2"
    assert str(GtidSet.parse("")) == ""
    assert GtidSet.parse(f"{B}:1,{A}:2").sources == (A, B)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1-2", "does not begin with a UUID"),
        (A, "has no interval"),
        (f"{A}:0-3", "is not between 1 and"),
        (f"{A}:1:9999999999999999999", "is not between 1 and"),
        (f"{A}:1-", "is neither an interval nor a tag"),
        (f"{A}:1:tag", "ends with a tag"),
        (f"{A}:{'t' * 33}:1", "is neither an interval nor a tag"),
    ],
)
def test_invalid_texts_are_refused(text: str, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        GtidSet.parse(text)


@pytest.mark.parametrize("change", [(0, 2), (7, 2), (24, 9), (32, 0), (40, 0)])
def test_damaged_bytes_are_refused(change: tuple[int, int]) -> None:
    raw = bytearray(GtidSet.parse(f"{A}:3-5").encode())
    raw[change[0]] = change[1]
    with pytest.raises((IndexError, ValueError)):
        GtidSet.decode(bytes(raw), 0, len(raw))
