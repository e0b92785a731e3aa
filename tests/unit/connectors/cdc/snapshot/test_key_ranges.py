"""Key ranges, and what an offset says about an incomplete snapshot."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.cdc.snapshot.key_ranges import MAX_TEXT, Key, KeyRange, PartialTable, SnapshotState, merge_ranges, split_range

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
keys: st.SearchStrategy[Key] = st.tuples(texts) | st.tuples(texts, texts)
bounds = st.builds(KeyRange, st.none() | keys, st.none() | keys)
tables = st.builds(PartialTable, texts, st.integers(0, 2**63), st.lists(bounds, max_size=3).map(tuple))


@given(st.lists(st.integers(0, 50), unique=True, max_size=8).map(sorted), st.integers(0, 5), st.integers(45, 50))
def test_a_split_range_has_each_key_once(at: list[int], after: int, until: int) -> None:
    whole = KeyRange((f"{after:02}",), (f"{until:02}",))
    inside = [(f"{key:02}",) for key in at if after <= key <= until]
    parts = split_range(whole, inside)
    for key in range(60):
        holders = [part for part in parts if is_in(part, (f"{key:02}",))]
        assert len(holders) == (1 if after < key <= until else 0)
    assert merge_ranges(parts) == [whole]


def is_in(bounds: KeyRange, key: Key) -> bool:
    return (bounds.after is None or key > bounds.after) and (bounds.until is None or key <= bounds.until)


def test_ranges_that_do_not_touch_stay_apart() -> None:
    ranges = [KeyRange(None, ("1",)), KeyRange(("2",), ("3",)), KeyRange(("3",), None)]
    assert merge_ranges(ranges) == [KeyRange(None, ("1",)), KeyRange(("2",), None)]
    assert merge_ranges([KeyRange(), KeyRange()]) == [KeyRange(), KeyRange()]


@given(st.dictionaries(texts, texts, max_size=3), st.dictionaries(texts, tables, max_size=3))
def test_states_survive_the_offset(done: dict[str, str], partial: dict[str, PartialTable]) -> None:
    state = SnapshotState(done, partial)
    text = state.encode()
    assert (text is None) is (not done and not partial)
    parsed = SnapshotState.parse(text)
    assert (parsed.done, parsed.partial) == (done, partial)


def test_a_completed_table_is_no_longer_partial() -> None:
    state = SnapshotState(partial={"7": PartialTable("f", 3, (KeyRange(("3",), None),))})
    assert state.encode() == '{"v":1,"done":{},"partial":{"7":["f",3,[[["3"],null]]]}}'
    state.complete("7", "f")
    assert state.encode() == '{"v":1,"done":{"7":"f"},"partial":{}}'


@pytest.mark.parametrize(
    "text",
    [None, 5, "", "[]", "{}", '{"v":2,"done":{},"partial":{}}', '{"v":1,"done":[],"partial":{}}', '{"v":1,"done":{"x":"f"}}'],
)
def test_unknown_states_mean_that_nothing_is_completed(text: Any) -> None:
    state = SnapshotState.parse(text)
    assert (state.done, state.partial) == ({}, {})


def test_tables_with_another_fingerprint_are_forgotten() -> None:
    partial = PartialTable("p", 1, (KeyRange(("1",), None),))
    state = SnapshotState({"1": "a", "2": "b", "3": "c"}, {"4": partial, "5": partial})
    state.keep({"1": "a", "2": "changed", "4": "p", "5": "changed"})
    assert (state.done, state.partial) == ({"1": "a"}, {"4": partial})


def test_a_state_has_a_limited_length() -> None:
    done = {str(2**32 - 1 - number): "f" * 8 for number in range(50_000)}
    text = SnapshotState(done).encode()
    assert text is not None
    assert MAX_TEXT / 4 < len(text) <= MAX_TEXT
    parsed = SnapshotState.parse(text).done
    assert parsed.items() < done.items()
    long = PartialTable("p", 1, (KeyRange(("x" * MAX_TEXT,), None),))
    assert SnapshotState({"1": "a"}, {"2": long}).encode() == '{"v":1,"done":{"1":"a"},"partial":{}}'
