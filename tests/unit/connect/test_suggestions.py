"""Suggestions of the nearest known name."""

from __future__ import annotations

from connect.suggestions import did_you_mean, nearest

KNOWN = ("upsert", "insert", "update")


def test_nearest_is_the_most_similar_candidate() -> None:
    assert nearest("upsrt", KNOWN) == "upsert"
    assert nearest("updte", iter(KNOWN)) == "update"


def test_nothing_is_suggested_below_the_cutoff() -> None:
    assert nearest("merge", KNOWN) is None
    assert nearest("upsrt", KNOWN, cutoff=0.95) is None
    assert nearest("upsert", ()) is None


def test_question_names_the_nearest_candidate() -> None:
    assert did_you_mean("upsrt", KNOWN) == "did you mean upsert?"
    assert did_you_mean("upsrt", KNOWN, "; ") == "; did you mean upsert?"
    assert did_you_mean("merge", KNOWN, "; ") == ""
