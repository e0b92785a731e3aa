"""The state of a publication in offsets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.postgres.streaming.publication_state import ListedTable, PublicationState, parse_state

_OIDS = st.integers(1, 2**32 - 1)
_FORMS = st.one_of(st.just(""), st.text("0123456789abcdef", min_size=8, max_size=8))
_OPERATIONS = st.sampled_from([("insert", "update", "delete"), ("insert",), ("update", "delete"), ()])
_STATES = st.builds(
    PublicationState,
    st.text(min_size=1),
    _OIDS,
    st.booleans(),
    st.booleans(),
    _OPERATIONS,
    st.dictionaries(_OIDS, st.builds(ListedTable, _OIDS, _FORMS), max_size=5),
    st.dictionaries(_OIDS, _OIDS, max_size=3),
)


@given(_STATES)
def test_a_state_survives_its_text(state: PublicationState) -> None:
    assert parse_state(state.as_text()) == state


def test_many_tables_are_left_out() -> None:
    state = PublicationState("p", 7, False, True, ("insert",), {oid: ListedTable(1, "") for oid in range(501)}, {})
    assert state.as_text() == "7 ri *  p"
    assert parse_state(state.as_text()) == replace(state, tables=None)


@pytest.mark.parametrize("text", [None, "", "7", "x aiud   p", "7 z   p"])
def test_other_texts_say_nothing(text: str | None) -> None:
    assert parse_state(text) is None
