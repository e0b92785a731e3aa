"""Texts from regular expressions: each matches, and has an allowed length."""

from __future__ import annotations

import contextlib
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.errors import SchemaError
from connect.java.regex import compile_java_regex
from connectors.datagen.regex_text import text_sampler
from tests.support import randomness

ATOMS = st.sampled_from(["a", "xyz", r"\.", r"\d", r"\w", r"\S", ".", "[a-f]", "[^a-z]", "[a-z&&[^b]]", r"\p{Upper}", r"\x41"])
COUNTS = st.sampled_from(["", "", "?", "*", "+", "{3}", "{0,2}", "{2,}", "+?"])
EXPRESSIONS = st.recursive(
    st.builds(lambda atom, count: f"(?:{atom}){count}" if count else atom, ATOMS, COUNTS),
    lambda inner: st.one_of(
        st.builds(lambda parts: "".join(parts), st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda one, other, count: f"({one}|{other}){count}", inner, inner, COUNTS),
    ),
    max_leaves=3,
)


@settings(max_examples=60, deadline=None)
@given(EXPRESSIONS, st.integers(0, 2**32))
def test_every_text_matches_its_expression(expression: str, seed: int) -> None:
    matches = compile_java_regex(expression).fullmatch
    sample, random = text_sampler(expression), Random(seed)
    for _ in range(5):
        assert matches(sample(random)) is not None


@settings(max_examples=40, deadline=None)
@given(EXPRESSIONS, st.integers(0, 8), st.integers(0, 12), st.integers(0, 2**32))
def test_lengths_are_kept_or_refused(expression: str, shortest: int, more: int, seed: int) -> None:
    random, sample = Random(seed), None
    with contextlib.suppress(SchemaError):
        sample = text_sampler(expression, shortest, shortest + more)
    for _ in range(5):
        if sample is None:
            # Refused: no text that the expression generates has such a length.
            assert not shortest <= len(text_sampler(expression)(random)) <= shortest + more
            continue
        text = sample(random)
        assert shortest <= len(text) <= shortest + more
        assert compile_java_regex(expression).fullmatch(text) is not None


def test_every_text_of_a_small_language_is_generated() -> None:
    sample, random = text_sampler("^(a|bc){0,2}$"), randomness.chance()
    assert {sample(random) for _ in range(500)} == {"", "a", "bc", "aa", "abc", "bca", "bcbc"}


def test_lengths_that_only_some_repetitions_reach_are_found() -> None:
    sample, random = text_sampler("(?:ab|cdefg)*", 11, 11), randomness.chance()
    assert {sample(random) for _ in range(300)} == {"cdefgababab", "abcdefgabab", "ababcdefgab", "abababcdefg"}


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("[a-z", "Unclosed character class"),
        ("(a", "Unclosed group"),
        ("a)", "Unexpected"),
        ("*a", "Dangling"),
        ("a{2,1}", "repetition range"),
        ("a{2000}", "at most 1000"),
        ("(a)\\1", "Back references"),
        ("(?=a)b", "Lookaround"),
        ("a++", "Possessive"),
        ("a^b", "beginning"),
        ("[a&&b]", "empty"),
        ("(a{600}){2}", "requires 1200 characters"),
        ("((a{0,100}){0,100}){0,100}", "nest fewer repetitions"),
    ],
)
def test_expressions_that_cannot_be_generated_are_refused(expression: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message) as caught:
        text_sampler(expression)
    assert "regex" in caught.value.message


def test_a_length_that_no_text_has_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"matches texts of 6 to 6 characters, none of the allowed 8 to 10"):
        text_sampler("User_[1-9]", 8, 10)
