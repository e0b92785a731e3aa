"""Texts of decimals and doubles as JSON, against the values that they stand for."""

from __future__ import annotations

import json
from base64 import b64decode
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.converters.json.number_texts import decimal_writer, write_double
from connect.converters.json.value_writer import number_text

_EDGES = [
    n + d for bits in (7, 8, 15, 16, 23, 24, 31, 32, 39, 63, 64, 200) for n in (1 << bits, -(1 << bits)) for d in (-1, 0, 1)
]


def _refuse(text: str) -> str:
    return f"refused {text}"


@given(
    unscaled=st.one_of(st.sampled_from([0, 1, -1, *_EDGES]), st.integers(), st.integers(-1000, 10**10)), scale=st.integers(0, 9)
)
def test_decimals_are_the_shortest_big_endian_integers(unscaled: int, scale: int) -> None:
    value = Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))
    written = json.loads(decimal_writer(scale, _refuse)(f"{value:f}" if scale else str(unscaled)))
    data = b64decode(written, validate=True)
    assert int.from_bytes(data, "big", signed=True) == unscaled
    assert len(data) == (unscaled + (unscaled < 0)).bit_length() // 8 + 1


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1.5", "1.500", "15"])
def test_texts_of_another_form_or_scale_are_left_to_others(text: str) -> None:
    assert decimal_writer(2, _refuse)(text) == f"refused {text}"


def test_special_values_without_a_scale_are_left_to_others() -> None:
    assert decimal_writer(0, _refuse)("NaN") == "refused NaN"


@given(st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.floats(-2e7, 2e7), st.decimals(-(10**8), 10**8, places=3)))
def test_doubles_are_written_like_their_values(value: float | Decimal) -> None:
    for text in {str(value), repr(float(value)), f"{float(value):.17g}", f"{float(value):.3f}"}:
        assert write_double(text) == number_text(float(text), False)
