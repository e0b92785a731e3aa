"""Chunks are not used if the stream was ahead of their snapshot."""

from __future__ import annotations

import pytest

from connectors.postgres.incremental.visibility import StreamedTransactions


@pytest.mark.parametrize(
    ("streamed", "snapshot", "precedes"),
    [
        ([], "100:100:", True),
        ([90, 99], "100:105:101", True),
        ([101], "100:105:101,103", False),
        ([102], "100:105:101,103", True),
        ([105], "100:105:101", False),
        ([5], f"{(7 << 32) + 100}:{(7 << 32) + 105}:{(7 << 32) + 101}", True),
        ([101], f"{(7 << 32) + 100}:{(7 << 32) + 105}:{(7 << 32) + 101}", False),
        ([0xFFFFFFFE], f"{(8 << 32) + 3}:{(8 << 32) + 4}:", True),
        ([4], f"{(8 << 32) - 3}:{(8 << 32) + 4}:{(8 << 32) - 3}", False),
    ],
)
def test_streamed_transactions_must_be_visible(streamed: list[int], snapshot: str, precedes: bool) -> None:
    transactions = StreamedTransactions()
    for xid in streamed:
        transactions.add(xid)
    assert transactions.precedes(snapshot) is precedes
    assert transactions.precedes(snapshot) is precedes
