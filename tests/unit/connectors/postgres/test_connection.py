"""Quoting in SQL and replication commands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from connectors.postgres.connection import quote_identifier, quote_literal


@given(st.text(max_size=30))
def test_quoted_text_cannot_end_the_quotes(name: str) -> None:
    inside = quote_identifier(name)[1:-1]
    assert '"' not in inside.replace('""', "")
    assert "'" not in quote_literal(name)[1:-1].replace("''", "")
